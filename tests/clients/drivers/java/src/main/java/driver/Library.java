package driver;

import java.io.IOException;
import java.io.InputStream;
import java.util.Properties;

/** The libraries, by the value of the option --client in capital letters. */
enum Library {
    JEDIS("redis.clients/jedis", JedisDriver::new),
    LETTUCE("io.lettuce/lettuce-core", LettuceDriver::new),
    REDISSON("org.redisson/redisson", RedissonDriver::new);

    private interface Opener {
        Client open(Options options, String password) throws Exception;
    }

    private final String artifact;
    private final Opener opener;

    Library(String artifact, Opener opener) {
        this.artifact = artifact;
        this.opener = opener;
    }

    /** Opens a client with a password, or without one if it is null. */
    Client open(Options options, String password) throws Exception {
        return opener.open(options, password);
    }

    /** Returns the version that Maven has recorded in the file of the library. */
    String version() throws IOException {
        Properties properties = new Properties();
        try (InputStream in = Library.class.getResourceAsStream("/META-INF/maven/" + artifact + "/pom.properties")) {
            properties.load(in);
        }
        return properties.getProperty("version");
    }
}
