package shop;

import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.ArrayOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import io.lettuce.core.protocol.ProtocolVersion;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.springframework.beans.factory.DisposableBean;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.stereotype.Component;

/** Runs CL.CHECK on one connection, which all requests share. A call that has timed out closes it, and the next call opens a new one. */
@Component
class Limiter implements DisposableBean {
    private static final ProtocolKeyword CHECK = () -> "CL.CHECK".getBytes(StandardCharsets.US_ASCII);

    private final long deadline; // ms
    private final RedisURI uri;
    private final RedisClient client = RedisClient.create();
    private CompletableFuture<StatefulRedisConnection<String, String>> connection;

    Limiter(@Value("${limiter.url}") String url, @Value("${limiter.deadline-ms}") long deadline) {
        this.deadline = deadline;
        uri = RedisURI.create(url);
        uri.setTimeout(Duration.ofSeconds(1)); // of the handshake, which runs in the background
        // Calls of a lost connection fail: a call that is sent again could be charged twice.
        client.setOptions(ClientOptions.builder().autoReconnect(false).protocolVersion(ProtocolVersion.RESP2).build());
    }

    /** Returns the reply, or throws an exception after the deadline. */
    List<Object> check(String domain, String... attributes) throws InterruptedException, ExecutionException, TimeoutException {
        var args = new CommandArgs<>(StringCodec.UTF8).add(domain).addValues(attributes);
        var current = connection();
        try {
            return current.thenCompose(c -> c.async().dispatch(CHECK, new ArrayOutput<>(StringCodec.UTF8), args))
                    .get(deadline, TimeUnit.MILLISECONDS);
        } catch (TimeoutException e) {
            if (isOpen(current)) {
                current.join().closeAsync();
            }
            throw e;
        }
    }

    private synchronized CompletableFuture<StatefulRedisConnection<String, String>> connection() {
        if (connection == null || connection.isDone() && !isOpen(connection)) {
            connection = client.connectAsync(StringCodec.UTF8, uri).toCompletableFuture();
        }
        return connection;
    }

    private static boolean isOpen(CompletableFuture<StatefulRedisConnection<String, String>> connection) {
        return connection.isDone() && !connection.isCompletedExceptionally() && connection.join().isOpen();
    }

    @Override
    public void destroy() {
        client.shutdown();
    }
}
