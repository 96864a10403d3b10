package cluster

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxInFlight is how many generations may be in flight: one is written while another is sent.
	maxInFlight = 2
	// pipelineAfter is how long a generation must be in flight for a second one to be worth its cost. If the log is
	// faster, the waiters of the next generation wait for no longer than they would take to be scheduled, and larger
	// generations cost less for each of them.
	pipelineAfter = time.Millisecond
)

// pipeline is the generations that have been submitted and are not committed.
type pipeline struct {
	freed chan struct{} // has one when a generation is not in flight any more

	mu       sync.Mutex
	inFlight []flight
	took     time.Duration // how long the newest that is committed was in flight
}

// flight is a generation that has been submitted.
type flight struct {
	generation uint64
	taken      time.Duration // when its log time was read, on the monotonic clock
}

// hasRoom reports whether another generation may be submitted.
func (p *pipeline) hasRoom() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.inFlight) == 0 || len(p.inFlight) < maxInFlight && p.took >= pipelineAfter
}

// add records that a generation is submitted, whose log time was taken at a time of the monotonic clock.
func (p *pipeline) add(generation uint64, taken time.Duration) {
	p.mu.Lock()
	p.inFlight = append(p.inFlight, flight{generation, taken})
	p.mu.Unlock()
}

// isNext reports whether a generation is the oldest in flight.
func (p *pipeline) isNext(generation uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.inFlight) > 0 && p.inFlight[0].generation == generation
}

// remove removes a generation and those before it. It returns when the log time of the generation was read.
func (p *pipeline) remove(generation uint64, now time.Duration) (taken time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.inFlight) > 0 && p.inFlight[0].generation <= generation {
		taken = p.inFlight[0].taken
		p.inFlight = p.inFlight[1:]
	}
	p.took = now - taken
	select {
	case p.freed <- struct{}{}:
	default:
	}
	return taken
}

// oldest returns how many generations are in flight, and for how long the oldest one is.
func (p *pipeline) oldest(now time.Duration) (waiting int, age time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.inFlight) > 0 {
		age = now - p.inFlight[0].taken
	}
	return len(p.inFlight), age
}

// waiters is the calls that wait for generations to be committed.
type waiters struct {
	committed atomic.Uint64 // the newest generation that is

	mu    sync.Mutex
	waits [8]wait // by generation; no more than maxInFlight and the open one are waited for
}

// wait is shared by the waiters of one generation.
type wait struct {
	generation uint64
	done       chan struct{}
}

func (w *waiters) isCommitted(generation uint64) bool { return generation <= w.committed.Load() }

// channel returns a channel that is closed when a generation is committed, or nil if it is.
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

// unblock unblocks the waiters of generations up to one that is committed.
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
