import io.lettuce.core.ClientOptions.DisconnectedBehavior;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisException;
import io.lettuce.core.RedisURI;
import io.lettuce.core.TimeoutOptions;
import io.lettuce.core.cluster.ClusterClientOptions;
import io.lettuce.core.cluster.ClusterTopologyRefreshOptions;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.api.StatefulRedisClusterConnection;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.ArrayOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Scanner;
import java.util.function.Supplier;

/**
 * Limits the users whose names are read from standard input. Needs Lettuce 7 (io.lettuce:lettuce-core).
 *
 * <p>The client gets the leader from the cluster port of the nodes. It repeats a call on the same node only, so the program
 * repeats calls without a reply. A repeated call may charge twice.
 */
public final class LimitLettuce {
    private static final Duration LIMIT = Duration.ofSeconds(5); // for the attempts of one call
    private static final Duration PAUSE = Duration.ofMillis(20); // between two attempts
    private static final ProtocolKeyword THROTTLE = new ProtocolKeyword() {
        @Override
        public byte[] getBytes() {
            return "CL.THROTTLE".getBytes();
        }

        @Override
        public String toString() {
            return "CL.THROTTLE";
        }
    };

    public static void main(String[] args) throws InterruptedException {
        List<RedisURI> nodes = new ArrayList<>();
        String password = System.getenv("THROTTLED_PASSWORD");
        for (String node : System.getenv().getOrDefault("THROTTLED_NODES", "127.0.0.1:6384").split(",")) {
            String[] address = node.split(":");
            RedisURI.Builder uri = RedisURI.builder().withHost(address[0]).withPort(Integer.parseInt(address[1]));
            if (password != null) {
                uri.withPassword(password.toCharArray());
            }
            nodes.add(uri.build());
        }
        try (RedisClusterClient client = RedisClusterClient.create(nodes)) {
            client.setOptions(options());
            StatefulRedisClusterConnection<String, String> connection = client.connect();
            for (Scanner names = new Scanner(System.in); names.hasNextLine();) {
                System.out.println(decide(connection, names.nextLine()));
            }
        }
    }

    private static ClusterClientOptions options() {
        ClusterTopologyRefreshOptions refresh = ClusterTopologyRefreshOptions.builder().enableAllAdaptiveRefreshTriggers()
                .adaptiveRefreshTriggersTimeout(Duration.ofMillis(100)).enablePeriodicRefresh(Duration.ofSeconds(1)).build();
        return ClusterClientOptions.builder().timeoutOptions(TimeoutOptions.enabled(Duration.ofSeconds(1)))
                .topologyRefreshOptions(refresh).disconnectedBehavior(DisconnectedBehavior.REJECT_COMMANDS).build();
    }

    private static String decide(StatefulRedisClusterConnection<String, String> connection, String user) throws InterruptedException {
        // Bursts of up to 16, and 30 calls an hour.
        CommandArgs<String, String> limit = new CommandArgs<>(StringCodec.UTF8).addKey("user:" + user).add(15).add(30).add(3600);
        List<Object> reply = repeat(() -> connection.sync().dispatch(THROTTLE, new ArrayOutput<>(StringCodec.UTF8), limit));
        return (long) reply.get(0) == 1 ? "refused; retry after " + reply.get(3) + " s" : "admitted; " + reply.get(2) + " remain";
    }

    /** Makes a call, and repeats it while it fails without a reply of the server. */
    private static <T> T repeat(Supplier<T> call) throws InterruptedException {
        long deadline = System.nanoTime() + LIMIT.toNanos();
        while (true) {
            try {
                return call.get();
            } catch (RedisException e) {
                if (e instanceof RedisCommandExecutionException || System.nanoTime() > deadline) {
                    throw e; // the program chooses whether the request is admitted
                }
                Thread.sleep(PAUSE.toMillis());
            }
        }
    }
}
