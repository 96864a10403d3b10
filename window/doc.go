// Package window is the arithmetic of limits that count requests in windows of time which
// are aligned to the clock: the sliding window, the fixed window, and the window of several
// buckets. It is on integers only.
//
// [NewLimit] compiles what a caller states (limit, period, parts) to a [limiter.Limit].
// [Slide] and [Count] take that limit, the state of a key and the time, and return the
// answer and what becomes of the state. All are pure functions: the package keeps no state,
// reads no clock, and is safe to use from anywhere.
//
// # Terms
//
//	limit         units that are admitted in a window
//	period        P, the length of a window
//	parts         n, the sub-windows of a window; 1 is the window itself
//	sub-window    w = P / parts long, rounded up to a nanosecond; number k is from k*w to (k+1)*w
//	count         units that were admitted in a sub-window, less what was given back
//	prev, curr    the counts of the previous and of the current window
//	e             elapsed: how much of the current window has passed
//	quantity      units that a request asks for
//	used          what counts against the limit
//
// # The rules
//
// A request is admitted if used + quantity <= limit, and then counts in the current
// sub-window. The three kinds differ in what is used:
//
//	FIXED         the count of the current window                     Count, 1 part
//	BUCKETS n     the sum of the counts of the last n sub-windows,    Count, n parts
//	              the current one included
//	SLIDING       curr + prev * (P - e) / P, rounded up               Slide
//
// And for all of them:
//
//	remaining     limit - used, clamped to 0..limit
//	retry after   until used + quantity <= limit, if refused and nothing else is charged
//	reset after   until used is 0, after the decision
//
// The count of sub-window k leaves the sum at (k+n)*w, and fades from the estimate of
// SLIDING until (k+2)*P. The times are exact: waiting the retry after admits the same
// request, and one nanosecond less does not.
//
// A refused request leaves the state alone. Three quantities are special:
//
//   - 0 peeks. It never changes the state, and is refused only if more is used than the
//     limit, as after a change to a smaller one. On a key that has exactly used it up, it is
//     admitted, with 0 remaining.
//   - More than the limit is refused with [limiter.NoRetry], since no wait would help;
//     remaining and reset after then describe the key as it is.
//   - A negative one refunds. It is never refused, and takes -quantity units from the counts,
//     from the newest first. What is more than all of them is dropped.
//
// # What each one promises
//
// FIXED never admits more than the limit in a window of the clock. But the end of one window
// and the begin of the next can each bring a whole limit, so twice the limit can come at once.
//
// BUCKETS never admits more than the limit in n consecutive sub-windows. So it never does in
// any stretch of (n-1)/n of a period, wherever that begins, but may in a whole period: by
// what had come at the begin of a sub-window that has just left.
//
// SLIDING reckons that the requests of the previous window were spread evenly over it. If
// they came at its end, then more than the limit is admitted in a stretch of one period that
// begins with them, and if they came at its begin, then less. In a window of the clock, it
// never admits more than the limit.
//
// # Examples
//
// FIXED, 100 an hour, on a fresh key. The limit comes twice within one minute:
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
// SLIDING, 100 an hour, on a key that had 84 in the hour before 00:00 and 36 since. At 00:15
// three quarters of the 84 count, 63, so 99 are used:
//
//	time   quantity  prev  curr  used  answer    remaining  retry after     reset after
//	00:15  1         84    36    99    admitted  0          -               105 min
//	00:15  1         84    37    100   refused   0          42.857142858 s  105 min
//	00:45  0         84    37    58    admitted  42         -               75 min
//
// # Change of parameters
//
// Parameters come with each request. Another limit changes nothing in the counts. Other
// lengths or numbers of sub-windows do: what a stored sub-window has counted then counts as
// if all of it had come at the last moment that it can have come at, which is the end of that
// sub-window, or now if that is still to come. What is outside the window by that is
// dropped. So a count stays as long as it would if each moment were known, or longer.
//
// Only a charge or a refund stores what has been counted again. Until then each request
// counts it again, which has two effects, both of them in the times that a decision states.
// What came in a stored sub-window that has not ended moves on with the time, until that has
// ended. And the state expires when it would have without the change, so a longer period
// keeps what came under a shorter one only from the first charge on.
//
// # State
//
// The Expires of a state is the begin of the newest sub-window that has counted anything,
// and n*w (of SLIDING: 2*P) more. So that begin is known from it. The Data are, in little
// endian:
//
//	8 bytes      w in the lower 62 bits, and above it the size of a counter: 0 to 3 stand
//	             for 1, 2, 4 and 8 bytes
//	n counters   (SLIDING: 2) of that size, the oldest first; the last one is not 0
//
// The size is the least that holds the limit and all counters, except that it does not
// become less while the sub-windows stay as they are. SLIDING with a limit below 1<<32
// takes at most 16 bytes, and Expires.
//
// The newest counter is the last one so that a charge in the same sub-window changes no other
// byte.
//
// A malformed state equals an absent one. If the newest sub-window begins after now, since
// the clock that the state was made by is ahead, then it is the current one, and until then
// nothing leaves or fades.
//
// # Ranges
//
// Time is an unsigned count of nanoseconds below 1<<63 on a clock that the caller chooses
// and that does not go back. Parameters are refused with [limiter.ErrRange] unless the
// limit is at least 1, parts are within 1..[MaxParts] and the window is within
// 1..[MaxPeriod]; nothing after that can overflow, except that a count stays at 1<<64 - 1 if
// a change of parameters adds up more than that. A Duration is at most [math.MaxInt64], which
// only a state that was put by hand can exceed.
//
// Count takes time in proportion to the parts, about a nanosecond each, and several for a
// change of parameters and for a refund over sub-windows.
package window
