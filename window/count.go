package window

import "github.com/throttledhq/throttled/limiter"

// Count answers a request for quantity units at time now, for a key whose state is old and
// whose window is counted as it is: in one piece if l has 1 part (FIXED), and otherwise in
// as many sub-windows as it has parts (BUCKETS). It returns what becomes of the state. Time
// is in nanoseconds, with now below 1<<63.
//
// A refused request and a peek (quantity 0) change nothing. Otherwise the Tail of the Change
// is in room, whose contents are overwritten. Count allocates nothing if room holds 8
// bytes, and 8 more for each part. It only reads l and old.
//
// The limit l is one that NewLimit made. A state may be anything: see the package comment.
func Count(l *limiter.Limit, old limiter.State, now uint64, quantity int64, room []byte) (ch limiter.Change, d limiter.Decision) {
	// Slide has the same body. A function for both would take 12 ns more, on top of some 20,
	// as the results are copied once more.
	c := counters{parts: int(l.Amount), every: uint64(l.Interval)}
	c.read(&old, now, room)
	used := c.sum(c.age)
	d.Limit, d.RetryAfter = l.Max, limiter.NoRetry
	switch {
	case quantity < 0:
		// Negating as unsigned gives the smallest int64 its true magnitude.
		credit := -uint64(quantity)
		used -= min(used, credit)
		ch.Keep, ch.Tail = c.refund(l, credit, room)
		ch.Set, ch.Expires = true, c.empty
	case quantity > l.Max:
		d.Limited = true
	case used > uint64(l.Max-quantity):
		d.Limited, d.RetryAfter = true, wait(now, min(c.empty, c.sumFallsTo(uint64(l.Max-quantity))))
	case quantity > 0:
		used += uint64(quantity)
		ch.Keep, ch.Tail = c.charge(l, uint64(quantity), room)
		ch.Set, ch.Expires = true, c.empty
	}
	d.Remaining = l.Max - int64(min(used, uint64(l.Max)))
	d.ResetAfter = wait(now, c.empty)
	return ch, d
}

// sumFallsTo returns when the sum falls to room, which it is above.
func (c *counters) sumFallsTo(room uint64) uint64 {
	if c.held > room {
		return c.empty
	}
	// The sub-window that has to leave is the newest that, with all after it, counts more
	// than room.
	i := c.parts - 1
	for sum := c.count(i); sum <= room; sum = add(sum, c.count(i)) {
		i--
	}
	return c.start + uint64(i+1-c.age)*c.every
}
