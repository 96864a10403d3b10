// Package windowlog is the arithmetic of the sliding window log: the exact limit on any
// window of time, kept as a timestamp for each request that was admitted.
//
// [NewLimit] compiles what a caller states (limit, period, entries) to a [limiter.Limit].
// [Decide] takes that limit, the state of a key and the time, and returns the change of the
// state and the answer. Both are pure functions: the package keeps no state, reads no
// clock, and is safe to use from anywhere.
//
// # Terms
//
//	limit       units that any window admits: Limit.Max
//	period      P, the length of the window: Limit.Interval
//	entries     how many admitted requests the log can hold, to bound its memory: Limit.Amount
//	entry       the time and the quantity of a request that was admitted
//	used        the sum of the quantities of the entries that count
//	quantity    units a request asks for
//
// # The rule
//
// An entry of time t counts until t + P, and no longer.
//
//	admitted     if used + quantity <= limit, and fewer than entries of them count
//	remaining    = limit - used, at least 0; 0 if the log can hold no more entries
//	retry after  = t + P - now, of the entry after whose leaving both are true, if refused
//	reset after  = t + P - now, of the newest entry
//
// So no window of length P, wherever it begins, admits more than limit. What keeps less
// cannot promise that: package window estimates or counts in steps, and gcra admits up to
// twice its limit in the time in which that comes back. The price is memory for each
// request. One of a large quantity takes one entry, as any other does.
//
// A refused request leaves the state alone: it has no entry, and asking again and again
// does not prolong the wait. Three quantities are special:
//
//   - 0 peeks. It never changes the state, takes no entry, and is refused only if more is
//     used than the limit, as after a change to a smaller one. With nothing left it is
//     admitted, with 0 remaining.
//   - More than the limit is refused with [limiter.NoRetry], since no wait would help;
//     remaining and reset after then describe the log as it is.
//   - A negative one refunds. It is never refused, and takes -quantity off the newest
//     entries: their quantity gets less, or they go. What is more than all is dropped.
//
// # Example
//
// Limit 5, period 10 s, entries 4. On a fresh key:
//
//	time  quantity  used before  answer    remaining  retry after  reset after  the log (time:quantity)
//	 0 s  1         0            admitted  4          -            10 s         0:1
//	 2 s  3         1            admitted  1          -            10 s         0:1 2:3
//	 4 s  2         4            refused   1          6 s           8 s         0:1 2:3
//	 4 s  1         4            admitted  0          -            10 s         0:1 2:3 4:1
//	 9 s  1         5            refused   0          1 s           5 s         0:1 2:3 4:1
//	10 s  1         4            admitted  0          -            10 s         2:3 4:1 10:1
//	11 s  -1        5            admitted  1          -             3 s         2:3 4:1
//	11 s  6         4            refused   1          never         3 s         2:3 4:1
//	12 s  5         1            refused   4          2 s           2 s         2:3 4:1
//	14 s  5         0            admitted  0          -            10 s         14:5
//
// # Change of parameters
//
// The same timestamps are judged by the parameters of each request. Entries that a charge or
// a refund has found to have left are dropped, and stay so under a longer period. More may
// be used, or be in the log, than a smaller limit admits: 0 remain until enough has left.
//
// Each charge and refund sets the time at which the key expires by its own period. Until
// there is one, a state that was made under a shorter period expires by that, and retry
// after and reset after allow for it.
//
// # What a decision costs
//
// A decision reads the footer, and never goes through all entries that count. It walks over:
//
//   - entries that have left since the last charge or refund. A charge or a refund moves the
//     head behind them, so each is paid for once; a peek or a refusal leaves the state
//     alone, and the next decision walks again. An entry takes some 5 ns.
//   - if it is refused, the entries that have to leave before it would be admitted, or those
//     that can stay if they are fewer: one for a quantity of 1, and at most half of the
//     limit.
//   - if it refunds, the entries whose quantity it takes away.
//
// A charge that fits the spare bytes writes its entry, the spare bytes that are left and the
// footer. When there are no more, the log is built anew from the entries that count, with
// spare bytes of an eighth, at least 8 and at most 2 KiB. It is built anew, too, when its
// entries have become fewer than a quarter of it, or than half of what its spare bytes
// were meant for. On average a charge so writes some 80 bytes at 100 entries, 250 at
// 1000 and 1100 at 8192. Most decisions take 20 to 50 ns.
//
// # Memory
//
// An entry of quantity 1 takes 1 to 7 bytes if the one before it is at most a day away: 3
// at 1 ms, 5 at 1 s, 7 at an hour. With the spare bytes that is at most 8, once a log has
// some 10 entries and as long as it grows or stays as it is. A log that gets shorter without a charge keeps its bytes until
// there is one or it expires.
//
// # State
//
// The Data of a key are entries, spare bytes, and a footer of 36 bytes at the end:
//
//	base, last, sum    uint64 each: times of the oldest and the newest entry, and the sum of
//	                   the quantities
//	head, used, count  uint32 each: where the entries begin and end, and how many there are
//
// all little endian. Bytes before the head are those of entries that have left. An entry is
// one uvarint, or two:
//
//	delta * 2                       if its quantity is 1
//	delta * 2 + 1, quantity * 2     otherwise
//
// with the delta in nanoseconds since the entry before, which is not looked at in the oldest
// entry. Only a delta that a quantity follows is odd, so entries can be read from their end
// as well. Expires is last + P.
//
// # Ranges and damage
//
// Time is an unsigned count of nanoseconds below 1<<63 on a clock that the caller chooses.
// An entry is never before the one in front of it: one that comes after a state put by hand
// with a time to come gets that time. Waits count as at most [math.MaxInt64] nanoseconds,
// 292 years.
//
// A state that is malformed counts as absent. Not every byte is looked at by every decision,
// so damage within the entries may show only when a decision comes to them.
package windowlog
