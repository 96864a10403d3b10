package windowlog

import (
	"math"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// Decide decides a request for quantity units at time now, in nanoseconds below 1<<63, on a key in
// state old, which is the zero State for an absent key. It returns the change of the state and the
// decision. The Tail of the change uses the memory of room, whose contents are overwritten.
//
// Only a charge, and a refund on a nonempty log, change the state. If the Expires of a change is
// now, the log is empty.
//
// The limit l must have been made by NewLimit. With such a limit, Decide never panics, regardless
// of the state, and leaves d.Err nil. It does not allocate unless Tail is longer than the capacity of
// room.
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
		// Negating the quantity as a uint64 gives the correct magnitude of the smallest int64 too.
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

// refuses reports whether a charge or a peek is refused, and returns the time until it would be
// admitted. If refuses finds that the log is malformed, it clears the log and returns false.
func (g *log) refuses(l *limiter.Limit, now uint64, quantity int64) (bool, time.Duration) {
	// The quantity is subtracted from the limit rather than added to the sum, to avoid an overflow.
	units, entries := uint64(l.Max-quantity), int(l.Amount)-1
	if quantity == 0 {
		entries = math.MaxInt // a peek adds no entry
	}
	if g.sum <= units && g.count <= entries {
		return false, limiter.NoRetry
	}
	last, ok := g.lastToExpire(units, entries)
	if !ok {
		g.clear()
		return false, limiter.NoRetry
	}
	return true, g.until(last, now)
}

// lastToExpire returns the time of the newest entry that has to expire until at most the given numbers
// of units and entries remain. It returns false if the log is malformed.
func (g *log) lastToExpire(units uint64, entries int) (uint64, bool) {
	rest := *g
	// Each entry has at least one unit. The variable expire is therefore an upper bound of the number
	// of entries that have to expire. The variable remain is an upper bound of the number of entries
	// that can remain. The search starts at the oldest entry if expire <= remain, and otherwise at the
	// newest entry.
	expire := max(g.sum-min(g.sum, units), uint64(g.count-min(g.count, entries)))
	if remain := min(units, uint64(entries)); expire <= remain {
		return rest.dropOldest(0, units, entries)
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

// charge adds a request to the log, and appends its encoded entry to buf.
func (g *log) charge(buf []byte, now, quantity uint64) []byte {
	if g.count == 0 {
		g.base, g.last = now, now
	}
	// A state set manually may contain a future time. The new entry must not be before that time.
	at := max(now, g.last)
	delta := at - g.last
	g.last = at
	g.sum += quantity
	g.count++
	return appendEntry(buf, delta, quantity)
}

// refund subtracts units from the newest entries, and appends the partially refunded entry, if any,
// to buf. If the log is malformed, refund clears it and returns false.
func (g *log) refund(buf []byte, credit uint64) (added []byte, ok bool) {
	if credit >= g.sum {
		g.clear()
		return buf, true
	}
	for ok = true; ok && credit > 0; {
		var start int
		var e entry
		if start, e, ok = g.newest(); ok && e.quantity > credit {
			g.end, g.sum = start, g.sum-credit
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

// remaining returns the units that could be charged immediately.
func (g *log) remaining(l *limiter.Limit) int64 {
	if int64(g.count) >= l.Amount {
		return 0
	}
	return l.Max - int64(min(g.sum, uint64(l.Max)))
}

// until returns the time until an entry of time t expires, capped at the largest Duration. If the
// whole state expires before the entry, because it was made under a shorter period, until returns the
// time until the state expires.
func (g *log) until(t, now uint64) time.Duration {
	end := t + g.period
	if end < t {
		end = math.MaxUint64
	}
	return time.Duration(min(min(end, g.expires)-now, math.MaxInt64))
}
