package window

import (
	"github.com/throttledhq/throttled/internal/muldiv"
	"github.com/throttledhq/throttled/limiter"
)

// Slide decides a request for quantity units at time now on a key in state old, with a sliding
// window that is estimated from the counts of two windows (SLIDING). Everything else is as in
// Count. The limit l must have 1 part. Slide does not allocate if room has a capacity of 24 bytes.
func Slide(l *limiter.Limit, old limiter.State, now uint64, quantity int64, room []byte) (ch limiter.Change, d limiter.Decision) {
	c := counters{parts: 2, partWidth: uint64(l.Interval)}
	c.read(&old, now, room)
	used := c.estimate(0)
	d.Limit, d.RetryAfter = l.Max, limiter.NoRetry
	switch {
	case quantity < 0:
		// Negating the quantity as a uint64 gives the correct magnitude of the smallest int64 too.
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

// estimate returns the used units after a refund of credit units: the whole count of the current
// window, plus the share of the previous count that the sliding window still covers.
func (c *counters) estimate(credit uint64) uint64 {
	prev, curr := c.pair()
	given := min(curr, credit)
	prev, curr = prev-min(prev, credit-given), curr-given
	if prev == 0 {
		return curr
	}
	// The covered time is at most the length of a window, so covered is at most prev.
	covered, _ := muldiv.Ceil(prev, c.start+c.partWidth-c.now, c.partWidth)
	return add(curr, covered)
}

// estimateFallsTo returns the time at which the estimate falls to the given number of units, if
// nothing is charged. The current estimate must be greater than this number. The function first
// determines the window in which the estimate reaches the number. Within a window, only the covered
// share of the previous count decreases.
func (c *counters) estimateFallsTo(units uint64) uint64 {
	prev, curr := c.pair()
	switch {
	case curr <= units:
		return c.fades(c.start, prev, units-curr)
	case c.moving == 0:
		return c.fades(c.start+c.partWidth, curr, units)
	case c.moving <= units:
		return c.fades(c.start+c.partWidth, c.fixed, units-c.moving)
	}
	return c.fades(c.movingStart+c.partWidth, c.moving, units)
}

// fades returns the time, in the window that begins at start, at which the covered share of the
// previous window's count falls to the given number of units. That count must be greater than
// units.
func (c *counters) fades(start, count, units uint64) uint64 {
	// With rest nanoseconds left in the window, ceil(count*rest / partWidth) units are covered. This
	// number is at most units if count*rest <= units*partWidth. The largest such rest is below partWidth.
	rest, _ := muldiv.Floor(units, c.partWidth, count)
	return start + c.partWidth - rest
}
