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

// leadership is a time in which a node decides: from the moment at which it has applied all entries from before its
// term, to the moment at which it knows that it does not lead any more.
type leadership struct {
	epoch uint64 // counts the leaderships of this process; the Term of tickets
	term  uint64 // of Raft

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
	done   chan struct{} // closed when nothing of this leadership will be submitted any more

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

func newLeadership(epoch, term uint64) *leadership {
	return &leadership{
		epoch:  epoch,
		term:   term,
		wake:   make(chan struct{}, 1),
		landed: make(chan struct{}, 1),
		over:   make(chan struct{}),
		done:   make(chan struct{}),
	}
}

// demand makes the flusher look.
func (l *leadership) demand(generation uint64) {
	for {
		old := l.demanded.Load()
		if old >= generation || l.demanded.CompareAndSwap(old, generation) {
			break
		}
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// await waits until a generation is committed. The error is limiter.ErrUncertain.
func (l *leadership) await(generation uint64) error {
	if generation <= l.committed.Load() {
		return nil
	}
	done := l.channel(generation)
	if done == nil {
		return nil
	}
	l.demand(generation)
	select {
	case <-done:
		return nil
	case <-l.over:
	}
	if generation <= l.committed.Load() {
		return nil
	}
	return limiter.ErrUncertain
}

// channel returns what is closed when a generation is committed, or nil if it is.
func (l *leadership) channel(generation uint64) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if generation <= l.committed.Load() {
		return nil
	}
	w := &l.waits[generation%uint64(len(l.waits))]
	if w.generation != generation {
		*w = wait{generation, make(chan struct{})}
	}
	return w.done
}

// room waits until another generation may be submitted. It reports false if the leadership ends first.
func (l *leadership) room() bool {
	for !l.hasRoom() {
		select {
		case <-l.over:
			return false
		case <-l.landed:
		}
	}
	return true
}

func (l *leadership) hasRoom() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.flying) == 0 || len(l.flying) < maxInFlight && l.took >= pipelineAfter
}

// submitted notes that a generation is on its way.
func (l *leadership) submitted(generation uint64, taken time.Duration) {
	l.mu.Lock()
	l.flying = append(l.flying, flight{generation, taken})
	l.mu.Unlock()
}

// isNext reports whether a generation is the oldest on its way.
func (l *leadership) isNext(generation uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.flying) > 0 && l.flying[0].generation == generation
}

// commit notes that a generation, and so those before it, are committed, and lets those go who
// have waited. It returns when the generation's time was read.
func (l *leadership) commit(generation uint64, now time.Duration) (taken time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.committed.Store(generation)
	for len(l.flying) > 0 && l.flying[0].generation <= generation {
		taken = l.flying[0].taken
		l.flying = l.flying[1:]
	}
	l.took = now - taken
	select {
	case l.landed <- struct{}{}:
	default:
	}
	l.confirmed.Store(int64(taken))
	for i := range l.waits {
		if w := &l.waits[i]; w.done != nil && w.generation <= generation {
			close(w.done)
			w.done = nil
			w.generation = 0
		}
	}
	return taken
}

// oldest returns how long the oldest generation has been in flight, and how many there are.
func (l *leadership) oldest(now time.Duration) (waiting int, age time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.flying) > 0 {
		age = now - l.flying[0].taken
	}
	return len(l.flying), age
}

// pause waits, and reports whether the leadership continues.
func (l *leadership) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-l.over:
		return false
	case <-timer.C:
		return true
	}
}
