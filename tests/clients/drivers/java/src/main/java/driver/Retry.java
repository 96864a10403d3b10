package driver;

import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;

/** Repeats calls of libraries that do not repeat them. */
final class Retry {
    private static final long LIMIT = TimeUnit.SECONDS.toNanos(5);
    private static final long PAUSE = 20; // milliseconds

    private Retry() {}

    /** Repeats a call for up to 5 seconds while it fails with a retryable exception. */
    static Object of(Callable<Object> call, Predicate<Exception> retryable) throws Exception {
        long deadline = System.nanoTime() + LIMIT;
        while (true) {
            try {
                return call.call();
            } catch (Exception e) {
                if (!retryable.test(e) || System.nanoTime() > deadline) {
                    throw e;
                }
                Thread.sleep(PAUSE);
            }
        }
    }
}
