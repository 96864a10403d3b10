package driver;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;

/** Counts the calls of all callers. */
final class Load {
    private static final int BEGUN = 100; // successful calls
    private static final int LONGEST_ERROR = 200;

    private final Path until;
    private final Map<String, Integer> errors = new TreeMap<>();
    private int succeeded;
    private int failed;
    private long last = System.nanoTime();
    private long gap;

    Load(Path until) {
        this.until = until;
    }

    /** Makes calls until the file exists. */
    Void run(Callable<Object> call) throws InterruptedException {
        while (!Files.exists(until)) {
            try {
                call.call();
                succeeded();
            } catch (Exception e) {
                failed(e);
            }
            Thread.sleep(10);
        }
        return null;
    }

    private synchronized void succeeded() {
        long now = System.nanoTime();
        gap = Math.max(gap, now - last);
        last = now;
        if (++succeeded == BEGUN) {
            Json.write(Map.of("check", "load", "event", "begun"));
        }
    }

    private synchronized void failed(Exception e) {
        failed++;
        String text = e.toString();
        errors.merge(text.substring(0, Math.min(text.length(), LONGEST_ERROR)), 1, Integer::sum);
    }

    synchronized Map<String, Object> fields() {
        long silent = System.nanoTime() - last;
        return Map.of("calls", succeeded + failed, "failed", failed, "errors", errors,
                "gap_ms", milliseconds(Math.max(gap, silent)), "last_ms", milliseconds(silent));
    }

    private static double milliseconds(long nanoseconds) {
        return Math.round(nanoseconds / 1e5) / 10.0;
    }
}
