// Package cluster replicates a table of limiters through Raft.
//
// A [Node] is one of several nodes with the same state, or a standalone node whose log makes its state durable. It
// implements limiter.Engine. The leader decides immediately, in its own table, as a standalone server does. The log
// contains the changes of the keys, not the requests.
//
// # Generations
//
// Decisions join the open generation. A flusher closes it, writes the new state of all keys that have changed to one
// entry, and opens the next generation. At most two are in flight. There are few entries under low load, and each has
// thousands of decisions under high load. In sync mode a reply is sent after the generation that it is based on is
// committed. A reply that is based on committed changes only, like most refusals, waits only until it is certain that
// this node still leads. In async mode replies do not wait, and uncommitted changes are lost with the leader.
//
// # Leadership
//
// A node decides during a leadership. It numbers its leaderships by epochs. A leadership begins when the node leads by
// Raft and a barrier of its term is applied. It ends when the node detects that it does not lead any more, or when an
// entry of another term is applied. Generations that are not committed are then rolled back, and their waiters get an
// error, as the outcome is uncertain. If the entry of such a generation is committed after all, it is applied like any
// other. An entry is void if it entered the log under another term than the one in which it was decided: it was decided
// without knowledge of the entries in between.
//
// # Guarantees
//
// In sync mode, for any key and any interval, the admitted quantity is at most the limit plus the units restored in the
// interval. This holds as long as a majority of the nodes keep the data on their disks, whichever processes are killed,
// paused or disconnected, and whatever their wall clocks show. Acknowledged changes are not lost.
//
// Limits are decided by log time, see [Clock].
//
// # Heartbeat
//
// The guarantees require that a voter which has acknowledged an entry neither votes nor starts an election for a
// heartbeat. hashicorp/raft does neither until its HeartbeatTimeout has passed without contact. The leader answers from
// its table for 4/5 of the shortest heartbeat that any voter may run with according to the log, see [Node.SetHeartbeat].
//
// # Parts
//
// New connects the parts of a node (wiring.go). Each has a type with its own state: the engine decides, the leader begins
// and ends leaderships, the fsm applies entries, the observer makes views, the membership changes members, the
// heartbeatAgreement changes the heartbeat, the control answers questions of other nodes by the table of topics, and
// access decides which nodes may send messages. A part refers to parts that are created before it, and to no Node.
//
// # Caveats
//
// If a majority of the nodes was down at the same time, and none of the other nodes has the newest entry, the wall clocks
// of the nodes that are up determine the length of the outage. If all of them were set forward meanwhile, that counts as
// time.
//
// A restarted node forgets what it has acknowledged within the last heartbeat. If a majority is restarted within that
// time, a reply that charges nothing may be older than charges that another node has admitted since. It never admits
// anything.
package cluster
