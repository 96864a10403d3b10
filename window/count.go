package window

import "github.com/throttledhq/throttled/limiter"

// Count decides a request for quantity units at time now on a key in state old. If l has 1 part,
// Count uses fixed windows (FIXED). If l has more parts, it sums the counts of that many sub-windows
// (BUCKETS). It returns the change of the state and the decision. Time is in nanoseconds, with now
// below 1<<63.
//
// A refused request and a peek (quantity 0) do not change the state. Otherwise the Tail of the
// Change uses the memory of room, whose contents are overwritten. Count does not allocate if room
// has a capacity of 8 bytes and 8 more for each part. It does not modify l or old.
//
// The limit l must have been made by NewLimit. Any state is accepted: see the package comment.
func Count(l *limiter.Limit, old limiter.State, now uint64, quantity int64, room []byte) (ch limiter.Change, d limiter.Decision) {
	// Slide has the same body. A shared function would add 12 ns to the 20 ns of a decision, because the
	// results would be copied once more.
	c := counters{parts: int(l.Amount), partWidth: uint64(l.Interval)}
	c.read(&old, now, room)
	used := c.sum(c.age)
	d.Limit, d.RetryAfter = l.Max, limiter.NoRetry
	switch {
	case quantity < 0:
		// Negating the quantity as a uint64 gives the correct magnitude of the smallest int64 too.
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

// sumFallsTo returns the time at which the sum of the counts falls to the given number of units, if
// nothing is charged. The current sum must be greater than this number.
func (c *counters) sumFallsTo(units uint64) uint64 {
	if c.moving > units {
		return c.empty
	}
	// Add up the counts, newest first. The sub-window at which the sum exceeds the given number,
	// and all older sub-windows, have to expire.
	i := c.parts - 1
	for sum := c.count(i); sum <= units; sum = add(sum, c.count(i)) {
		i--
	}
	return c.start + uint64(i+1-c.age)*c.partWidth
}
