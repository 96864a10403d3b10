package driver;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.LongStream;

/** The checks. A check throws if it fails, and otherwise returns additional fields of its result. */
final class Checks {
    private static final List<Long> FIRST_DECISION = List.of(0L, 16L, 15L, -1L, 2L);
    private static final long RECONNECT = TimeUnit.SECONDS.toNanos(10);

    private final Options options;
    private final Client client;
    private final Map<String, Callable<Map<String, ?>>> checks = Map.of(
            "connect", this::connect, "pipeline", this::pipeline, "transaction", this::transaction, "error", this::error,
            "auth", this::auth, "concurrent", this::concurrent, "reconnect", this::reconnect, "load", this::load);

    Checks(Options options) throws Exception {
        this.options = options;
        client = options.library().open(options, options.password());
    }

    void run(String name) throws Exception {
        Map<String, Object> fields = new LinkedHashMap<>(Map.of("check", name, "ok", true));
        fields.putAll(checks.get(name).call());
        Json.write(fields);
    }

    private String[] throttle(String check, String... limit) {
        List<String> words = new ArrayList<>(List.of("CL.THROTTLE", options.key() + ":" + check));
        Collections.addAll(words, limit);
        return words.toArray(String[]::new);
    }

    private Map<String, ?> connect() throws Exception {
        expect(client.call(throttle("connect", "15", "30", "60")), FIRST_DECISION);
        return Map.of();
    }

    private Map<String, ?> pipeline() throws Exception {
        countsDown(client.pipeline(Collections.nCopies(1000, throttle("pipeline", "999", "1", "3600"))), 1000);
        return Map.of();
    }

    private Map<String, ?> transaction() throws Exception {
        countsDown(client.transaction(Collections.nCopies(10, throttle("transaction", "9", "1", "3600"))), 10);
        return Map.of();
    }

    /** Checks that the remaining counts of n decisions are n-1 to 0. */
    private static void countsDown(List<Object> decisions, int n) {
        List<Long> remaining = decisions.stream().map(decision -> integers(decision).get(2)).toList();
        expect(remaining, LongStream.range(0, n).mapToObj(i -> n - 1 - i).toList());
    }

    @SuppressWarnings("unchecked")
    private static List<Long> integers(Object reply) {
        return (List<Long>) reply;
    }

    private Map<String, ?> error() throws Exception {
        fails(() -> client.call(throttle("error", "x", "1", "60")), "max_burst");
        expect(integers(client.call(throttle("error", "15", "30", "60"))).size(), 5);
        return Map.of();
    }

    private Map<String, ?> auth() throws Exception {
        fails(() -> {
            try (Client stranger = options.library().open(options, "wrong")) {
                return stranger.call(throttle("auth", "15", "30", "60"));
            }
        }, "");
        return Map.of();
    }

    /** Checks that a call fails with an error of the library whose message contains text. */
    private void fails(Callable<Object> call, String text) throws Exception {
        Object reply;
        try {
            reply = call.call();
        } catch (Exception e) {
            if (client.errorType().isInstance(e) && String.valueOf(e.getMessage()).contains(text)) {
                return;
            }
            throw e;
        }
        throw new AssertionError("got " + reply + ", want an error");
    }

    private Map<String, ?> concurrent() throws Exception {
        int admitted = 0;
        for (int n : concurrently(this::admissions)) {
            admitted += n;
        }
        return Map.of("admitted", admitted);
    }

    /** Makes the calls of one caller, and returns the number of admitted ones. */
    private int admissions() throws Exception {
        int admitted = 0;
        for (int i = 0; i < 4; i++) {
            if (integers(client.call(throttle("concurrent", "99", "1", "3600"))).get(0) == 0) {
                admitted++;
            }
        }
        return admitted;
    }

    /** Runs the work of all callers, and returns their results. */
    private <T> List<T> concurrently(Callable<T> work) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(options.callers());
        try {
            List<T> results = new ArrayList<>();
            for (Future<T> result : threads.invokeAll(Collections.nCopies(options.callers(), work))) {
                results.add(result.get());
            }
            return results;
        } catch (ExecutionException e) {
            throw e.getCause() instanceof Exception cause ? cause : e;
        } finally {
            threads.shutdown();
        }
    }

    private Map<String, ?> reconnect() throws Exception {
        String[] command = throttle("reconnect", "15", "30", "60");
        client.call(command);
        Json.write(Map.of("check", "reconnect", "event", "ready"));
        awaitLine();
        long deadline = System.nanoTime() + RECONNECT;
        for (int failed = 0;; failed++) {
            try {
                client.call(command);
                return Map.of("failed", failed);
            } catch (Exception e) {
                if (System.nanoTime() > deadline) {
                    throw e;
                }
                Thread.sleep(10);
            }
        }
    }

    private static void awaitLine() throws IOException {
        int c;
        do {
            c = System.in.read();
        } while (c != '\n' && c != -1);
    }

    private Map<String, ?> load() throws Exception {
        Load load = new Load(options.until());
        String[] command = throttle("load", "1000000", "1000000", "60");
        concurrently(() -> load.run(() -> client.call(command)));
        Map<String, Object> fields = new LinkedHashMap<>(load.fields());
        fields.put("repeated", client.repeated());
        return fields;
    }

    private static void expect(Object got, Object want) {
        if (!want.equals(got)) {
            throw new AssertionError("got " + got + ", want " + want);
        }
    }
}
