package driver;

import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Supplier;
import redis.clients.jedis.AbstractPipeline;
import redis.clients.jedis.AbstractTransaction;
import redis.clients.jedis.BuilderFactory;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.CommandObject;
import redis.clients.jedis.ConnectionPoolConfig;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisClientConfig;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisClusterClient;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.RedisSentinelClient;
import redis.clients.jedis.Response;
import redis.clients.jedis.UnifiedJedis;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.executors.RetryableCommandExecutor;
import redis.clients.jedis.providers.SentineledConnectionProvider;
import redis.clients.jedis.util.SafeEncoder;

/** Jedis, with its default pool. */
final class JedisDriver implements Client {
    private static final Duration REFRESH = Duration.ofSeconds(1);
    private static final Duration WAIT = Duration.ofSeconds(5); // for a connection
    private static final int CONNECTIONS = 50; // per node
    private static final int ATTEMPTS = 5;
    private static final Duration RETRIES = Duration.ofSeconds(5); // for all attempts of a call

    private final UnifiedJedis client;

    JedisDriver(Options options, String password) throws Exception {
        DefaultJedisClientConfig.Builder config = DefaultJedisClientConfig.builder();
        if (options.resp() != 0) {
            config.protocol(options.resp() == 3 ? RedisProtocol.RESP3 : RedisProtocol.RESP2);
        }
        if (options.caFile() != null) {
            config.ssl(true).sslSocketFactory(Trust.context(options.caFile()).getSocketFactory());
        }
        if (password != null) {
            config.user(options.user()).password(password);
        }
        client = open(options, config.build());
    }

    private static UnifiedJedis open(Options options, JedisClientConfig config) {
        Set<HostAndPort> nodes = new LinkedHashSet<>();
        options.addresses().forEach(address -> nodes.add(HostAndPort.from(address)));
        return switch (options.mode()) {
            case "standalone" -> RedisClient.builder().hostAndPort(nodes.iterator().next()).clientConfig(config).build();
            case "cluster" -> RedisClusterClient.builder().nodes(nodes).clientConfig(config).topologyRefreshPeriod(REFRESH)
                    .maxAttempts(ATTEMPTS).maxTotalRetriesDuration(RETRIES).poolConfig(pool()).build();
            case "sentinel" -> sentinel(nodes, config);
            default -> throw new IllegalArgumentException("unknown mode " + options.mode());
        };
    }

    /** The default executor of a client of Sentinel does not repeat calls. */
    private static UnifiedJedis sentinel(Set<HostAndPort> nodes, JedisClientConfig config) {
        var provider = new SentineledConnectionProvider("mymaster", config, nodes, config);
        return RedisSentinelClient.builder().masterName("mymaster").sentinels(nodes).clientConfig(config).sentinelClientConfig(config)
                .connectionProvider(provider).commandExecutor(new RetryableCommandExecutor(provider, ATTEMPTS, RETRIES)).build();
    }

    /** By default, a call that waits for one of eight connections has no timeout. */
    private static ConnectionPoolConfig pool() {
        ConnectionPoolConfig pool = new ConnectionPoolConfig();
        pool.setMaxTotal(CONNECTIONS);
        pool.setMaxWait(WAIT);
        return pool;
    }

    private static CommandObject<Object> command(String[] words) {
        CommandArguments arguments = new CommandArguments(() -> SafeEncoder.encode(words[0]));
        for (int i = 1; i < words.length; i++) {
            arguments = i == 1 ? arguments.key(words[i]) : arguments.add(words[i]);
        }
        return new CommandObject<>(arguments, BuilderFactory.ENCODED_OBJECT);
    }

    @Override
    public Object call(String... words) {
        return client.executeCommand(command(words));
    }

    @Override
    public List<Object> pipeline(List<String[]> commands) {
        List<Response<Object>> responses = new ArrayList<>();
        try (AbstractPipeline pipeline = client.pipelined()) {
            commands.forEach(words -> responses.add(pipeline.executeCommand(command(words))));
        }
        List<Object> replies = new ArrayList<>();
        responses.forEach(response -> replies.add(orError(response)));
        return replies;
    }

    private static Object orError(Supplier<Object> response) {
        try {
            return response.get();
        } catch (JedisDataException e) {
            return e;
        }
    }

    @Override
    public List<Object> transaction(List<String[]> commands) {
        try (AbstractTransaction transaction = client.multi()) {
            commands.forEach(words -> transaction.executeCommand(command(words)));
            return transaction.exec();
        }
    }

    @Override
    public Class<? extends Throwable> errorType() {
        return JedisException.class;
    }

    @Override
    public void close() {
        client.close();
    }
}
