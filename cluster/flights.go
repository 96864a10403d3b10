package cluster

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxInFlight is the maximum number of generations in flight: one can be written to disk while another one is sent.
	maxInFlight = 2
	// While a generation is in flight, a second one is submitted if commits take at least secondFlightAfter, and if the
	// second one has at least fullEntry decisions, or the first one fewer than fewDecisions. Otherwise the second
	// generation waits: this adds little latency, and larger generations cost less per decision.
	secondFlightAfter = time.Millisecond
	fullEntry         = 256
	fewDecisions      = 8
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
	decisions  int64         // number of decisions in the generation
}

// hasRoom reports whether one more generation, which has the given number of decisions, may be in flight.
func (f *flights) hasRoom(decisions int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch len(f.inFlight) {
	case 0:
		return true
	case maxInFlight:
		return false
	}
	return f.took >= secondFlightAfter && (decisions >= fullEntry || f.inFlight[0].decisions < fewDecisions)
}

// idle returns the duration of the newest commit, and reports whether no generation is in flight.
func (f *flights) idle() (took time.Duration, idle bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.took, len(f.inFlight) == 0
}

// add adds a generation whose log time was read at readAt on the monotonic clock.
func (f *flights) add(generation uint64, readAt time.Duration, decisions int64) {
	f.mu.Lock()
	f.inFlight = append(f.inFlight, flight{generation, readAt, decisions})
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

	mu      sync.Mutex
	waits   [8]wait // indexed by generation modulo 8; only maxInFlight generations and the open one have waiters
	callers int     // number of waiters at the last commit, including those that it has unblocked
}

// wait is shared by the waiters of one generation.
type wait struct {
	generation uint64
	waiters    int
	done       chan struct{}
}

func (w *waiters) isCommitted(generation uint64) bool { return generation <= w.committed.Load() }

// channel adds a waiter of a generation. It returns a channel that is closed when the generation is committed, or nil if
// it is already committed. wake reports whether the flusher must be woken: the waiter is the first of its generation, or
// all callers wait.
func (w *waiters) channel(generation uint64) (done <-chan struct{}, wake bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.isCommitted(generation) {
		return nil, false
	}
	one := &w.waits[generation%uint64(len(w.waits))]
	if one.generation != generation {
		*one = wait{generation, 0, make(chan struct{})}
	}
	one.waiters++
	return one.done, one.waiters == 1 || one.waiters >= w.callers
}

// unblock unblocks the waiters of a generation and of all earlier ones.
func (w *waiters) unblock(generation uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.callers = w.after(0)
	for i := range w.waits {
		if one := &w.waits[i]; one.done != nil && one.generation <= generation {
			close(one.done)
			*one = wait{}
		}
	}
}

// after returns the number of waiters of all generations after the given one. The caller must hold w.mu.
func (w *waiters) after(generation uint64) (n int) {
	for i := range w.waits {
		if one := &w.waits[i]; one.generation > generation {
			n += one.waiters
		}
	}
	return n
}

// open returns the number of waiters of all generations after the given one, and the number of all waiters at the last
// commit.
func (w *waiters) open(closed uint64) (n, callers int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.after(closed), w.callers
}
