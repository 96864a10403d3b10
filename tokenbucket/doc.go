// Package tokenbucket implements the arithmetic of a token bucket that is refilled in whole
// intervals: a fixed amount every second, hour or day, and nothing in between.
//
// [NewLimit] compiles capacity, refill amount and refill interval to a [limiter.Limit].
// [Decide] takes that limit, the state of a key and the time, and returns the change of the
// state and the decision. Both functions are pure: the package keeps no state, reads no
// clock, and is safe for concurrent use.
//
// # Terms
//
//	capacity     tokens of a full bucket: Limit.Max
//	amount       tokens added by one refill: Limit.Amount
//	interval     time from one refill to the next: Limit.Interval
//	used         tokens missing from a full bucket, after the refill at the anchor
//	anchor       time of the last refill that has been subtracted from used; initially the
//	             time of the first charge
//	quantity     tokens that a request charges
//
// # The rule
//
// The first charge of a full bucket starts its refill clock: the anchor is the time of that
// charge, and refills are due at anchor + interval, anchor + 2 * interval and so on, until
// the bucket is full. The clock then stops, and the next charge restarts it. The first refill
// of a bucket that was full is therefore a whole interval after the first charge, and the
// refill times do not depend on the time at which a process was started.
//
//	refills      k = (now - anchor) / interval, rounded down
//	used         = max(0, used - k * amount); the anchor becomes anchor + k * interval
//	admitted     if used + quantity <= capacity
//	remaining    = capacity - used after the decision, at least 0
//	retry after  = anchor + m * interval - now, with the smallest m for which
//	               used - m * amount + quantity <= capacity
//	reset after  = anchor + m * interval - now, with m = used / amount, rounded up, after
//	               the decision
//
// A refused request does not change the state. Three quantities are special:
//
//   - 0 peeks. It never changes the state, and is refused only if more is used than the
//     bucket holds, as after a change to a smaller capacity. On a bucket that is exactly
//     empty, a peek is admitted, with 0 remaining.
//   - A quantity above the capacity is refused with [limiter.NoRetry], since it would be
//     refused at any time; remaining and reset after then describe the unchanged bucket.
//   - A negative quantity refunds. It is never refused, subtracts -quantity from used, and
//     stops at a full bucket. The anchor does not change, so refill times stay the same.
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
// In the last row the bucket is full, so the charge restarts the refill clock.
//
// # Bounds
//
// For any sequence of requests, the tokens admitted within an interval of time are at most
// capacity + amount * the number of refills within it. Refills are at least one refill
// interval apart, so a time of length D contains at most D / interval + 1 refills. To admit
// less in a short time around a refill, use smaller and more frequent refills. Package gcra
// is the limiting case, in which units are restored continuously.
//
// # Change of parameters
//
// Used and anchor are interpreted with the parameters of each request. Used tokens stay
// used, and the refills since the anchor count with the new amount and the new interval.
// After a change, used may exceed the capacity. 0 tokens then remain until enough refills
// have been made.
//
// Each charge and refund sets the expiry time of the key by the parameters of that request. Until the
// next charge or refund, a state that was stored under faster refills expires when those
// refills would have filled the bucket. Retry after and reset after take this into account.
//
// # Changed limits
//
// [DecideScaled] is for limits that change while keys are in use. Its state also contains the interval and the amount of
// the refills under which it was last charged, and the refills that are due up to now count with these. A charge or a
// refund stores the new interval and amount. So does a refused request if the new refills admit it sooner, and do not
// fill the bucket later. Until then, tokens are refilled as before. If the interval has changed, the anchor becomes the
// time of that request, so the next refill is due a whole new interval later. A change of the limit alone refills no
// token.
//
// # State
//
// The Data of a key is 16 bytes, little endian: used, then the anchor, uint64 each. In the state of DecideScaled, the
// interval and the amount of the refills precede them, 8 bytes each.
// Expires is the time at which the bucket is full again; a full bucket needs no state. Data
// of any other length counts as an absent state.
//
// # Ranges
//
// Time is an unsigned count of nanoseconds below 1<<63 on a clock that the caller chooses.
// Parameters are refused with [limiter.ErrRange] unless the time to fill an empty bucket
// fits an int64. A state set manually may hold any numbers: if the anchor is in the future,
// refills start after the anchor, and waits are capped at [math.MaxInt64] nanoseconds, 292
// years.
package tokenbucket
