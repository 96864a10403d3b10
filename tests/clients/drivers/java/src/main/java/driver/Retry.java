package driver;

import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Predicate;

/** Repeats the calls of a library that does not repeat them, and counts the calls that it repeats. */
final class Retry {
    private static final long LIMIT = TimeUnit.SECONDS.toNanos(5);
    private static final long PAUSE = 20; // milliseconds

    private final AtomicInteger repeated = new AtomicInteger();

    int repeated() {
        return repeated.get();
    }

    /** Repeats a call for up to 5 seconds while it fails with a retryable exception. */
    Object of(Callable<Object> call, Predicate<Exception> retryable) throws Exception {
        long deadline = System.nanoTime() + LIMIT;
        for (int attempt = 1;; attempt++) {
            try {
                return call.call();
            } catch (Exception e) {
                if (!retryable.test(e) || System.nanoTime() > deadline) {
                    throw e;
                }
                if (attempt == 1) {
                    repeated.incrementAndGet();
                }
                Thread.sleep(PAUSE);
            }
        }
    }
}
