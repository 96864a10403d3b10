// Package server is the Redis face of throttled: it reads commands from connections,
// asks a limiter.Engine and writes the replies.
//
// [Server] accepts connections and owns all of their goroutines. Each connection has
// one goroutine, which reads what is there, runs every complete command of it, and
// writes all replies at once. Consecutive limiter commands of a pipeline go to the
// engine as one batch. The literal table in table.go says everything about each
// command; dispatch, arity, permission, transactions, COMMAND and its relatives, and
// the statistics derive from it. Its limiter commands derive from the table of the forms
// of limits in limit_forms.go, as the limits within CL.ALL do.
//
// What it guarantees: replies come in the order of the commands; a command runs at
// most once; EXEC runs its commands with no other client's in between; nothing that a
// client sends can make the process use more than the configured bounds for it, and a
// panic in a handler costs that connection only.
//
// While [Snapshots] loads the state, commands that would touch it are refused with LOADING.
// Saving goes on beside the commands of other connections. What INFO calls used memory is
// what is held for keys, as that is what maxmemory is about.
//
// Replies wait for a client that does not read them, up to client-reply-buffer-limit, and then no
// more is read from it; one that still takes less than 64 KiB of them in write-timeout seconds is
// closed. What all clients make the server hold is bounded by maxmemory-clients: those that hold
// the most are evicted.
package server
