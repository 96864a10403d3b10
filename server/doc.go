// Package server implements the Redis protocol server of throttled: it reads commands from
// connections, runs them against a [limiter.Engine], and writes the replies.
//
// [Server] accepts connections and owns their goroutines. Each client consists of a connection, which moves bytes, a
// session, which holds what the client has set, and a pipeline, which runs its commands and orders the replies. The
// goroutine of a connection reads the available bytes, advances the pipeline until every complete command in them is
// answered, performing its waits, and writes all replies in one write. The pipeline does not depend on that goroutine:
// it is a state machine, of which any goroutine may make the next step.
//
// Consecutive limiter commands of a pipeline are passed to the engine as one
// batch. A listener profile (listenerProfile) determines the commands and replies of the connections
// of one port. The command table in table.go is the single description of each command:
// dispatch, arity, permissions, transactions, COMMAND and its subcommands, and the statistics
// are derived from it. The rows of the limiter commands, and the limits within CL.ALL, are
// derived from the table of limit forms in limit_forms.go.
//
// # Guarantees
//
//   - Replies are sent in the order of the commands.
//   - A command that may change state runs at most once.
//   - No command of another client touches keys between the commands of a transaction.
//   - The memory that a client can make the server hold is bounded by the configuration.
//   - A panic in a command handler closes only the connection of that command.
//
// # State
//
// While [Snapshots] loads the state, commands that touch it are refused with LOADING. Saving
// runs concurrently with the commands of other connections. The used memory in INFO is the
// memory held for keys, which is compared with maxmemory.
//
// # Slow clients
//
// Replies to a client that does not read are queued up to client-reply-buffer-limit; beyond
// that the server stops reading from the client. A client that then reads less than 64 KiB of
// replies within write-timeout is disconnected. The memory of all clients together is bounded
// by maxmemory-clients: the clients that hold the most memory are evicted.
package server
