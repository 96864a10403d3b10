package raftlog

import (
	"sync/atomic"
	"time"
)

const (
	watched    = 16 // operations at once; raft has at most four
	watchTicks = 16 // looks within the limit
	maxWaits   = 7
)

// watch knows which operations are unfinished. It reads no clock: its owner looks at it at
// intervals and counts how often it has seen an operation, so that a pause of the whole
// process, which no disk is to blame for, counts as one interval at most.
type watch struct {
	last atomic.Uint64
	// slots are the numbers of the unfinished operations, or 0, above the three bits that say
	// how often each has to wait for the disk.
	slots [watched]atomic.Uint64
}

// begin notes an operation, which may take the limit so many times, 1 to maxWaits. Storing 0
// in what it returns notes the end.
func (w *watch) begin(waits uint64) *atomic.Uint64 {
	n := w.last.Add(1)*(maxWaits+1) + waits
	for i := range w.slots {
		if w.slots[i].CompareAndSwap(0, n) {
			return &w.slots[i]
		}
	}
	return new(atomic.Uint64) // not watched, but those that are began before it
}

// sightings counts how often in a row each operation of a watch has been seen.
type sightings [watched]struct {
	op    uint64
	times int
}

// look reports whether an operation has been unfinished for watchTicks intervals, as often as
// it may.
func (s *sightings) look(w *watch) bool {
	for i := range w.slots {
		op := w.slots[i].Load()
		if seen := &s[i]; op == 0 || op != seen.op {
			seen.op, seen.times = op, 0
		} else if seen.times++; seen.times >= watchTicks*int(op%(maxWaits+1)) {
			return true
		}
	}
	return false
}

// watchFiles calls stuck with the first file that has an operation older than it may be, and
// returns; or it returns when stop is closed.
func watchFiles(limit time.Duration, stop <-chan struct{}, stuck func(*guarded), files ...*guarded) {
	ticker := time.NewTicker(max(limit/watchTicks, time.Millisecond))
	defer ticker.Stop()
	seen := make([]sightings, len(files))
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		for i, f := range files {
			if seen[i].look(&f.watch) {
				stuck(f)
				return
			}
		}
	}
}
