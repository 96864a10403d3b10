// Package cluster replicates the state of a table of limiters through Raft.
//
// A [Node] is one of several that hold the same state, or one by itself whose log makes its state
// durable. It implements limiter.Engine: the node that leads decides, at once and in its own
// table, as a server by itself would. What goes into the log is not requests but what they have
// made of the keys.
//
// # Generations
//
// Decisions join the open generation. A flusher closes it, puts the new state of each key that
// has changed into one entry, and opens the next; two may be on their way at once. So entries
// are few under little load, and each carries thousands of decisions under much. In sync mode
// nobody is answered before the generation that his answer rests on is committed. An answer that
// rests on nothing uncommitted, as most refusals, waits for nothing but that the node can be sure to lead
// still. In async mode nobody waits, and what was not committed is lost with the leader.
//
// # Leadership
//
// A node decides during a leadership, and counts its own in epochs. A leadership begins when the node leads by Raft, and
// a barrier of its term has been applied. It ends when the node learns that it does not lead any more, or when an entry of
// another term is applied. Generations that are not committed are then rolled back, and their waiters get the error that
// the outcome is uncertain. If the entry of such a generation is committed after all, it is applied like any other. An
// entry is void if it got into the log under another term than the one it was decided in: it was decided without knowing
// the entries between.
//
// # Guarantees
//
// In sync mode, for any key and any interval, what is admitted is at most the limit and what comes back
// in the interval, as long as most nodes keep what is on their disks, whichever processes end, stand still or
// are cut off, and whatever their wall clocks say. What has been answered is not lost.
//
// The time is that of the log, see [Clock].
//
// # Heartbeat
//
// All of this rests on voters that keep still for a heartbeat after they have acknowledged an entry: hashicorp/raft
// neither votes nor asks for votes until its own HeartbeatTimeout has passed without contact. A leader answers
// by its table for 4/5 of the least heartbeat that any voter may run with, as the log says; see
// [Node.SetHeartbeat].
//
// # Caveats
//
// When most nodes were down at once, and none that was there has the newest entry, the wall clocks of those that
// come back tell for how long. If all of these were put forward meanwhile, that counts as time.
//
// A node that has been started forgets what it has told the others within the last heartbeat, so
// an answer that charges nothing may, if most nodes are restarted within that time, be older than
// what another node has admitted since. It never admits anything.
package cluster
