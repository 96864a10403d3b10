import java.util.List;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.redisson.Redisson;
import org.redisson.api.RScript;
import org.redisson.api.RTopic;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

/** Calls the Redisson API on the server at the given address. */
public final class RedissonTest {
    private static final int PATIENCE = 10; // seconds
    private static int failures;

    public static void main(String[] args) throws Exception {
        Config config = new Config();
        config.setCodec(StringCodec.INSTANCE);
        config.useSingleServer().setAddress("redis://" + args[0]);
        RedissonClient client = Redisson.create(config);
        try {
            scripts(client);
            lifetimes(client);
            topics(client);
        } finally {
            client.shutdown();
        }
        System.out.println(failures == 0 ? "passed" : failures + " failures");
        System.exit(failures == 0 ? 0 : 1);
    }

    private static void scripts(RedissonClient client) {
        String refusal = "ERR scripts are not supported";
        RScript script = client.getScript();
        List<Object> keys = List.of("k");
        String lua = "return redis.call('cl.throttle', KEYS[1], 15, 30, 60)";
        fails("RScript.eval", refusal, script.evalAsync(RScript.Mode.READ_WRITE, lua, RScript.ReturnType.LIST, keys));
        fails("RScript.eval, read-only", refusal, script.evalAsync(RScript.Mode.READ_ONLY, lua, RScript.ReturnType.LIST, keys));
        fails("RScript.evalSha", refusal, script.evalShaAsync(RScript.Mode.READ_WRITE, "0".repeat(40), RScript.ReturnType.LIST, keys));
        fails("RScript.scriptLoad", refusal, script.scriptLoadAsync(lua));
        fails("RRateLimiter.tryAcquire", refusal, client.getRateLimiter("rate").tryAcquireAsync());
        fails("RLock.tryLock", refusal, client.getLock("lock").tryLockAsync());
        fails("RFunction.load", refusal, client.getFunction().loadAsync("lib", "redis.register_function('f', function() end)"));
    }

    private static void lifetimes(RedissonClient client) throws Exception {
        String refusal = "ERR the expiry of a limiter key cannot be changed";
        fails("RBucket.clearExpire", refusal, client.getBucket("k").clearExpireAsync());
        equal("RBucket.getExpireTime of no key", -2L, client.getBucket("k").getExpireTime());
        equal("RBucket.touch of no key", false, client.getBucket("k").touch());
        equal("RKeys.randomKey of no keys", null, client.getKeys().randomKey());
    }

    private static void topics(RedissonClient client) throws Exception {
        CountDownLatch received = new CountDownLatch(1);
        RTopic topic = client.getTopic("topic");
        topic.addListener(String.class, (channel, text) -> {
            if (text.equals("hello")) {
                received.countDown();
            }
        });
        equal("RTopic.publish", 1L, topic.publish("hello"));
        equal("RTopic: a message", true, received.await(PATIENCE, TimeUnit.SECONDS));
        equal("RTopic.countSubscribers", 1L, topic.countSubscribers());
    }

    /** Checks that a call fails within PATIENCE with an error that starts with prefix. */
    private static void fails(String what, String prefix, CompletionStage<?> call) {
        try {
            report(what + " returns " + call.toCompletableFuture().get(PATIENCE, TimeUnit.SECONDS));
        } catch (TimeoutException e) {
            report(what + " does not return");
        } catch (ExecutionException e) {
            if (!String.valueOf(e.getCause().getMessage()).startsWith(prefix)) {
                report(what + " fails with " + e.getCause());
            }
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    private static void equal(String what, Object want, Object got) {
        if (want == null ? got != null : !want.equals(got)) {
            report(what + " is " + got + ", want " + want);
        }
    }

    private static void report(String failure) {
        failures++;
        System.out.println(failure);
    }
}
