// Package leaky is the arithmetic of a leaky bucket as a queue: requests that come in
// bursts go on one after the other at a constant rate, and those that find the queue full
// are refused.
//
// [NewLimit] compiles what a caller states (capacity, count, period) to a [limiter.Limit].
// [Decide] takes that limit, the state of a key and the time, and returns the change of the
// state and the answer. The answer has a Wait: the caller holds the request back for that
// long. Both are pure functions: the package keeps no state, reads no clock, makes nobody
// wait, and is safe to use from anywhere.
//
// # Terms
//
//	capacity            units that the queue holds, those that are going on included: Limit.Max
//	emission interval   T, the time that one unit takes to leave: period / count, rounded
//	                    up to a nanosecond
//	TAT                 theoretical arrival time: when the queue will be empty
//	used                how long the queue is, as time: TAT - now, at least 0
//	quantity            units a request asks for; they take T * quantity to leave
//	wait                how long an admitted request is held back
//	departure           now + wait, when it goes on
//
// # The rule
//
// The arithmetic is that of package gcra with a limit of capacity:
//
//	admitted     if used + T * quantity <= T * capacity
//	wait         = used before the request's own charge
//	new TAT      = max(TAT, now) + T * quantity
//	remaining    = (T * capacity - used) / T, clamped to 0..capacity
//	retry after  = used + T * quantity - T * capacity, if refused
//	reset after  = used, after the decision
//
// A request that finds an empty queue goes on at once, and the next one no sooner than T *
// quantity after it. A refused request leaves the state alone, and has a Wait of
// [limiter.NoRetry]. Three quantities are special:
//
//   - 0 peeks. It never changes the TAT; Wait is what the next request would wait now. It
//     is refused only if the queue is longer than its capacity, as after a change to a
//     smaller one. On a queue that is exactly full it is admitted, with 0 remaining.
//   - More than the capacity is refused with [limiter.NoRetry], since no wait would help.
//   - A negative one refunds: places at the end of the queue are given up. It is never
//     refused, waits for nothing, takes T * -quantity off what is used, and stops at an
//     empty queue. What is left of the queue is its reset after.
//
// # How it differs from gcra
//
// The two admit and refuse the same requests. GCRA as a meter lets those that it admits go
// on at once, so what comes behind it comes in bursts of up to its limit. Here each is told
// its turn, so what comes behind is even: departures are T * quantity apart whatever comes
// in, and capacity is not how much may pass at once, but how many may stand in line. The
// longest wait is T * (capacity - 1); a capacity of 1 has no line, and refuses whatever
// comes within T of the one before.
//
// nginx's limit_req with a burst and without nodelay is the relative: its excess is the
// queue, its burst is capacity - 1, and it delays a request by what is in the queue before
// it. With nodelay it is the meter. It counts in thousandths of a request and in
// milliseconds, here it is nanoseconds.
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
// A refund shortens the queue at its end, whoever stands there, for the others have been
// told their turn already. If it was not the last in line who left, two departures come
// together: of three that go on at 0, 0.5 and 1 s the second leaves, the queue then ends at
// 1 s, and the next that comes is told 1 s, too. Over any stretch from then on the rate
// holds again.
//
// Callers keep their own turns: nothing here knows whether one waited.
//
// # Change of parameters
//
// The TAT is all that is kept. Another limit on the same key reads the same used time by
// its own measure, as in gcra: a queue that has been promised lasts as long as it did.
//
// # State
//
// Expires is the TAT, and there is no Data. A state that has Data counts as none.
//
// # Ranges
//
// Time is an unsigned count of nanoseconds below 1<<63 on a clock that the caller chooses.
// Parameters are refused with [limiter.ErrRange] unless T * capacity fits an int64. Used
// time counts as at most [math.MaxInt64] nanoseconds, 292 years.
package leaky
