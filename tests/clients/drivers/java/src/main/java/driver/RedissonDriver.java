package driver;

import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.TrustManagerFactory;
import org.redisson.Redisson;
import org.redisson.api.BatchOptions;
import org.redisson.api.BatchOptions.ExecutionMode;
import org.redisson.api.RedissonClient;
import org.redisson.client.RedisException;
import org.redisson.client.codec.StringCodec;
import org.redisson.client.protocol.RedisCommand;
import org.redisson.client.protocol.decoder.ObjectListReplayDecoder;
import org.redisson.command.CommandAsyncExecutor;
import org.redisson.command.CommandBatchService;
import org.redisson.config.Config;
import org.redisson.config.Protocol;

/** Redisson. It has no public method for any command, so that this class uses its command executor. */
final class RedissonDriver implements Client {
    private static final int SCAN_INTERVAL = 500; // milliseconds

    private final RedissonClient client;
    private final CommandAsyncExecutor executor;

    RedissonDriver(Options options, String password) throws Exception {
        Config config = new Config();
        config.setCodec(StringCodec.INSTANCE);
        if (options.resp() != 0) {
            config.setProtocol(options.resp() == 3 ? Protocol.RESP3 : Protocol.RESP2);
        }
        config.setUsername(options.user()).setPassword(password);
        if (options.caFile() != null) {
            TrustManagerFactory factory = Trust.factory(options.caFile());
            config.setSslTrustManagerFactory(factory);
        }
        servers(config, options, password);
        client = Redisson.create(config);
        executor = ((Redisson) client).getCommandExecutor();
    }

    private static void servers(Config config, Options options, String password) {
        String scheme = options.caFile() == null ? "redis://" : "rediss://";
        String[] addresses = options.addresses().stream().map(scheme::concat).toArray(String[]::new);
        switch (options.mode()) {
            case "standalone" -> config.useSingleServer().setAddress(addresses[0]);
            case "cluster" -> config.useClusterServers().setScanInterval(SCAN_INTERVAL).addNodeAddress(addresses);
            case "sentinel" -> config.useSentinelServers().setMasterName("mymaster").setSentinelUsername(options.user())
                    .setSentinelPassword(password).addSentinelAddress(addresses);
            default -> throw new IllegalArgumentException("unknown mode " + options.mode());
        }
    }

    private static CompletionStage<List<Object>> send(CommandAsyncExecutor executor, String[] words) {
        RedisCommand<List<Object>> command = new RedisCommand<>(words[0], new ObjectListReplayDecoder<>());
        return executor.writeAsync(words[1], StringCodec.INSTANCE, command, Arrays.copyOfRange(words, 1, words.length, Object[].class));
    }

    @Override
    public Object call(String... words) throws Exception {
        try {
            return send(executor, words).toCompletableFuture().get(Main.PATIENCE, TimeUnit.SECONDS);
        } catch (ExecutionException e) {
            throw e.getCause() instanceof Exception cause ? cause : e;
        }
    }

    @Override
    public List<Object> pipeline(List<String[]> commands) throws Exception {
        return batch(commands, ExecutionMode.IN_MEMORY);
    }

    @Override
    public List<Object> transaction(List<String[]> commands) throws Exception {
        return batch(commands, ExecutionMode.IN_MEMORY_ATOMIC);
    }

    @SuppressWarnings("unchecked")
    private List<Object> batch(List<String[]> commands, ExecutionMode mode) {
        CommandBatchService batch = new CommandBatchService(executor, BatchOptions.defaults().executionMode(mode));
        commands.forEach(words -> send(batch, words));
        return (List<Object>) batch.execute().getResponses();
    }

    @Override
    public Class<? extends Throwable> errorType() {
        return RedisException.class;
    }

    @Override
    public void close() {
        client.shutdown();
    }
}
