package windowlog

import (
	"math"

	"github.com/throttledhq/throttled/limiter"
)

// log is a decoded state: the fields of its footer, and the location of its entries.
type log struct {
	data       []byte // encoded form
	base, last uint64 // times of the oldest and the newest entry
	sum        uint64 // of the quantities
	start, end int    // of the entries in data
	count      int    // of entries
	period     uint64
	expires    uint64 // expiry time of the state, regardless of the entries
}

// clear makes g an empty log.
func (g *log) clear() { *g = log{period: g.period, expires: math.MaxUint64} }

// open decodes a state, and drops the entries that have expired by now. An expired or malformed
// state is an empty log.
func (g *log) open(old limiter.State, period, now uint64) {
	g.period, g.expires = period, old.Expires
	if old.Expires <= now || !g.readFooter(old.Data) {
		g.clear()
		return
	}
	from := uint64(0) // the earliest time of an entry that still counts
	if now >= period {
		from = now - period + 1
	}
	if g.last < from { // all entries have expired: no need to visit them
		g.clear()
		return
	}
	if _, ok := g.dropOldest(from, math.MaxUint64, math.MaxInt); !ok || !g.sane(0) {
		g.clear()
	}
}

// sane reports whether the count, the sum and the times in the footer are consistent with each
// other and with the size of the entries. It detects damage before the state is written again. The
// argument added is the size of an entry that is counted in the footer, but not yet in the data.
func (g *log) sane(added int) bool {
	size := g.end + added - g.start
	return 0 < g.count && g.count <= MaxEntries && g.count <= size && size <= g.count*maxEntrySize &&
		g.sum >= uint64(g.count) && (g.base == g.last || g.base < g.last && g.count > 1)
}

// dropOldest drops the oldest entries until the times of all entries are at or after the from
// parameter, and at most the given numbers of units and entries remain. It returns the time of the
// last dropped entry, or 0 if no entry was dropped. It returns false if the log is malformed.
func (g *log) dropOldest(from, units uint64, entries int) (last uint64, ok bool) {
	if g.base >= from && g.sum <= units && g.count <= entries {
		return 0, true
	}
	e, ok := g.entry(g.start)
	for ok && (g.base < from || g.sum > units || g.count > entries) {
		last = g.base
		if e.quantity > g.sum {
			return 0, false
		}
		g.start = e.end
		g.sum -= e.quantity
		if g.count--; g.count == 0 {
			return last, true
		}
		e, ok = g.entry(g.start)
		if g.base += e.delta; g.base < last || g.base > g.last {
			return 0, false
		}
	}
	return last, ok
}

// newest returns the newest entry and its offset. It returns false if that entry is malformed.
func (g *log) newest() (start int, e entry, ok bool) {
	start = g.startOfNumber(g.end)
	// The last uvarint starts at the offset start. If the uvarint before it is odd, the entry consists
	// of these two uvarints: its delta and its quantity. The entry then starts at the delta.
	if start > g.start {
		if before := g.startOfNumber(start); g.data[before]&flagQuantity != 0 {
			start = before
		}
	}
	e, ok = g.entry(start)
	// The newest entry starts at g.start if and only if it is the only entry.
	return start, e, ok && (start == g.start) == (g.count == 1)
}

// startOfNumber returns the start of the uvarint that ends before the offset end.
func (g *log) startOfNumber(end int) int {
	for end--; end > g.start && g.data[end-1] >= 0x80; end-- {
	}
	return end
}

// pop drops the newest entry e. The argument start is its offset. The quantity of e must be less than
// the sum. pop returns false if no entry would remain, or if the times are inconsistent.
func (g *log) pop(start int, e entry) bool {
	if g.count <= 1 || e.delta > g.last-g.base {
		return false
	}
	g.end = start
	g.sum -= e.quantity
	g.last -= e.delta
	g.count--
	return true
}
