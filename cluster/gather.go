package cluster

import "time"

// gatherLongest is the maximum time for which the flusher waits for decisions before it submits a generation.
const gatherLongest = 5 * time.Millisecond

// gathering decides whether the flusher waits before it submits a generation.
type gathering struct {
	misses int // number of consecutive waits that timed out
	skip   int // number of generations to submit without a wait
}

// due reports whether to wait before the next generation.
func (g *gathering) due() bool {
	if g.skip > 0 {
		g.skip--
		return false
	}
	return true
}

// record records the result of a wait. After waits that timed out, up to 31 generations are submitted without one.
func (g *gathering) record(useful bool) {
	if useful {
		g.misses = 0
		return
	}
	g.misses = min(g.misses+1, 5)
	g.skip = 1<<g.misses - 1
}

// gather waits until as many callers wait for the open generation as have waited at the last commit. Most of them send
// their next requests soon after the replies, and one entry for all of them costs less than several. It returns
// false if the leadership ends first.
func (f *flusher) gather() bool {
	took, idle := f.leadership.flights.idle()
	first, callers := f.leadership.waiters.open(f.closed)
	if !idle || first == 0 || first >= callers || !f.gathering.due() {
		return true
	}
	timer := time.NewTimer(min(took, gatherLongest))
	defer timer.Stop()
	for {
		n, callers := f.leadership.waiters.open(f.closed)
		if n >= callers || f.decided() >= fullEntry {
			f.gathering.record(true)
			return true
		}
		select {
		case <-f.leadership.over:
			return false
		case <-f.leadership.wake:
		case <-timer.C:
			f.gathering.record(2*(n-first) >= callers-first)
			return true
		}
	}
}
