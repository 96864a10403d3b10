package window

import (
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/muldiv"
)

// Slide answers a request for quantity units at time now, for a key whose state is old and
// whose window slides over the counts of two (SLIDING). All else is as with Count. The limit
// l has 1 part, and 24 bytes are enough room.
func Slide(l *limiter.Limit, old limiter.State, now uint64, quantity int64, room []byte) (ch limiter.Change, d limiter.Decision) {
	c := counters{parts: 2, every: uint64(l.Interval)}
	c.read(&old, now, room)
	used := c.estimate(0)
	d.Limit, d.RetryAfter = l.Max, limiter.NoRetry
	switch {
	case quantity < 0:
		// Negating as unsigned gives the smallest int64 its true magnitude.
		credit := -uint64(quantity)
		used = c.estimate(credit)
		ch.Keep, ch.Tail = c.refund(l, credit, room)
		ch.Set, ch.Expires = true, c.empty
	case quantity > l.Max:
		d.Limited = true
	case used > uint64(l.Max-quantity):
		d.Limited, d.RetryAfter = true, wait(now, min(c.empty, c.estimateFallsTo(uint64(l.Max-quantity))))
	case quantity > 0:
		used += uint64(quantity)
		ch.Keep, ch.Tail = c.charge(l, uint64(quantity), room)
		ch.Set, ch.Expires = true, c.empty
	}
	d.Remaining = l.Max - int64(min(used, uint64(l.Max)))
	d.ResetAfter = wait(now, c.empty)
	return ch, d
}

// pair returns the counts of the previous and the current window.
func (c *counters) pair() (prev, curr uint64) {
	switch c.age {
	case 0:
		return c.count(0), c.count(1)
	case 1:
		return c.count(1), 0
	}
	return 0, 0
}

// estimate returns what counts once credit units have been given back: all of the current
// window, and of the one before it as much as the sliding window still covers.
func (c *counters) estimate(credit uint64) uint64 {
	prev, curr := c.pair()
	given := min(curr, credit)
	prev, curr = prev-min(prev, credit-given), curr-given
	if prev == 0 {
		return curr
	}
	// What is covered is at most the window, so this is at most prev.
	covered, _ := muldiv.Ceil(prev, c.start+c.every-c.now, c.every)
	return add(curr, covered)
}

// estimateFallsTo returns when the estimate falls to room, which it is above. It looks for
// the window in which that happens; there only the count of the window before it becomes
// less.
func (c *counters) estimateFallsTo(room uint64) uint64 {
	prev, curr := c.pair()
	switch {
	case curr <= room:
		return c.fades(c.start, prev, room-curr)
	case c.held == 0:
		return c.fades(c.start+c.every, curr, room)
	case c.held <= room:
		return c.fades(c.start+c.every, c.others, room-c.held)
	}
	return c.fades(c.rest+c.every, c.held, room)
}

// fades returns when, in the window that begins at start, no more than room is covered of
// the count of the window before it, which is more than room.
func (c *counters) fades(start, count, room uint64) uint64 {
	// With rest left of the window, ceil(count*rest / every) is covered. That is at most room
	// if count*rest is at most room*every. So the largest such rest is below every.
	rest, _ := muldiv.Floor(room, c.every, count)
	return start + c.every - rest
}
