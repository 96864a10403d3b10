// Package buckets implements [Table], the in-memory table that holds all limiter state.
//
// A [Table] distributes keys over shards by xxhash combined with a second hash that has a random
// seed, so that a client cannot direct keys at one shard. Each shard has its own lock. A decision
// takes one lock, reads or writes one record, and does not allocate unless the record needs more
// memory. Records and indexes hold no pointers, so the garbage collector has nothing to scan,
// regardless of the number of keys. A record holds the state of any algorithm: its kind, its expiry
// time, one byte that encodes the used share of its limit (the gauge), and as many further bytes as
// the kind needs.
//
// The kind of a request selects the algorithm. The table uses only the result of an algorithm, a
// new state. Requests can be linked into groups, which are charged completely or not at all.
//
// # Guarantees
//
//   - Decisions on one key are atomic, and each sees the effects of those before it. The same holds
//     for groups.
//   - A refusal or a peek changes nothing.
//   - An expired record counts as absent from its expiry time on, whether or not it has been
//     dropped.
//   - Decisions and Put never exceed the memory limit. Replay, Restore and Follow may, as they apply
//     state that has already been decided. At the limit, new keys are refused and existing keys
//     stay exact. With EvictSmallestDebt, the keys with the smallest used share of their limit are
//     dropped instead (see [Eviction]). A state that has to grow, such as a log, counts as new.
//   - A limit that is lowered below the memory in use applies to new keys immediately.
//     [Table.RunRelief] evicts keys until the limit is met.
//
// # Time
//
// Time is read once per batch from the limiter clock (see [Clock]). Two batches may reach a shard
// in a different order than they read the clock. The later time is then used for both: if a record
// had been dropped at the later time, a decision at the earlier time would miss debt that still
// existed at that time.
//
// # Memory
//
// The counted memory is the exact size of the allocated arenas and indexes. Replaced arenas and
// indexes are left to the garbage collector, so a process with a fixed memory budget also sets a
// soft memory limit for the runtime. At the limit, a new key can only replace keys of its own
// shard. A shard that has no memory yet therefore refuses keys even with eviction; with limits of
// several megabytes or more there is no such shard.
//
// # Replication
//
// A replicated table (Config.Replicated) is one node's replica of a state that several nodes hold. It is either a
// follower, which refuses all decisions, or the leader. The leader decides like any other table, and records the
// previous state of each key before its first change in the open generation. [Table.Collect] closes the generation
// and returns the changes of its keys. [Table.Replay] applies them on the followers. [Table.Commit] marks a
// generation as committed, and [Table.Follow] rolls back all uncommitted generations. Transport and leader election
// are up to the caller.
//
// A replicated table guarantees:
//
//   - After the same generations, all replicas hold the same records, byte for byte, except for
//     records that have expired on all nodes.
//   - A generation contains a group completely or not at all.
//   - The CommitToken of a batch names a generation. Once that generation is committed, the changes
//     of the batch, and all changes that its decisions were based on, are committed. A result that
//     is released after that is never rolled back.
//
// An expired record is absent for decisions, but it stays in memory until the log time has passed
// its expiry time: the next leader may continue at an earlier time, and needs the record then.
//
// The memory of the undo logs does not count against the memory limit. It is slightly more than the
// size of the records that changed in uncommitted generations, and after Clear the size of the
// whole previous content. RunRelief may evict keys on the leader, which makes the table pending
// (see [Table.Pending]) without any decision.
package buckets
