// Package importer reads limiter state out of a live Redis or Dragonfly server.
//
// redis-cell and Dragonfly keep the state of a CL.THROTTLE key as an ordinary string: the
// TAT in nanoseconds since 1970, in decimal, with a TTL that ends when the TAT has passed.
// [Run] walks through the keys of the source with SCAN, reads value and TTL of each page
// of keys in one pipeline, and hands every key that is such state to a function of the
// caller, as a [limiter.Record]. The source is only read.
//
// # What is taken
//
// A string is taken for limiter state if it is a plain decimal number with a TTL, and
// the number, read as a TAT, agrees with that TTL within [Config.Tolerance]. Hardly any
// other number does: a counter, an identifier or a time in seconds is nowhere near. What
// else the source holds is skipped, and counted in the [Report] by its reason:
//
//   - A TAT that has passed. The key is at rest, so an absent key says the same.
//   - A number without a TTL. A module leaves one behind only by mistake, when a refund
//     exceeds what was used: then the key is at rest, or (after an absurd refund) limited
//     for centuries. Neither is worth keeping.
//   - A number that does not agree with its TTL. State that Dragonfly wrote before v1.33
//     is among them, since it counts in milliseconds.
//   - Text, and any other type.
//   - A key that expired or was deleted after SCAN named it.
//
// A string that holds the very nanosecond in which its TTL ends, such as a lock with its
// deadline, looks the same as limiter state. [Config.Match] keeps it out.
//
// # Clocks
//
// TATs are taken over as time left, so a difference between the clocks of the two
// machines does not matter. That difference is measured by the TIME command. It is known
// up to the fastest round trip seen, and the uncertainty goes against the key: what has
// been used is never forgotten, and grows by at most that round trip.
//
// # Caveats
//
// What is charged to a key at the source after its page was read is not seen. A key
// that the source renames meanwhile may be missed. SCAN may name a key more than once:
// it is then counted and handed over again, with its newer state.
//
// A node of a Redis Cluster holds only a part of the keys. It is refused unless as many
// sources are given as the cluster has masters.
package importer
