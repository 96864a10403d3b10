package windowlog

import (
	"math"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// Decide answers a request for quantity units at time now, in nanoseconds below 1<<63, for
// a key whose state is old, the zero State if there is none. It returns what becomes of the
// state, with Tail in room, whatever its contents, and the answer.
//
// Only a charge, and a refund of something, change the state. A change whose Expires is at
// now says that the log is empty.
//
// The limit l is one that NewLimit made. Decide never panics on such a limit, whatever the
// state, leaves Err nil, and allocates nothing unless Tail is longer than room.
func Decide(l *limiter.Limit, old limiter.State, now uint64, quantity int64, room []byte) (c limiter.Change, d limiter.Decision) {
	var buf [maxEntrySize]byte
	var added []byte
	var g log
	g.open(old, uint64(l.Interval), now)
	d.Limit, d.RetryAfter = l.Max, limiter.NoRetry
	switch {
	case quantity > l.Max:
		d.Limited = true
	case quantity >= 0:
		d.Limited, d.RetryAfter = g.refuses(l, now, quantity)
		if c.Set = quantity > 0 && !d.Limited; c.Set {
			added = g.charge(buf[:0], now, uint64(quantity))
		}
	case g.count > 0:
		// Negating as unsigned gives the smallest int64 its true magnitude.
		added, c.Set = g.refund(buf[:0], -uint64(quantity))
	}
	if c.Set {
		g.expires = math.MaxUint64
	}
	d.Remaining = g.remaining(l)
	if g.count > 0 {
		d.ResetAfter = g.until(g.last, now)
		if c.Set {
			c.Keep, c.Tail = g.write(room, added)
		}
	}
	c.Expires = now + uint64(d.ResetAfter)
	return c, d
}

// refuses tells whether a charge or a peek is refused, and how long that stays so. A log
// that turns out to be malformed is emptied, and refuses nothing.
func (g *log) refuses(l *limiter.Limit, now uint64, quantity int64) (bool, time.Duration) {
	// Subtracting the quantity instead of adding it to the sum leaves none that could
	// overflow.
	units, entries := uint64(l.Max-quantity), int(l.Amount)-1
	if quantity == 0 {
		entries = math.MaxInt // a peek takes no entry
	}
	if g.sum <= units && g.count <= entries {
		return false, limiter.NoRetry
	}
	last, ok := g.lastToLeave(units, entries)
	if !ok {
		g.clear()
		return false, limiter.NoRetry
	}
	return true, g.until(last, now)
}

// lastToLeave returns the time of the entry after whose leaving no more than so many units
// and entries are left. It reports false if the log is malformed.
func (g *log) lastToLeave(units uint64, entries int) (uint64, bool) {
	rest := *g
	// An entry has at least one unit, so no more than this many have to leave, and no more
	// than this many can stay. The walk begins at the end that is nearer.
	leave := max(g.sum-min(g.sum, units), uint64(g.count-min(g.count, entries)))
	if stay := min(units, uint64(entries)); leave <= stay {
		return rest.leave(0, units, entries)
	}
	for ; ; entries-- {
		start, e, ok := rest.newest()
		if !ok || e.quantity > units || entries == 0 {
			return rest.last, ok
		}
		units -= e.quantity
		if !rest.pop(start, e) {
			return 0, false
		}
	}
}

// charge adds a request to the log, and appends its entry to buf.
func (g *log) charge(buf []byte, now, quantity uint64) []byte {
	if g.count == 0 {
		g.base, g.last = now, now
	}
	// A state put by hand may have a time to come. Entries stay in order.
	at := max(now, g.last)
	delta := at - g.last
	g.last = at
	g.sum += quantity
	g.count++
	return appendEntry(buf, delta, quantity)
}

// refund takes units off the newest entries, and appends the one that is left with some to
// buf. It reports false if the log turns out to be malformed, and empties it.
func (g *log) refund(buf []byte, credit uint64) (added []byte, ok bool) {
	if credit >= g.sum {
		g.clear()
		return buf, true
	}
	for ok = true; ok && credit > 0; {
		var start int
		var e entry
		if start, e, ok = g.newest(); ok && e.quantity > credit {
			g.used, g.sum = start, g.sum-credit
			buf = appendEntry(buf, e.delta, e.quantity-credit)
			break
		}
		credit -= min(credit, e.quantity)
		ok = ok && g.pop(start, e)
	}
	if !ok || !g.sane(len(buf)) {
		g.clear()
		return buf, false
	}
	return buf, true
}

// remaining returns the units that could be charged at once.
func (g *log) remaining(l *limiter.Limit) int64 {
	if int64(g.count) >= l.Amount {
		return 0
	}
	return l.Max - int64(min(g.sum, uint64(l.Max)))
}

// until returns how long it takes until an entry of time t has left, at most what a Duration
// holds. It is shorter where the whole state expires before, as one does that was made
// under a shorter period.
func (g *log) until(t, now uint64) time.Duration {
	end := t + g.period
	if end < t {
		end = math.MaxUint64
	}
	return time.Duration(min(min(end, g.expires)-now, math.MaxInt64))
}
