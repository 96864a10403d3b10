// Package windowlog implements the arithmetic of the sliding window log: an exact limit on any
// window of time, with one timestamp for each admitted request.
//
// [NewLimit] compiles a caller's parameters (limit, period, entries) to a [limiter.Limit]. [Decide]
// takes that limit, the state of a key and the time, and returns the change of the state and the
// decision. Both functions are pure: the package keeps no state, reads no clock, and is safe for
// concurrent use.
//
// # Terms
//
//	limit       maximum number of units in any window: Limit.Max
//	period      P, the length of the window: Limit.Interval
//	entries     maximum number of entries in the log, which bounds its memory: Limit.Amount
//	entry       the time and the quantity of an admitted request
//	used        the sum of the quantities of the entries that count
//	quantity    units that a request asks for
//
// # Rules
//
// An entry of time t counts until t + P, exclusive.
//
//	admitted     if used + quantity <= limit, and the log can hold one more entry
//	remaining    = limit - used after the decision, at least 0; 0 if the log cannot hold more entries
//	retry after  = t + P - now, if refused; t is the time of the entry after whose expiry the
//	               request would be admitted
//	reset after  = t + P - now; t is the time of the newest entry after the decision
//
// No window of length P, aligned or not, therefore admits more than limit. Algorithms with a
// smaller state cannot guarantee this: package window estimates or counts in steps, and gcra admits
// up to twice its limit in the time in which an exhausted limit recovers. The cost of the guarantee
// is memory for each request. A request takes one entry, regardless of its quantity.
//
// A refused request does not change the state: it adds no entry, and repeated requests do not
// prolong the wait. Three quantities are special:
//
//   - 0 peeks. It never changes the state, adds no entry, and is refused only if more units are
//     used than the limit, as after a change to a smaller limit. If the log is full or exactly the
//     limit is used, a peek is admitted, with 0 remaining.
//   - A quantity above the limit is refused with [limiter.NoRetry], since no wait would help;
//     remaining and reset after then describe the unchanged log.
//   - A negative quantity refunds. It is never refused, and subtracts -quantity units from the
//     newest entries. Entries without units are removed. Any excess is dropped.
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
// The parameters of each request are applied to the stored timestamps. Expired entries that a charge or a
// refund has dropped are not restored under a longer period. After a change to a smaller limit, more
// units may be used, or more entries stored, than the new limit admits. 0 units then remain until
// enough entries have expired.
//
// Each charge and refund sets the expiry time of the key according to the period of that request.
// Until the next charge or refund, a state that was made under a shorter period expires according to
// the shorter period. Retry after and reset after take this expiry time into account.
//
// # Cost of a decision
//
// A decision reads the footer, and visits only these entries:
//
//   - the entries that have expired since the last charge or refund. A charge or a refund drops them
//     from the log. A peek or a refusal does not change the state, so the next decision visits them
//     again. An entry takes about 5 ns.
//   - if the request is refused, the entries that have to expire before it would be admitted, or
//     the entries that can remain, whichever are fewer. For a quantity of 1, one entry is usually
//     visited. The number of visited entries is at most half of the limit.
//   - if the request is a refund, the entries from which units are subtracted.
//
// A charge whose entry fits in the spare bytes of the log (see State) writes its entry, the
// remaining spare bytes and the footer. Otherwise the log is rebuilt from the entries that count.
// The spare bytes of a rebuilt log are an eighth of the bytes of its entries, at least 8 and at
// most 2 KiB. The log is also rebuilt if its entries take less than a quarter of it, or if it has
// more than twice the spare bytes of a rebuilt log. On average, a charge writes about 80 bytes at
// 100 entries, 250 at 1000 and 1100 at 8192. Most decisions take 20 to 50 ns.
//
// # Memory
//
// An entry of quantity 1 takes 1 to 7 bytes if the previous entry is at most a day earlier: 3 bytes
// if it is 1 ms earlier, 5 bytes for 1 s, and 7 bytes for an hour. Including spare bytes, the average
// is at most 8 bytes for logs of about 10 entries or more that grow or keep their length. A log whose
// entries expire without a charge keeps its size until the next charge or until it expires.
//
// # State
//
// The Data of a key consists of entries, spare bytes, and a footer of 36 bytes at the end:
//
//	base, last, sum    uint64 each: times of the oldest and the newest entry, and the sum of
//	                   the quantities
//	start, end, count  uint32 each: start and end of the entries, and their number
//
// All fields are little endian. Bytes before the start belong to expired entries. An entry consists
// of one or two uvarints:
//
//	delta * 2                       if its quantity is 1
//	delta * 2 + 1, quantity * 2     otherwise
//
// The delta is the time in nanoseconds since the previous entry, and is ignored in the oldest
// entry. Only the uvarint of a delta that is followed by a quantity is odd, so entries can also be
// read backward. Expires is last + P.
//
// # Ranges and malformed states
//
// Time is an unsigned count of nanoseconds below 1<<63 on a clock that the caller chooses. An entry
// is never before its predecessor: if a state set manually contains a future time, the next entry
// gets that time. Waits are capped at [math.MaxInt64] nanoseconds, 292 years.
//
// A malformed state counts as absent. A decision does not read every byte, so damage within the
// entries may be detected only when a decision visits them.
package windowlog
