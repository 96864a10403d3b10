// Package cluster replicates a table of limiters through Raft.
//
// A [Node] is one of several nodes with the same state, or a standalone node whose log makes its state durable. It
// implements limiter.Engine. The leader decides immediately in its own table, as a standalone server does. The log
// contains the new state of the changed keys, not the requests.
//
// # Generations
//
// A generation is a batch of decisions that are committed together. Each decision is added to the open generation. A
// flusher closes the generation, writes the new state of all changed keys to one log entry, and opens the next
// generation. At most two generations are in flight. The flusher waits a short time for callers that have waited for the
// last commit. Under low load an entry contains a few decisions, and under high load thousands.
//
// In sync mode a reply is sent once the generation on which the reply depends is committed. A reply that depends on
// committed changes only, such as most refusals, waits only until this node has verified that it is still the leader.
// In async mode replies do not wait for commits, and uncommitted changes are lost if the leader fails.
//
// # Leadership
//
// A node makes decisions only during a leadership, which is identified by its epoch. A leadership begins when Raft
// has elected the node and the node has applied all entries of earlier terms. It ends when the node detects that it
// is no longer the leader, or when it applies an entry from a different term.
//
// At the end of a leadership, uncommitted generations are rolled back. Calls that wait for these generations return an
// error. The outcome of their decisions is uncertain: the entry of a generation that was rolled back may still be
// committed later, and is then applied like any other entry.
//
// An entry is void if it was decided in one term and appended to the log in a different one. A void entry changes
// nothing: other leaders may have appended earlier entries that its decisions do not take into account.
//
// # Guarantees
//
// In sync mode, for any key and any interval, the admitted quantity is at most the limit plus the units restored in the
// interval. Acknowledged changes are not lost. These guarantees hold as long as a majority of the nodes keep the data
// on their disks, even if processes are killed, paused or disconnected, or wall clocks are wrong.
//
// Limits are measured in log time, see [Clock].
//
// # Heartbeat
//
// The heartbeat of a node is the setting HeartbeatTimeout of hashicorp/raft: a follower neither votes nor starts an
// election until this time has passed without a message from the leader. The guarantees require that a voter that has
// acknowledged an entry neither votes nor starts an election for a full heartbeat after the acknowledgment. The
// replicated state includes the shortest heartbeat that any voter may be using. For 4/5 of that heartbeat after the
// submission of the newest committed entry, the leader may answer from its table without contacting other nodes. See
// [Node.SetHeartbeat].
//
// # Rules
//
// The log also contains the versions of the rules (package ruleset). [Node.Propose] appends a version. Each node has all
// versions in one order, and the leader decides with the newest one.
//
// # Users
//
// The log also contains the text of the users (package acl). [Node.ProposeUsers] replaces it. Each node passes the newest
// text to [Config].Users, and stores it on disk, so that a restarted node begins with it.
//
// # Parts
//
// A node consists of parts, each a type with its own state. New creates and connects them (wiring.go). A part refers
// only to parts that are created before it, and never to the Node.
//
//   - engine makes the decisions.
//   - leader begins and ends leaderships.
//   - fsm applies log entries.
//   - observer publishes views of the cluster.
//   - membership adds, promotes and removes members.
//   - heartbeatAgreement changes the heartbeat.
//   - rulesProposals changes the rules.
//   - usersProposals changes the users, and activeUsers makes the newest ones active.
//   - control answers questions from other nodes, as defined in the topics table.
//   - access determines with which nodes this node may have streams.
//
// # Caveats
//
// The length of an outage is measured with wall clocks if two conditions hold: a majority of the nodes was down at
// the same time, and no node that stayed up has the newest entry. The new leader uses the shortest of the measured
// lengths. If all wall clocks with which the length was measured were set forward during the outage, the smallest of
// these changes counts as elapsed time.
//
// A restarted node has no record of the entries that it acknowledged within the last heartbeat. If a majority of the
// nodes is restarted within one heartbeat, a leader that was replaced can still answer from an outdated table for a
// short time. Only replies that charge nothing are affected.
package cluster
