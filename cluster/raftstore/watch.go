package raftstore

import (
	"sync/atomic"
	"time"
)

const (
	watched    = 16 // maximum number of watched operations; raft has at most four concurrently
	watchTicks = 16 // number of checks within one limit
	maxWaits   = 7
)

// watch tracks unfinished operations without reading a clock: the watchdog checks it at
// regular intervals, and counts the checks at which an operation is unfinished. A pause of the
// whole process, which is not caused by the disk, therefore counts as one interval at most.
type watch struct {
	last atomic.Uint64
	// slots holds the numbers of the unfinished operations. A free slot holds 0. The low three
	// bits of a number are the argument waits of begin.
	slots [watched]atomic.Uint64
}

// begin registers an operation whose time limit is the limit of the watchdog multiplied by the argument
// waits, a number from 1 to maxWaits. The caller marks the operation as finished by storing 0 in the result.
func (w *watch) begin(waits uint64) *atomic.Uint64 {
	n := w.last.Add(1)*(maxWaits+1) + waits
	for i := range w.slots {
		if w.slots[i].CompareAndSwap(0, n) {
			return &w.slots[i]
		}
	}
	return new(atomic.Uint64) // not watched: all slots hold operations that began earlier
}

// unfinishedCounts holds, for each slot of a watch, the operation that the last check has found there,
// and the number of consecutive earlier checks that have found the same operation.
type unfinishedCounts [watched]struct {
	op    uint64
	times int
}

// observe is called once per interval. It reports whether an operation of w has been unfinished for
// watchTicks * waits intervals, where waits is the argument of begin.
func (s *unfinishedCounts) observe(w *watch) bool {
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

// watchFiles checks the files watchTicks times within each limit. It calls stuck with the first file
// that has a stuck operation, and returns. It also returns when stop is closed.
func watchFiles(limit time.Duration, stop <-chan struct{}, stuck func(*guarded), files ...*guarded) {
	ticker := time.NewTicker(max(limit/watchTicks, time.Millisecond))
	defer ticker.Stop()
	seen := make([]unfinishedCounts, len(files))
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		for i, f := range files {
			if seen[i].observe(&f.watch) {
				stuck(f)
				return
			}
		}
	}
}
