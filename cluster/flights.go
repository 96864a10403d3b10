package cluster

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxInFlight is the maximum number of generations in flight: one can be written to disk while another one is sent.
	maxInFlight = 2
	// While a generation is in flight, a second one is submitted if commits take at least secondFlightAfter. If commits
	// are faster, the second generation waits: this adds little latency, and larger generations cost less per decision.
	secondFlightAfter = time.Millisecond
)

// flights holds the generations in flight: those that were submitted but are not committed.
type flights struct {
	freed chan struct{} // signals that a generation is no longer in flight

	mu       sync.Mutex
	inFlight []flight
	took     time.Duration // time from the submission of the newest committed generation to its commit
}

// flight is a generation in flight.
type flight struct {
	generation uint64
	readAt     time.Duration // time at which the log time of the generation was read, on the monotonic clock
}

// hasRoom reports whether one more generation may be in flight.
func (f *flights) hasRoom() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.inFlight) == 0 || len(f.inFlight) < maxInFlight && f.took >= secondFlightAfter
}

// add adds a generation whose log time was read at readAt on the monotonic clock.
func (f *flights) add(generation uint64, readAt time.Duration) {
	f.mu.Lock()
	f.inFlight = append(f.inFlight, flight{generation, readAt})
	f.mu.Unlock()
}

// isNext reports whether a generation is the oldest generation in flight.
func (f *flights) isNext(generation uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.inFlight) > 0 && f.inFlight[0].generation == generation
}

// remove removes a generation and all earlier ones. It returns the time at which the log time of the newest removed
// generation was read.
func (f *flights) remove(generation uint64, now time.Duration) (readAt time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.inFlight) > 0 && f.inFlight[0].generation <= generation {
		readAt = f.inFlight[0].readAt
		f.inFlight = f.inFlight[1:]
	}
	f.took = now - readAt
	select {
	case f.freed <- struct{}{}:
	default:
	}
	return readAt
}

// oldest returns the number of generations in flight, and the age of the oldest one.
func (f *flights) oldest(now time.Duration) (waiting int, age time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.inFlight) > 0 {
		age = now - f.inFlight[0].readAt
	}
	return len(f.inFlight), age
}

// waiters unblocks calls when the generations for which they wait are committed.
type waiters struct {
	committed atomic.Uint64 // newest committed generation

	mu    sync.Mutex
	waits [8]wait // indexed by generation modulo 8; only maxInFlight generations and the open one have waiters
}

// wait is shared by the waiters of one generation.
type wait struct {
	generation uint64
	done       chan struct{}
}

func (w *waiters) isCommitted(generation uint64) bool { return generation <= w.committed.Load() }

// channel returns a channel that is closed when a generation is committed, or nil if it is already committed.
func (w *waiters) channel(generation uint64) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.isCommitted(generation) {
		return nil
	}
	one := &w.waits[generation%uint64(len(w.waits))]
	if one.generation != generation {
		*one = wait{generation, make(chan struct{})}
	}
	return one.done
}

// unblock unblocks the waiters of a generation and of all earlier ones.
func (w *waiters) unblock(generation uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.waits {
		if one := &w.waits[i]; one.done != nil && one.generation <= generation {
			close(one.done)
			*one = wait{}
		}
	}
}
