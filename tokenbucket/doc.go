// Package tokenbucket is the arithmetic of a bucket of tokens that come back in whole
// intervals: a refill of a fixed amount every second, hour or day, and nothing in between.
//
// [NewLimit] compiles what a caller states (capacity, refill amount, refill interval) to a
// [limiter.Limit]. [Decide] takes that limit, the state of a key and the time, and returns
// the change of the state and the answer. Both are pure functions: the package keeps no
// state, reads no clock, and is safe to use from anywhere.
//
// # Terms
//
//	capacity     tokens of a full bucket: Limit.Max
//	amount       tokens that one refill brings: Limit.Amount
//	interval     time from one refill to the next: Limit.Interval
//	used         tokens that are missing as of the last refill counted
//	anchor       time of the last refill counted, at first that of the charge that began it
//	quantity     tokens a request asks for
//
// # The rule
//
// The first charge of a full bucket starts its refill clock: the anchor is the time of that
// charge, and refills come at anchor + 1, 2, 3... * interval until the bucket is full. Then
// the clock stops, and the next charge starts it anew. So whoever comes back after a rest
// waits a whole interval for the first refill, and no refill is lost or gained by the hour
// at which a process was started.
//
//	refills      k = (now - anchor) / interval, rounded down
//	used         = max(0, used - k * amount), as of anchor + k * interval
//	admitted     if used + quantity <= capacity
//	remaining    = capacity - used, at least 0
//	retry after  = anchor + m * interval - now, with the smallest m for which
//	               used - m * amount + quantity <= capacity
//	reset after  = anchor + m * interval - now, with m = used / amount, rounded up
//
// A refused request leaves the state alone. Three quantities are special:
//
//   - 0 peeks. It never changes the state, and is refused only if more is used than the
//     bucket holds, as after a change to a smaller capacity. On a bucket that is exactly
//     empty it is admitted, with 0 remaining.
//   - More than the capacity is refused with [limiter.NoRetry], since no wait would help;
//     remaining and reset after then describe the bucket as it is.
//   - A negative one refunds. It is never refused, takes -quantity off what is used, and
//     stops at a full bucket. The anchor stays, so refills come when they would have.
//
// # Example
//
// Capacity 4, refilled by 2 a second. On a fresh key:
//
//	time   quantity  used before  answer    remaining  retry after  reset after  used  anchor
//	0.0 s  1         0            admitted  3          -            1.0 s        1     0.0 s
//	0.0 s  3         1            admitted  0          -            2.0 s        4     0.0 s
//	0.4 s  1         4            refused   0          0.6 s        1.6 s        4     0.0 s
//	1.0 s  1         2            admitted  1          -            2.0 s        3     1.0 s
//	1.5 s  3         3            refused   1          0.5 s        1.5 s        3     1.0 s
//	1.5 s  -1        3            admitted  2          -            0.5 s        2     1.0 s
//	1.5 s  5         2            refused   2          never        0.5 s        2     1.0 s
//	2.0 s  4         0            admitted  0          -            2.0 s        4     2.0 s
//
// The last row finds a full bucket, so its charge starts the refill clock again.
//
// # Bounds
//
// Whatever the requests are, no stretch of time admits more than capacity + amount * the
// refills within it. Refills are at least one interval apart, so a stretch of length D has
// at most D / interval + 1 of them. Those who want less in a short time around a refill
// take smaller refills that come more often, or package gcra, which is the limit of that.
//
// # Change of parameters
//
// Used and anchor are read by the parameters of each request. Tokens that were taken stay
// taken, and the refills since the anchor come in the new amount and at the new interval.
// More may then be used than the bucket holds: 0 remain until enough refills have come.
//
// Each charge and refund sets the time at which the key expires by its own parameters.
// Until there is one, a state that was made under faster refills expires when those would
// have filled the bucket, and retry after and reset after allow for that.
//
// # State
//
// The Data of a key are 16 bytes, little endian: used, then the anchor, uint64 each.
// Expires is the time at which the bucket is full again; at rest there is no state. Data of
// another length count as none.
//
// # Ranges
//
// Time is an unsigned count of nanoseconds below 1<<63 on a clock that the caller chooses.
// Parameters are refused with [limiter.ErrRange] unless the time to fill an empty bucket
// fits an int64. A state put by hand may hold any numbers: an anchor to come is waited for,
// and waits count as at most [math.MaxInt64] nanoseconds, 292 years.
package tokenbucket
