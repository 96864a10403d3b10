package driver;

import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** The options of the command line, each "--name value". Options that are absent are null. */
record Options(Map<String, String> values) {
    static Options parse(String[] args) {
        if (args.length % 2 != 0) {
            throw new IllegalArgumentException("an option has no value: " + Arrays.toString(args));
        }
        Map<String, String> values = new HashMap<>();
        for (int i = 0; i < args.length; i += 2) {
            values.put(args[i], args[i + 1]);
        }
        return new Options(values);
    }

    Library library() {
        return Library.valueOf(values.get("--client").toUpperCase(Locale.ROOT));
    }

    List<String> checks() {
        return List.of(values.get("--check").split(","));
    }

    List<String> addresses() {
        return List.of(values.get("--addr").split(","));
    }

    String mode() {
        return values.getOrDefault("--mode", "standalone");
    }

    /** The version of RESP, or 0 for the default of the library. */
    int resp() {
        return Integer.parseInt(values.getOrDefault("--resp", "0"));
    }

    String user() {
        return values.get("--user");
    }

    String password() {
        return values.get("--password");
    }

    String caFile() {
        return values.get("--tls-ca");
    }

    String key() {
        return values.get("--key");
    }

    int callers() {
        return Integer.parseInt(values.getOrDefault("--callers", "1"));
    }

    Path until() {
        return Path.of(values.get("--until"));
    }
}
