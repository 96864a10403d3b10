import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Scanner;
import java.util.Set;
import redis.clients.jedis.BuilderFactory;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.CommandObject;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.RedisClusterClient;
import redis.clients.jedis.util.SafeEncoder;

/**
 * Limits the users whose names are read from standard input. Needs Jedis 8 (redis.clients:jedis).
 *
 * <p>The client gets the leader from the cluster port of the nodes, and repeats calls while there is no leader.
 */
public final class Limit {
    public static void main(String[] args) {
        Set<HostAndPort> nodes = new HashSet<>();
        for (String node : System.getenv().getOrDefault("THROTTLED_NODES", "127.0.0.1:6384").split(",")) {
            nodes.add(HostAndPort.from(node));
        }
        DefaultJedisClientConfig config = DefaultJedisClientConfig.builder().password(System.getenv("THROTTLED_PASSWORD")).build();
        try (RedisClusterClient client = RedisClusterClient.builder().nodes(nodes).clientConfig(config)
                .topologyRefreshPeriod(Duration.ofSeconds(1)).maxTotalRetriesDuration(Duration.ofSeconds(5)).build()) {
            for (Scanner names = new Scanner(System.in); names.hasNextLine();) {
                System.out.println(decide(client, names.nextLine()));
            }
        }
    }

    private static String decide(RedisClusterClient client, String user) {
        // Bursts of up to 16, and 30 calls an hour.
        List<Long> reply = client.executeCommand(new CommandObject<>(
                new CommandArguments(() -> SafeEncoder.encode("CL.THROTTLE")).key("user:" + user).add(15).add(30).add(3600),
                BuilderFactory.LONG_LIST));
        return reply.get(0) == 1 ? "refused; retry after " + reply.get(3) + " s" : "admitted; " + reply.get(2) + " remain";
    }
}
