package driver;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;

/** Counts the calls of all callers. */
final class Load {
    private static final int BEGUN = 100; // successful calls
    private static final int LONGEST_ERROR = 200;

    private final Path until;
    private final List<Map<String, Integer>> errors = new ArrayList<>(); // of each caller, by text
    private int succeeded;
    private int failed;
    private long last = System.nanoTime();
    private long gap;

    Load(Path until) {
        this.until = until;
    }

    /** Makes the calls of one caller until the file exists. */
    Void run(Callable<Object> call) throws InterruptedException {
        Map<String, Integer> own = addCaller();
        while (!Files.exists(until)) {
            try {
                call.call();
                succeeded();
            } catch (Exception e) {
                failed(e, own);
            }
            Thread.sleep(10);
        }
        return null;
    }

    private synchronized Map<String, Integer> addCaller() {
        errors.add(new TreeMap<>());
        return errors.get(errors.size() - 1);
    }

    private synchronized void succeeded() {
        long now = System.nanoTime();
        gap = Math.max(gap, now - last);
        last = now;
        if (++succeeded == BEGUN) {
            Json.write(Map.of("check", "load", "event", "begun"));
        }
    }

    private synchronized void failed(Exception e, Map<String, Integer> own) {
        failed++;
        String text = e.toString();
        own.merge(text.substring(0, Math.min(text.length(), LONGEST_ERROR)), 1, Integer::sum);
    }

    synchronized Map<String, Object> fields() {
        long silent = System.nanoTime() - last;
        return Map.of("calls", succeeded + failed, "errors", errors,
                "gap_ms", milliseconds(Math.max(gap, silent)), "last_ms", milliseconds(silent));
    }

    private static double milliseconds(long nanoseconds) {
        return Math.round(nanoseconds / 1e5) / 10.0;
    }
}
