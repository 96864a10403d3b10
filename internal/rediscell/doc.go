// Package rediscell reads limiter state from a live Redis or Dragonfly server.
//
// redis-cell and Dragonfly store the state of a CL.THROTTLE key as an ordinary string: the TAT in nanoseconds
// since 1970, in decimal. The TAT (theoretical arrival time) is the time at which the full limit is restored.
// The key has a TTL that ends when the TAT has passed. The used time of a key is the time until its TAT.
// [Run] iterates over the keys of the source with SCAN, reads the values and TTLs of each page of keys in one
// pipeline, and passes every key that holds such state to a function of the caller, as a [limiter.Record]. It
// does not write to the source.
//
// # Imported keys
//
// A string is imported as limiter state if it is a plain decimal number with a TTL, and
// the number, interpreted as a TAT, agrees with the TTL within [Config.Tolerance]. Other
// numbers, such as counters, identifiers or times in seconds, almost never agree. All
// other keys of the source are skipped, and counted in the [Report] by reason:
//
//   - A TAT in the past. The key is at rest, which is equivalent to an absent key.
//   - A number without a TTL. redis-cell leaves such a key only by mistake, after a refund that
//     exceeds the used time. The key is then at rest or, if the refund was so large that the number
//     wrapped, limited for centuries. In both cases the state is useless.
//   - A number that does not agree with its TTL. This includes state written by Dragonfly
//     before v1.33, which counts in milliseconds.
//   - Text, and any other type.
//   - A key that expired or was deleted after SCAN had returned it.
//
// A string that contains its own expiry time in nanoseconds since 1970, such as a lock
// with its deadline, cannot be distinguished from limiter state. Use [Config.Match] to
// exclude it.
//
// # Clocks
//
// Run reads the clock of the source with the TIME command, and computes the used time of each key on this
// clock. The clocks of the two machines may therefore differ. The difference of the clocks is measured with
// an uncertainty of at most the duration of the fastest round trip. This uncertainty is added to the used
// time. The import therefore never reduces the used time, and increases it by at most this duration.
//
// # Caveats
//
// Charges to a key of the source after its page was read are not imported. A key that is
// renamed at the source during the import may be missed. If SCAN returns a key more than
// once, the key is counted and passed again, with its newer state.
//
// A node of a Redis Cluster holds only some of the keys. Such a source is refused unless the
// number of sources equals the number of masters of the cluster.
package rediscell
