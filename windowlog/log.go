package windowlog

import (
	"math"

	"github.com/throttledhq/throttled/limiter"
)

// A log is an open state: its footer, and where its entries are.
type log struct {
	data       []byte // as it is stored
	base, last uint64 // times of the oldest and the newest entry
	sum        uint64 // of the quantities
	head, used int    // where the entries begin and end in data
	count      int    // of entries
	period     uint64
	expires    uint64 // when all is forgotten, whatever the entries say
}

// clear makes g an empty log.
func (g *log) clear() { *g = log{period: g.period, expires: math.MaxUint64} }

// open reads a state, and drops the entries that have left the window by now. A state that
// has expired or is malformed is an empty log.
func (g *log) open(old limiter.State, period, now uint64) {
	g.period, g.expires = period, old.Expires
	if old.Expires <= now || !g.readFooter(old.Data) {
		g.clear()
		return
	}
	from := uint64(0) // the first time whose entries still count
	if now >= period {
		from = now - period + 1
	}
	if g.last < from { // all have left: there is no need to look at each
		g.clear()
		return
	}
	if _, ok := g.leave(from, math.MaxUint64, math.MaxInt); !ok || !g.sane(0) {
		g.clear()
	}
}

// sane tells whether what the footer says of the entries is possible, once added bytes of
// another one are behind them. So damage shows early, and is never carried on.
func (g *log) sane(added int) bool {
	size := g.used + added - g.head
	return 0 < g.count && g.count <= MaxEntries && g.count <= size && size <= g.count*maxEntrySize &&
		g.sum >= uint64(g.count) && (g.base == g.last || g.base < g.last && g.count > 1)
}

// leave drops entries from the oldest on, until those that are left are of from or later,
// and no more than so many units and entries. It returns the time of the last one dropped,
// and reports false if the log is malformed.
func (g *log) leave(from, units uint64, entries int) (last uint64, ok bool) {
	if g.base >= from && g.sum <= units && g.count <= entries {
		return 0, true
	}
	e, ok := g.entry(g.head)
	for ok && (g.base < from || g.sum > units || g.count > entries) {
		last = g.base
		if e.quantity > g.sum {
			return 0, false
		}
		g.head = e.end
		g.sum -= e.quantity
		if g.count--; g.count == 0 {
			return last, true
		}
		e, ok = g.entry(g.head)
		if g.base += e.delta; g.base < last || g.base > g.last {
			return 0, false
		}
	}
	return last, ok
}

// newest returns the newest entry, and where it begins. It reports false if there is none
// that is well formed.
func (g *log) newest() (start int, e entry, ok bool) {
	start = g.startOfNumber(g.used)
	// Only a delta can be odd, and then a quantity comes behind it.
	if start > g.head {
		if before := g.startOfNumber(start); g.data[before]&flagQuantity != 0 {
			start = before
		}
	}
	e, ok = g.entry(start)
	// The oldest entry is the last to be reached.
	return start, e, ok && (start == g.head) == (g.count == 1)
}

// startOfNumber returns where the number begins that ends before end.
func (g *log) startOfNumber(end int) int {
	for end--; end > g.head && g.data[end-1] >= 0x80; end-- {
	}
	return end
}

// pop drops the newest entry, which is e and begins at start, and has less than the sum. It
// reports false if that leaves none, or none that is in order.
func (g *log) pop(start int, e entry) bool {
	if g.count <= 1 || e.delta > g.last-g.base {
		return false
	}
	g.used = start
	g.sum -= e.quantity
	g.last -= e.delta
	g.count--
	return true
}
