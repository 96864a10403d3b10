// Package rediscell reads limiter state from a live Redis or Dragonfly server.
//
// redis-cell and Dragonfly store the state of a CL.THROTTLE key as an ordinary string: the
// TAT in nanoseconds since 1970, in decimal, with a TTL that ends when the TAT has passed.
// [Run] iterates over the keys of the source with SCAN, reads the values and TTLs of each page
// of keys in one pipeline, and passes every key that holds such state to a function of the
// caller, as a [limiter.Record]. It does not write to the source.
//
// # Imported keys
//
// A string is imported as limiter state if it is a plain decimal number with a TTL, and
// the number, read as a TAT, agrees with that TTL within [Config.Tolerance]. Hardly any
// other number does: a counter, an identifier or a time in seconds differs by far. All other
// keys of the source are skipped, and counted in the [Report] by reason:
//
//   - A TAT that has passed. The key is at rest, which is equivalent to an absent key.
//   - A number without a TTL. A module leaves one behind only by mistake, when a refund
//     exceeds the used time: then the key is at rest, or (after an absurd refund) limited
//     for centuries. Neither is worth importing.
//   - A number that does not agree with its TTL. This includes state written by Dragonfly
//     before v1.33, which counts in milliseconds.
//   - Text, and any other type.
//   - A key that expired or was deleted after SCAN had returned it.
//
// A string with the exact nanosecond at which its TTL ends, such as a lock with its
// deadline, cannot be distinguished from limiter state. Use [Config.Match] to exclude it.
//
// # Clocks
//
// TATs are imported as remaining times, so a difference between the clocks of the two
// machines does not matter. That difference is measured with the TIME command. It is known
// up to the fastest round trip measured, and the uncertainty is added to the used time: the
// import never reduces the used time, and increases it by at most that round trip.
//
// # Caveats
//
// Charges to a key of the source after its page was read are not imported. A key that is renamed
// at the source during the import may be missed. SCAN may return a key more than once:
// it is then counted and passed again, with its newer state.
//
// A node of a Redis Cluster holds only a part of the keys. It is refused unless the number of
// sources is the number of masters of the cluster.
package rediscell
