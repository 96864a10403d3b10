package driver;

import io.lettuce.core.AbstractRedisClient;
import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisException;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.SslOptions;
import io.lettuce.core.TimeoutOptions;
import io.lettuce.core.TransactionResult;
import io.lettuce.core.api.StatefulConnection;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.async.BaseRedisAsyncCommands;
import io.lettuce.core.cluster.ClusterClientOptions;
import io.lettuce.core.cluster.ClusterTopologyRefreshOptions;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.ObjectOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import io.lettuce.core.protocol.ProtocolVersion;
import java.io.File;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;

/** Lettuce, with one shared connection. */
final class LettuceDriver implements Client {
    private static final Duration TIMEOUT = Duration.ofSeconds(1);
    private static final Duration REFRESH = Duration.ofMillis(100); // minimum time between two refreshes

    private final AbstractRedisClient client;
    private final boolean cluster;
    private final Retry retry = new Retry();
    private final StatefulConnection<String, String> connection;
    private final BaseRedisAsyncCommands<String, String> commands;

    LettuceDriver(Options options, String password) {
        List<RedisURI> addresses = new ArrayList<>();
        options.addresses().forEach(address -> addresses.add(uri(options, password, address)));
        cluster = options.mode().equals("cluster");
        if (cluster) {
            RedisClusterClient nodes = RedisClusterClient.create(addresses);
            nodes.setOptions(clusterOptions(options));
            var opened = nodes.connect();
            client = nodes;
            connection = opened;
            commands = opened.async();
            return;
        }
        RedisClient single = RedisClient.create(options.mode().equals("sentinel") ? sentinelURI(options, password, addresses) : addresses.get(0));
        single.setOptions(fill(ClientOptions.builder(), options).build());
        var opened = single.connect();
        client = single;
        connection = opened;
        commands = opened.async();
    }

    private static RedisURI uri(Options options, String password, String address) {
        int colon = address.lastIndexOf(':');
        RedisURI.Builder uri = RedisURI.builder().withHost(address.substring(0, colon)).withPort(Integer.parseInt(address.substring(colon + 1)));
        return secured(uri, options, password).build();
    }

    private static RedisURI.Builder secured(RedisURI.Builder uri, Options options, String password) {
        if (options.user() != null) {
            uri.withAuthentication(options.user(), password);
        } else if (password != null) {
            uri.withPassword(password.toCharArray());
        }
        return uri.withSsl(options.caFile() != null);
    }

    private static RedisURI sentinelURI(Options options, String password, List<RedisURI> sentinels) {
        RedisURI.Builder uri = RedisURI.builder().withSentinelMasterId("mymaster");
        sentinels.forEach(uri::withSentinel);
        return secured(uri, options, password).build();
    }

    /** The settings of docs/clients.md. */
    private static ClusterClientOptions clusterOptions(Options options) {
        ClusterClientOptions.Builder builder = ClusterClientOptions.builder();
        fill(builder, options);
        ClusterTopologyRefreshOptions refresh = ClusterTopologyRefreshOptions.builder().enableAllAdaptiveRefreshTriggers()
                .adaptiveRefreshTriggersTimeout(REFRESH).enablePeriodicRefresh(TIMEOUT).build();
        return builder.timeoutOptions(TimeoutOptions.enabled(TIMEOUT)).topologyRefreshOptions(refresh)
                .disconnectedBehavior(ClientOptions.DisconnectedBehavior.REJECT_COMMANDS).build();
    }

    private static ClientOptions.Builder fill(ClientOptions.Builder builder, Options options) {
        if (options.resp() != 0) {
            builder.protocolVersion(options.resp() == 3 ? ProtocolVersion.RESP3 : ProtocolVersion.RESP2);
        }
        if (options.caFile() != null) {
            builder.sslOptions(SslOptions.builder().jdkSslProvider().trustManager(new File(options.caFile())).build());
        }
        return builder;
    }

    private RedisFuture<Object> send(String[] words) {
        CommandArgs<String, String> arguments = new CommandArgs<>(StringCodec.UTF8);
        for (int i = 1; i < words.length; i++) {
            arguments = i == 1 ? arguments.addKey(words[i]) : arguments.add(words[i]);
        }
        return commands.dispatch(new Keyword(words[0]), new ObjectOutput<>(StringCodec.UTF8), arguments);
    }

    private record Keyword(String name) implements ProtocolKeyword {
        @Override
        public byte[] getBytes() {
            return name.getBytes(StandardCharsets.US_ASCII);
        }

        @Override
        public String toString() {
            return name;
        }
    }

    /** In a cluster, Lettuce repeats a call on the same node only. */
    @Override
    public Object call(String... words) throws Exception {
        return retry.of(() -> await(send(words)), e -> cluster && !(e instanceof RedisCommandExecutionException));
    }

    @Override
    public int repeated() {
        return retry.repeated();
    }

    private static Object await(RedisFuture<Object> future) throws Exception {
        try {
            return future.get(Main.PATIENCE, TimeUnit.SECONDS);
        } catch (ExecutionException e) {
            throw e.getCause() instanceof Exception cause ? cause : e;
        }
    }

    @Override
    public List<Object> pipeline(List<String[]> list) throws Exception {
        List<RedisFuture<Object>> futures = new ArrayList<>();
        connection.setAutoFlushCommands(false);
        try {
            list.forEach(words -> futures.add(send(words)));
            connection.flushCommands();
        } finally {
            connection.setAutoFlushCommands(true);
        }
        List<Object> replies = new ArrayList<>();
        for (RedisFuture<Object> future : futures) {
            try {
                replies.add(await(future));
            } catch (RedisCommandExecutionException e) {
                replies.add(e);
            }
        }
        return replies;
    }

    @Override
    public List<Object> transaction(List<String[]> list) throws Exception {
        if (!(connection instanceof StatefulRedisConnection<String, String> single)) {
            throw new UnsupportedOperationException("no transactions in a cluster");
        }
        single.sync().multi();
        list.forEach(this::send);
        TransactionResult result = single.sync().exec();
        return result.stream().toList();
    }

    @Override
    public Class<? extends Throwable> errorType() {
        return RedisException.class;
    }

    @Override
    public void close() {
        connection.close();
        client.shutdown(0, 1, TimeUnit.SECONDS);
    }
}
