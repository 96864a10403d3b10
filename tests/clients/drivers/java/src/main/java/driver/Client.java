package driver;

import java.util.List;

/**
 * A client library. A command consists of its name, its key and other arguments. A reply is a Long, a String, a List of
 * replies, or null.
 */
interface Client extends AutoCloseable {
    Object call(String... command) throws Exception;

    /** Sends all commands before it reads the first reply. */
    List<Object> pipeline(List<String[]> commands) throws Exception;

    /** Runs all commands in MULTI and EXEC. Throws UnsupportedOperationException if the library has no transactions in this mode. */
    List<Object> transaction(List<String[]> commands) throws Exception;

    /** Returns the number of calls that the library failed and this program repeated. */
    default int repeated() {
        return 0;
    }

    /** The class of the exceptions of the library. */
    Class<? extends Throwable> errorType();
}
