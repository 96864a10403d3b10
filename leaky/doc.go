// Package leaky implements the arithmetic of a leaky bucket as a queue: requests that arrive
// in bursts leave one after the other at a constant rate, and requests that find the queue
// full are refused.
//
// [NewLimit] compiles capacity, count and period to a [limiter.Limit]. [Decide] takes that
// limit, the state of a key and the time, and returns the change of the state and the
// decision. The decision has a Wait: the caller delays the request for that long. Both
// functions are pure: the package keeps no state, reads no clock, delays nothing, and is safe
// for concurrent use.
//
// # Terms
//
//	capacity            units that fit in the queue, including the unit that is leaving: Limit.Max
//	emission interval   T, the time in which one unit leaves: period / count, rounded
//	                    up to a nanosecond
//	TAT                 theoretical arrival time: the time at which the queue is empty
//	used                the length of the queue, as time: TAT - now, at least 0
//	quantity            units that a request charges; they leave in T * quantity
//	wait                the delay of an admitted request
//	departure           now + wait, the time at which the request leaves the queue
//
// # The rule
//
// The arithmetic is the same as in package gcra, with the capacity as the limit:
//
//	admitted     if used + T * quantity <= T * capacity
//	wait         = used before the request's own charge
//	new TAT      = max(TAT, now) + T * quantity
//	remaining    = (T * capacity - used) / T after the decision, clamped to 0..capacity
//	retry after  = used + T * quantity - T * capacity, if refused
//	reset after  = used, after the decision
//
// A request that finds an empty queue leaves immediately, and the next request leaves at
// least T * quantity later. A refused request does not change the state, and has a Wait of
// [limiter.NoRetry]. Three quantities are special:
//
//   - 0 peeks. It never changes the TAT; Wait is the wait of a request made now. A peek is
//     refused only if the queue is longer than its capacity, as after a change to a
//     smaller capacity. On a queue that is exactly full, a peek is admitted, with 0
//     remaining.
//   - A quantity above the capacity is refused with [limiter.NoRetry], since it would be
//     refused at any time.
//   - A negative quantity refunds: it shortens the queue at its end. It is never
//     refused, has a Wait of 0, subtracts T * -quantity from the used time, and stops at an
//     empty queue. Reset after is the length of the remaining queue.
//
// # How it differs from gcra
//
// The two packages admit and refuse the same requests. Package gcra does not delay admitted
// requests, so its output has bursts of up to its limit. Here each request gets
// its own departure time, so the output is even for any input: the next request departs at
// least T * quantity later. The capacity is not the number of units that may pass in one
// burst, but the number of units that may be queued. The longest wait is T * (capacity - 1).
// With a capacity of 1 no request waits, and a request within T of the previous one is
// refused.
//
// This package corresponds to nginx's limit_req with a burst and without nodelay: the excess
// is the queue, the burst is capacity - 1, and a request is delayed by the length of the queue
// before it. Package gcra corresponds to limit_req with nodelay, which does not delay requests.
// limit_req counts in thousandths of a request and in milliseconds. This package counts in
// nanoseconds.
//
// # Example
//
// Capacity 3, count 2, period 1 make T = 0.5 s. On a fresh key:
//
//	time   quantity  used before  answer    wait   departure  remaining  retry after  reset after
//	0.0 s  1         0.0 s        admitted  0.0 s  0.0 s      2          -            0.5 s
//	0.0 s  1         0.5 s        admitted  0.5 s  0.5 s      1          -            1.0 s
//	0.0 s  1         1.0 s        admitted  1.0 s  1.0 s      0          -            1.5 s
//	0.0 s  1         1.5 s        refused   -      -          0          0.5 s        1.5 s
//	0.6 s  1         0.9 s        admitted  0.9 s  1.5 s      0          -            1.4 s
//	0.8 s  -1        1.2 s        admitted  0.0 s  -          1          -            0.7 s
//	0.8 s  0         0.7 s        admitted  0.7 s  -          1          -            0.7 s
//	5.0 s  1         0.0 s        admitted  0.0 s  5.0 s      2          -            0.5 s
//
// # Caveats
//
// A refund shortens the queue at its end, even if the refunded request is not the last one,
// because the departure times of the other requests have already been returned. In that case
// two departures coincide. For example, three requests leave at 0, 0.5 and 1 s. If the
// second one is refunded, the queue ends at 1 s, and the next request also leaves at 1 s.
// The rate holds over any interval that starts after these departures.
//
// Callers must observe the departure times: the package cannot detect a caller that does not
// wait.
//
// # Change of parameters
//
// The TAT is the whole state. If a request gives a different limit, the used time stays the
// same and is measured in units of the new limit, as in package gcra. Departure times that
// have been returned stay valid.
//
// # State
//
// Expires is the TAT, and Data is empty. A state with Data counts as absent.
//
// # Ranges
//
// Time is an unsigned count of nanoseconds below 1<<63 on a clock that the caller chooses.
// Parameters are refused with [limiter.ErrRange] unless T * capacity fits an int64. Used
// time is capped at [math.MaxInt64] nanoseconds, 292 years.
package leaky
