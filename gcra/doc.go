// Package gcra is the arithmetic of CL.THROTTLE: the generic cell rate algorithm, on
// integers only.
//
// [NewLimit] compiles what a caller states (max_burst, count, period) to a
// [limiter.Limit]. [Decide] takes that limit, the state of a key and the time, and
// returns the new state and the answer. Both are pure functions: the package keeps no
// state, reads no clock, and is safe to use from anywhere.
//
// # Terms
//
//	limit               units that a key at rest admits at once: max_burst + 1
//	emission interval   T, the time one unit takes to come back: period / count
//	burst tolerance     T * limit, the length of a whole bucket in nanoseconds
//	TAT                 theoretical arrival time: when the key will be at rest again
//	used                how much of the bucket is in use, as time: TAT - now, at least 0
//	quantity            units a request asks for; its cost is T * quantity
//
// The TAT is the whole state of a key. A key whose TAT has passed is at rest and equals
// an absent key, whose TAT is 0. Parameters are not part of the state: they come with
// each request, and another limit on the same key reads the same used time by its own
// measure.
//
// # The rule
//
// A request is admitted if its cost fits on top of what is used, and then moves the TAT:
//
//	admitted     if used + T * quantity <= T * limit
//	new TAT      = max(TAT, now) + T * quantity
//	remaining    = (T * limit - used) / T, clamped to 0..limit
//	retry after  = used + T * quantity - T * limit, if refused
//	reset after  = used, after the decision
//
// The classical statement for one unit tests the old TAT against a tolerance tau of
// T * max_burst: a cell conforms if TAT <= now + tau. Here T * limit is tested against
// the new TAT. Both say the same, as T * limit is tau + T and the new TAT is the old
// one + T; the form used here also holds for quantities other than 1.
//
// A refused request leaves the state alone, so asking again and again does not prolong
// the wait. Three quantities are special:
//
//   - 0 peeks. It never changes the TAT, and is refused only if more is used than the
//     bucket holds, as after a change to a smaller limit. On a bucket that is exactly
//     empty it is admitted, with 0 remaining.
//   - More than the limit is refused with [limiter.NoRetry], since no wait would help;
//     remaining and reset after then describe the bucket as it is.
//   - A negative one refunds. It is never refused, takes T * -quantity off what is used,
//     and stops at a full bucket.
//
// # Example
//
// max_burst 4, count 1, period 1 make a limit of 5 and T = 1 s. On a fresh key:
//
//	time   quantity  used before  answer      remaining  retry after  reset after  TAT
//	0.0 s  1         0.0 s        admitted    4          -            1.0 s        1.0 s
//	0.0 s  4         1.0 s        admitted    0          -            5.0 s        5.0 s
//	0.0 s  1         5.0 s        refused     0          1.0 s        5.0 s        5.0 s
//	3.1 s  1         1.9 s        admitted    2          -            2.9 s        6.0 s
//	3.1 s  5         2.9 s        refused     2          2.9 s        2.9 s        6.0 s
//	3.1 s  -1        2.9 s        admitted    3          -            1.9 s        5.0 s
//	5.0 s  6         0.0 s        refused     5          never        0.0 s        5.0 s
//
// # Rounding
//
// T is rounded up to a whole nanosecond, so that what is admitted over any stretch of
// time stays at or under limit + rate * time. The price is less than 1 ns a unit: nothing
// at 1000 a second, 0.02 % at 300 000 a second, and no rate above one unit a
// nanosecond. Everything after that is exact: waiting exactly the retry after admits the
// same request, and one nanosecond less does not.
//
// # Ranges
//
// Time is an unsigned count of nanoseconds below 1<<63 on a clock that the caller
// chooses. Parameters are refused with [limiter.ErrRange] unless T * limit fits an int64; nothing
// after that can overflow. Used time counts as at most [math.MaxInt64] nanoseconds, 292
// years, whatever TAT is given; only a TAT that Decide did not compute, or a clock that
// went back, can be so far ahead.
package gcra
