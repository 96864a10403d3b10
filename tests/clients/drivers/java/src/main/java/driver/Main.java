package driver;

import java.util.Map;
import java.util.logging.LogManager;

/** Driver of Jedis, Lettuce and Redisson, selected by the option --client; see ../README.md. */
public final class Main {
    /** Time in seconds after which a call of a library without a timeout of its own is abandoned. */
    static final int PATIENCE = 20;

    private Main() {}

    public static void main(String[] args) {
        LogManager.getLogManager().reset(); // Lettuce logs each reconnect
        Options options = Options.parse(args);
        Checks checks = null;
        for (String name : options.checks()) {
            try {
                if (name.equals("version")) {
                    Json.write(Map.of("check", name, "ok", true, "detail", options.library().version()));
                    continue;
                }
                if (checks == null) {
                    checks = new Checks(options);
                }
                checks.run(name);
            } catch (Exception | AssertionError e) {
                Json.write(Map.of("check", name, "ok", false, "detail", String.valueOf(e)));
            }
        }
        System.exit(0); // the libraries have threads of their own
    }
}
