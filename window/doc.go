// Package window implements the arithmetic of limits that count requests in clock-aligned windows
// of time: the sliding window, the fixed window, and the window of several buckets. It uses
// integers only.
//
// [NewLimit] compiles a caller's parameters (limit, period, parts) to a [limiter.Limit]. [Slide],
// [Count] and [Calendar] take that limit, the state of a key and the time, and return the change of the state
// and the decision. All these functions are pure: the package keeps no state, reads no clock, and is safe
// for concurrent use.
//
// # Terms
//
//	limit         maximum number of units in a window
//	period        P, the length of a window
//	parts         n, the number of sub-windows of a window; if n is 1, the sub-window is the window
//	sub-window    w = P / parts long, rounded up to a nanosecond; sub-window k is from k*w to (k+1)*w
//	count         units admitted in a sub-window, less refunded units
//	prev, curr    the counts of the previous and of the current window
//	e             elapsed time of the current window
//	quantity      units that a request asks for
//	used          units that count against the limit
//
// # Rules
//
// A request is admitted if used + quantity <= limit. Its quantity is then added to the count of the
// current sub-window. The three kinds differ in the definition of used:
//
//	FIXED         the count of the current window                     Count, 1 part
//	BUCKETS n     the sum of the counts of the last n sub-windows,    Count, n parts
//	              the current one included
//	SLIDING       curr + prev * (P - e) / P, rounded up               Slide
//
// For all of them:
//
//	remaining     limit - used after the decision, clamped to 0..limit
//	retry after   time until used + quantity <= limit, if refused and nothing else is charged
//	reset after   time until used is 0, counted after the decision
//
// FIXED and BUCKETS remove the count of sub-window k from the sum at (k+n)*w. In SLIDING, the
// weight of window k reaches 0 at (k+2)*P. The times are exact: once retry after has elapsed, the
// same request is admitted, and one nanosecond earlier it is refused.
//
// A refused request does not change the state. Three quantities are special:
//
//   - 0 peeks. It never changes the state, and is refused only if more units are used than the
//     limit, as after a change to a smaller limit. If exactly the limit is used, a peek is
//     admitted, with 0 remaining.
//   - A quantity above the limit is refused with [limiter.NoRetry], since no wait would help;
//     remaining and reset after then describe the unchanged key.
//   - A negative quantity refunds. It is never refused, and subtracts -quantity units from the
//     counts, newest first. Any excess is dropped.
//
// # Guarantees
//
// FIXED never admits more than the limit in a clock-aligned window. But the end of one window and
// the start of the next can each admit the whole limit, so up to twice the limit can be admitted in
// a short burst.
//
// BUCKETS never admits more than the limit in n consecutive sub-windows. The limit
// therefore holds in every interval of length P * (n-1)/n. It does not hold in every interval of
// length P: such an interval may overlap n+1 sub-windows, so the units of the oldest one may have
// been admitted in addition to the limit.
//
// SLIDING assumes that the requests of the previous window were distributed evenly over it. If most
// of them arrived at the end of the previous window, more than the limit may be admitted in the
// period that starts with these requests. If most of them arrived at its start, less than the limit
// is admitted. In a clock-aligned window SLIDING never admits more than the limit.
//
// # Calendar windows
//
// [Calendar] counts in windows whose length varies, such as days and months in a time zone. The caller computes the
// present window by its wall clock and passes the start and the end in the limit (see [NewCalendarLimit]), so this
// package needs no calendar. The rules are those of FIXED, with these differences:
//
//   - A count is kept until the end of the window in which it was charged, even if a later request has another window
//     that overlaps it, as after a change of the time zone. If a charge has a later end than the state, the whole count
//     is kept until then. A changed end therefore never admits more.
//   - A window has ended when its end is reached by limiter time, or by the wall clock for which the limit of a request
//     was made, whichever is first. The count of a window that ends at or before the start of the limit is 0, even if
//     limiter time is behind the wall clock.
//   - If limiter time has reached the end of the window in the limit, as for a request that was made just before the end,
//     the charge counts in the next window, together with the requests for which the limit of that window is made. Until
//     the first of them is charged, the end of the window is unknown, and reset after and retry after are upper bounds.
//
// So no unit is removed before its window has ended by one of the two clocks, and no unit counts in a later window than
// the one after that for which its limit was made. While limiter time is behind the wall clock, reset after and retry
// after are too long by the difference, because this package does not read the wall clock.
//
// # Examples
//
// FIXED, 100 an hour, on a fresh key. The limit is admitted twice within one minute:
//
//	time   quantity  count  answer    remaining  retry after  reset after
//	00:59  100       0      admitted  0          -            1 min
//	00:59  1         100    refused   0          1 min        1 min
//	01:00  100       0      admitted  0          -            60 min
//
// BUCKETS, 100 an hour in 3 sub-windows of 20 minutes, on a fresh key:
//
//	time   quantity  counts   answer    remaining  retry after  reset after
//	00:05  60        0 0 0    admitted  40         -            55 min
//	00:25  40        0 60 0   admitted  0          -            55 min
//	00:59  1         60 40 0  refused   0          1 min        21 min
//	01:00  60        40 0 0   admitted  0          -            60 min
//	01:00  1         40 0 60  refused   0          20 min       60 min
//
// SLIDING, 100 an hour, on a key with 84 units in the hour before 00:00 and 36 since. At 00:15
// three quarters of the 84 units count, which are 63, so 99 units are used:
//
//	time   quantity  prev  curr  used  answer    remaining  retry after     reset after
//	00:15  1         84    36    99    admitted  0          -               105 min
//	00:15  1         84    37    100   refused   0          42.857142858 s  105 min
//	00:45  0         84    37    58    admitted  42         -               75 min
//
// # Change of parameters
//
// Parameters are part of each request. A different limit does not affect the counts. A different
// length or number of sub-windows requires a conversion: all units of a stored sub-window count as
// of the last time at which they may have been charged. This is the end of that sub-window or now,
// whichever is earlier. Units outside the new window are dropped. A count is therefore retained at
// least as long as it would be if the exact times were known.
//
// The converted counts are stored only by a charge or a refund. Until then each request converts
// them again, which affects the times that a decision returns in two ways. First, units of a stored
// sub-window that has not ended count as of the time of each request, until that sub-window has
// ended. Second, the state expires as it would have without the change of parameters. Units charged
// under a shorter period are therefore retained for the longer period only after the next charge or
// refund.
//
// # State
//
// The Expires of a state is the start of the newest sub-window with a count above 0, plus n*w
// (SLIDING: 2*P). The start of that sub-window can therefore be computed from Expires. The encoding
// of Data is, in little endian:
//
//	8 bytes      w in the lower 62 bits, and the size of a counter in the upper 2: 0 to 3 encode
//	             1, 2, 4 and 8 bytes
//	n counters   (SLIDING: 2) of that size, oldest first; the last one is not 0
//
// The size is the smallest that holds the limit and all counters, but it does not decrease while
// the parameters of the sub-windows are unchanged. SLIDING with a limit below 1<<32 takes at most
// 16 bytes, in addition to Expires.
//
// The newest counter is the last one, so that a charge in the same sub-window changes no other
// byte.
//
// A malformed state equals an absent one. If the newest sub-window begins after now, because the
// state was made with a clock that was ahead, that sub-window is used as the current one, and no
// count expires or loses weight before its start.
//
// The Data of a Calendar state is the count, in 8 bytes, and its Expires is the end of the window. If the end is unknown,
// 8 more bytes contain the start of the window, and Expires is an upper bound of the end.
//
// # Ranges
//
// Time is an unsigned count of nanoseconds below 1<<63 on a clock that the caller chooses and that
// does not decrease. Parameters are refused with [limiter.ErrRange] unless the limit is at least 1,
// parts are within 1..[MaxParts] and the window is within 1..[MaxPeriod]. No later computation can
// overflow, except that a count saturates at 1<<64 - 1 if a conversion adds up more units. A
// returned Duration is capped at [math.MaxInt64] nanoseconds. Only a state set manually can cause a
// longer wait.
//
// The cost of Count is proportional to the number of parts: about one nanosecond for each part, or
// several nanoseconds for each part if the state is converted or a refund covers several sub-windows.
package window
