package cluster

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

const (
	// maxInFlight is how many generations may be on their way through the log: one that is being
	// written while another is being sent.
	maxInFlight = 2
	// pipelineAfter is how long a generation must be on its way for a second to be worth its cost.
	// Where the log is faster, those who ask wait for no longer than they would take to be
	// scheduled, and larger generations cost less for each of them.
	pipelineAfter = time.Millisecond
)

// reign is one time of deciding: from the moment at which a node has applied all there was
// before its term, to the moment at which it knows that it leads no more.
type reign struct {
	number uint64 // of this process; the Term of tickets
	term   uint64 // of Raft

	committed atomic.Uint64 // the newest generation that is
	demanded  atomic.Uint64 // the newest generation that somebody waits for
	// confirmed is when, on the monotonic clock, the newest committed entry was submitted. Until
	// so long after it as followers keep still, no other node can lead.
	confirmed atomic.Int64

	leaving atomic.Bool // leadership is being handed over: commands are kept for the next leader
	stopped atomic.Bool // nothing is decided any more; set with Node.deciding held
	offered atomic.Bool // another node has been asked to lead, and may at any time

	wake   chan struct{} // has one when there may be something to flush
	landed chan struct{} // has one when a generation is not in flight any more
	over   chan struct{} // closed at the end
	done   chan struct{} // closed when nothing of this reign will be submitted any more

	closed uint64 // the newest generation that has been submitted; the flusher's

	mu     sync.Mutex
	waits  [8]wait // by generation; no more than maxInFlight and the open one are waited for
	flying []flight
	took   time.Duration // how long the newest that is committed was in flight
}

// wait is what those who wait for a generation share.
type wait struct {
	generation uint64
	done       chan struct{}
}

// flight is a generation that has been submitted.
type flight struct {
	generation uint64
	taken      time.Duration // when its log time was read, on the monotonic clock
}

func newReign(number, term uint64) *reign {
	return &reign{
		number: number,
		term:   term,
		wake:   make(chan struct{}, 1),
		landed: make(chan struct{}, 1),
		over:   make(chan struct{}),
		done:   make(chan struct{}),
	}
}

// demand makes the flusher look.
func (r *reign) demand(generation uint64) {
	for {
		old := r.demanded.Load()
		if old >= generation || r.demanded.CompareAndSwap(old, generation) {
			break
		}
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// await waits until a generation is committed. The error is limiter.ErrUncertain.
func (r *reign) await(generation uint64) error {
	if generation <= r.committed.Load() {
		return nil
	}
	done := r.channel(generation)
	if done == nil {
		return nil
	}
	r.demand(generation)
	select {
	case <-done:
		return nil
	case <-r.over:
	}
	if generation <= r.committed.Load() {
		return nil
	}
	return limiter.ErrUncertain
}

// channel returns what is closed when a generation is committed, or nil if it is.
func (r *reign) channel(generation uint64) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if generation <= r.committed.Load() {
		return nil
	}
	w := &r.waits[generation%uint64(len(r.waits))]
	if w.generation != generation {
		*w = wait{generation, make(chan struct{})}
	}
	return w.done
}

// room waits until another generation may be submitted. It reports false if the reign ends first.
func (r *reign) room() bool {
	for !r.hasRoom() {
		select {
		case <-r.over:
			return false
		case <-r.landed:
		}
	}
	return true
}

func (r *reign) hasRoom() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.flying) == 0 || len(r.flying) < maxInFlight && r.took >= pipelineAfter
}

// submitted notes that a generation is on its way.
func (r *reign) submitted(generation uint64, taken time.Duration) {
	r.mu.Lock()
	r.flying = append(r.flying, flight{generation, taken})
	r.mu.Unlock()
}

// isNext reports whether a generation is the oldest on its way.
func (r *reign) isNext(generation uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.flying) > 0 && r.flying[0].generation == generation
}

// commit notes that a generation, and so those before it, are committed, and lets those go who
// have waited. It returns when the generation's time was read.
func (r *reign) commit(generation uint64, now time.Duration) (taken time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.committed.Store(generation)
	for len(r.flying) > 0 && r.flying[0].generation <= generation {
		taken = r.flying[0].taken
		r.flying = r.flying[1:]
	}
	r.took = now - taken
	select {
	case r.landed <- struct{}{}:
	default:
	}
	r.confirmed.Store(int64(taken))
	for i := range r.waits {
		if w := &r.waits[i]; w.done != nil && w.generation <= generation {
			close(w.done)
			w.done = nil
			w.generation = 0
		}
	}
	return taken
}

// oldest returns how long the oldest generation has been in flight, and how many there are.
func (r *reign) oldest(now time.Duration) (waiting int, age time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.flying) > 0 {
		age = now - r.flying[0].taken
	}
	return len(r.flying), age
}
