// Package server implements the Redis protocol server of throttled: it reads commands from
// connections, runs them against a [limiter.Engine], and writes the replies.
//
// [Server] accepts connections and runs a goroutine for each. A client consists of three parts: a connection, which
// reads and writes bytes; a session, which holds the state that the client has set; and a pipeline, which runs the
// commands and orders the replies. The goroutine of a connection reads the available bytes, advances the pipeline until
// every complete command in these bytes is answered, and writes all replies in one write. The pipeline is a state
// machine that does not depend on this goroutine: any goroutine may run the next step.
//
// Consecutive limiter commands in a pipeline are passed to the engine as one batch. A listener profile
// (listenerProfile) determines which commands the connections of a port support, and how the server replies. The
// command table in table.go is the only description of each command: dispatch, arity checks, permissions, transactions,
// COMMAND and its subcommands, and the statistics are derived from it. The rows of the limiter commands, and the limits
// within CL.ALL, are derived from the table of limit forms in limit_forms.go. CL.CHECK and CL.REPORT take their limits
// from the active rules (Config.Rules); ruleparsing.go converts the limits that apply to requests.
//
// # Guarantees
//
//   - Replies are sent in the order of the commands.
//   - A command that may change state runs at most once.
//   - No command of another client touches keys between the commands of a transaction.
//   - The memory that the server holds for a client is bounded by the configuration.
//   - A panic in a command handler closes only the connection of that command.
//
// # State
//
// While [Snapshots] loads the state, commands that access keys are refused with LOADING. A save runs concurrently with
// the commands of other connections. INFO reports as used memory the memory held for keys. This value is compared with
// maxmemory.
//
// # Slow clients
//
// If a client does not read its replies, they are queued up to client-reply-buffer-limit. Beyond that limit, the server
// stops reading from the client. A client that then reads less than 64 KiB of replies within write-timeout is
// disconnected. The total memory of all clients is bounded by maxmemory-clients: beyond it, the clients that hold the
// most memory are evicted.
package server
