// Package gcra implements the arithmetic of CL.THROTTLE: the generic cell rate algorithm
// (GCRA) on integers only.
//
// [NewLimit] compiles max_burst, count and period to a [limiter.Limit]. [Decide] takes
// that limit, the state of a key and the time, and returns the new state and the
// decision. Both functions are pure: the package keeps no state, reads no clock, and is
// safe for concurrent use.
//
// # Terms
//
//	limit               units that a key at rest admits in one burst: max_burst + 1
//	emission interval   T, the time in which one unit is restored: period / count
//	burst tolerance     T * limit, the time in which the whole limit is restored
//	bucket              the units of the limit: full if the key is at rest, empty if all are used
//	TAT                 theoretical arrival time: the time at which the key is at rest again
//	used                the used part of the burst tolerance, as time: TAT - now, at least 0
//	quantity            units that a request charges; its cost is T * quantity
//
// The TAT is the whole state of a key. A key whose TAT has passed is at rest and equals
// an absent key, whose TAT is 0. Parameters are not part of the state: they are given
// with each request. If a request gives a different limit, the used time stays the same
// and is measured in units of the new limit.
//
// # The rule
//
// A request is admitted if its cost and the used time together fit the burst tolerance. An admitted
// request moves the TAT. In formulas:
//
//	admitted     if used + T * quantity <= T * limit
//	new TAT      = max(TAT, now) + T * quantity
//	remaining    = (T * limit - used) / T after the decision, clamped to 0..limit
//	retry after  = used + T * quantity - T * limit, if refused
//	reset after  = used, after the decision
//
// The classical definition for one unit compares the old TAT with a tolerance tau of T * max_burst:
// a unit conforms if TAT <= now + tau. Here the new TAT, which is TAT + T, is compared with
// now + T * limit, which is now + tau + T. The two conditions are equivalent. The condition used here
// also holds for quantities other than 1.
//
// A refused request does not change the state, so repeated requests do not prolong
// the wait. Three quantities are special:
//
//   - 0 peeks. It never changes the TAT, and is refused only if the used time exceeds the
//     burst tolerance, as after a change to a smaller limit. On a bucket that is exactly
//     empty, a peek is admitted, with 0 remaining.
//   - A quantity above the limit is refused with [limiter.NoRetry], since it would be
//     refused at any time; remaining and reset after then describe the unchanged bucket.
//   - A negative quantity refunds. It is never refused, subtracts T * -quantity from the
//     used time, and stops at a full bucket.
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
// T is rounded up to a whole nanosecond, so that the units admitted over any interval are at most
// limit + rate * time. Rounding adds less than 1 ns per unit. The effective rate is therefore
// unchanged at 1000 units a second and 0.02 % lower at 300 000 units a second. The effective rate is never
// above one unit a nanosecond. All other arithmetic is exact: once retry after has elapsed, the
// same request is admitted, and one nanosecond earlier it is refused.
//
// # Changed limits
//
// Decide measures the used time in units of the limit of each request. If the emission interval changes from 12 s to
// 7.5 s, 5 used units become 8. [DecideScaled] is for limits that change while keys are in use. Its state also contains
// the emission interval T of the last charge, and a request with another interval T' decides with the used units of the
// state:
//
//	used'        = used * T' / T, rounded up
//
// Used units therefore stay used: after a change from 5 to 8 units a minute, a key with 5 used units has exactly 3 more,
// and after a change from 8 to 5, a key with 6 used units has none until 2 units are restored.
//
// A charge or a refund stores the new interval. Until then, units are restored at the rate at which they were charged,
// and retry after and reset after are exact for that rate. A refused request stores the new interval if it is shorter, so
// that a client does not wait longer than under the new limit. It does not store a longer interval: the time to restore
// all units is never longer than under the old limit, however many requests are refused.
//
// # Ranges
//
// Time is an unsigned count of nanoseconds below 1<<63 on a clock that the caller chooses.
// Parameters are refused with [limiter.ErrRange] unless T * limit fits an int64; no later
// computation can overflow. Used time is capped at [math.MaxInt64] nanoseconds, 292 years. A TAT
// can be further ahead of now only if Decide did not compute it, or if the clock moved backward.
package gcra
