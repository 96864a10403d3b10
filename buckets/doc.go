// Package buckets is the table that holds all limiter state in memory.
//
// [Table] spreads keys over shards by xxhash and a second hash with a random seed of its
// own, so that nobody can aim keys at one shard. Each shard has its own lock; a decision
// takes one lock, reads or writes one record and allocates nothing. Records and index
// hold no pointers, so the garbage collector has nothing to scan however many keys there
// are. A record holds the state of any algorithm: a kind, the time from which it equals an
// absent one, a byte that tells how much of its limit is used, and as many bytes more as the
// kind needs.
//
// Which algorithm decides is up to the kind of the request; the table knows nothing of their
// arithmetic but what they make of a state. Requests can be linked to groups that are
// charged as a whole or not at all.
//
// What it guarantees: decisions on one key are atomic and see each other's effect, and so
// are groups; a refusal or a peek changes nothing; a record whose time has passed counts as absent
// from that instant, whether it has been dropped yet or not; the memory limit is never
// exceeded. At the limit new keys are refused and those that exist stay exact, or, if so
// configured, the keys are dropped that have used the smallest share of their limit (see
// [Eviction]). A state that has to grow, such as a log, counts as new. A limit that is lowered
// below the memory in use applies to new keys at once, and [Table.RunRelief] evicts down to it.
//
// Time is read once per batch from the limiter clock (see [Clock]). Two batches may reach
// a shard in the other order than they read the clock. The later time then holds for
// both: were a record dropped at the later time, a decision at the earlier one would
// miss debt that there was at that time.
//
// The memory that is counted is what arenas and indexes have allocated, to the byte. What
// they replace is left to the garbage collector, so a process that has to stay within
// bounds also sets a soft memory limit for the runtime. At the limit a key can only take
// the place of keys in its own shard, so a shard that never got any memory refuses keys
// even where keys are evicted; with limits of some megabytes and more there is no such shard.
//
// # Copies on several nodes
//
// A table with a journal (see [Config]) is one node's copy of a state that several nodes hold.
// It follows, and decides nothing, or it leads. A table that leads decides like any other, and
// notes what each key was before its first change in the open generation. [Table.Collect] closes
// the generation and tells what has become of the keys that changed in it; [Table.Replay] puts
// that on the others. [Table.Commit] says that enough of them have it, and [Table.Follow] takes
// back what was not committed. How it gets to them, and who leads, is up to the caller.
//
// What it guarantees: after the same generations all copies hold the same records, to the byte,
// but for those that have expired on all nodes; a generation has all of a group or nothing; a
// Ticket is for the generation in which what a batch changed is collected, and for the one in
// which what it was based on was, or for a later one. So who awaits tickets tells nothing that
// can be taken back.
//
// A record whose time has passed is absent for whoever decides. But it stays until the log says
// that the time has passed: the next node to lead may continue at an earlier time, and must
// find it then.
//
// What the journal takes is not counted as memory of keys: it is some bytes more than the
// records that changed in the generations that are not committed, and after Clear all that there
// was. RunRelief may evict on a table that leads, which then is pending (see [Table.Pending])
// although nothing has been decided.
package buckets
