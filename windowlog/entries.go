package windowlog

import (
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// Entry is an entry of a log: units that count from the time At, in nanoseconds, for the length of a period.
type Entry struct {
	At, Units uint64
}

// Entries returns the entries of a state of Decide that count at time now in a window of length period, oldest first. There
// are none if the state has expired or is malformed.
func Entries(old limiter.State, period time.Duration, now uint64) []Entry {
	var g log
	g.open(old, uint64(period), now)
	all := make([]Entry, 0, g.count+1)
	for at, start := g.base, g.start; len(all) < g.count; {
		e, ok := g.entry(start)
		if len(all) > 0 {
			at += e.delta
		}
		if !ok || at > g.last {
			return nil
		}
		all, start = append(all, Entry{at, e.quantity}), e.end
	}
	return all
}

// Build returns the state of Decide with the given entries, in ascending order of their times, for a window of length period.
// Entries without units are left out. The times may be later than that of the next decision: such an entry counts from
// now on, and new entries get its time.
func Build(entries []Entry, period time.Duration) limiter.State {
	g := log{period: uint64(period)}
	var data []byte
	for _, e := range entries {
		if e.Units > 0 {
			data = g.charge(data, e.At, e.Units)
		}
	}
	if g.count == 0 {
		return limiter.State{}
	}
	expires := g.last + g.period
	_, tail := g.write(nil, data)
	return limiter.State{Expires: expires, Data: tail}
}
