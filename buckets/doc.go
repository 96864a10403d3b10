// Package buckets implements [Table], the in-memory table that holds all limiter state.
//
// A [Table] distributes keys over shards by a hash that depends on a random seed, so that a client
// cannot choose keys that all belong to one shard. Each shard has its own lock. A decision locks
// one shard, reads or writes one record, and does not allocate unless the record needs more memory.
// Records and indexes hold no pointers, so the garbage collector does not scan them. A record can
// hold the state of any algorithm. A record consists of the key, the kind of the algorithm, the
// expiry time, the state of the algorithm, and the gauge: one byte that encodes the used share of
// the limit.
//
// The kind of a request selects the algorithm, which computes the decision and the new state. The
// table stores the state, but interprets only its expiry time. Requests can be linked into groups,
// which are charged completely or not at all.
//
// # Guarantees
//
//   - Decisions on one key are atomic, and each decision sees the effects of all earlier decisions
//     on the key. A group is decided and charged in one atomic step.
//   - A refusal or a peek charges nothing. A refusal can convert the state of a Scaled kind to a higher rate, which keeps
//     the used units.
//   - From its expiry time on, a record counts as absent, even if it has not been dropped yet.
//   - Decisions and Put never exceed the memory limit. Replay, Restore and Follow may exceed it,
//     because they apply state that has already been decided. At the limit, NoEviction refuses new
//     keys, and EvictSmallestDebt drops the keys with the smallest used share of their limit to make
//     room for a new key (see [Eviction]). Decisions on stored keys are not affected, unless the
//     state of the key has to grow (for example a log). Such a key is treated like a new key.
//   - A memory limit that is lowered below the memory in use applies to new keys immediately. With
//     EvictSmallestDebt, [Table.RunRelief] evicts keys until the limit is met.
//
// # Time
//
// Time is read once per batch from the limiter clock (see [Clock]). Two batches may reach a shard
// in a different order than they read the clock. The shard then decides both batches at the later
// time. A decision at the earlier time could be wrong: a record that is still live at this time may
// already have been dropped, because it has expired at the later time.
//
// # Memory
//
// The counted memory is the exact size of the allocated arenas and indexes. Replaced arenas and
// indexes are left to the garbage collector and are not counted. A process with a fixed memory budget
// must therefore also set the soft memory limit of the Go runtime.
//
// At the limit, a new key can only replace keys of its own shard. A shard that has not allocated
// any memory when the limit is reached therefore refuses keys, even with eviction. With a limit of
// several megabytes or more, this does not occur.
//
// # Replication
//
// A replicated table (Config.Replicated) is one node's replica of a state that several nodes hold. It is either a
// follower, which refuses all decisions, or the leader. The leader decides like a table that is not replicated. Its
// changes form numbered generations, which are replicated one by one. The newest generation is open: it receives the
// new changes. Before the first change of a key in the open generation, the leader records the previous state of the
// key in an undo log. [Table.Collect] closes the generation and returns the changes of its keys. [Table.Replay] applies
// these changes on the followers. [Table.Commit] marks a generation as committed. [Table.Follow] makes the leader a
// follower and rolls back all uncommitted generations. Transport and leader election are up to the caller.
//
// A replicated table guarantees:
//
//   - Replicas that have applied the same generations hold the same records, byte for byte, except
//     for records that have expired on all nodes.
//   - A generation contains a group completely or not at all.
//   - The CommitToken of a batch names a generation. Once that generation is committed, the changes
//     of the batch, and all changes that its decisions were based on, are committed. The results of
//     the batch are then never rolled back.
//
// An expired record is absent for decisions, but it stays in memory until the log time passed to
// Commit or Replay has reached its expiry time. Until then, the next leader may continue at a log
// time before the expiry time, and the record would be live again.
//
// The memory of the undo logs does not count against the memory limit. It is slightly more than the
// size of the records that changed in uncommitted generations. An uncommitted Clear adds the size
// of the whole previous content. On the leader, RunRelief may evict keys. An eviction is a change
// without a decision, so [Table.Pending] can return true although nothing has been decided.
package buckets
