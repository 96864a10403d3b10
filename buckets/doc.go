// Package buckets is the table that holds all limiter state in memory.
//
// [Table] spreads keys over shards by xxhash and a second hash with a random seed of its
// own, so that nobody can aim keys at one shard. Each shard has its own lock; a decision
// takes one lock, reads or writes one record and allocates nothing. Records and index
// hold no pointers, so the garbage collector has nothing to scan however many keys there
// are.
//
// What it guarantees: decisions on one key are atomic and see each other's effect;
// a refusal or a peek changes nothing; a record whose time has passed counts as absent
// from that instant, whether it has been dropped yet or not; with a memory limit, keys
// that exist stay exact and only new ones are refused.
//
// Time is read once per batch from the limiter clock (see [Clock]). Two batches may reach
// a shard in the other order than they read the clock. The later time then holds for
// both: were a record dropped at the later time, a decision at the earlier one would
// miss debt that there was at that time.
//
// The memory that is counted is what arenas and indexes take once allocated. What they
// replace is left to the garbage collector, so a process that has to stay within bounds
// also sets a soft memory limit for the runtime.
package buckets
