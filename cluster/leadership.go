package cluster

import (
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// leadership is a period in which a node decides. It begins when the node has applied all entries of earlier terms, and
// ends when the node detects that it does not lead any more.
type leadership struct {
	epoch uint64 // number of the leadership in this process; Term of its tokens
	term  uint64 // term of Raft

	demanded atomic.Uint64 // newest generation with a waiter
	waiters  waiters
	pipeline pipeline
	lease    lease

	leaving atomic.Bool // a hand-over is in progress: the server holds commands for the next leader
	stopped atomic.Bool // decisions are refused; set with leaderships.deciding held

	wake chan struct{} // receives an element when there may be a generation to submit
	over chan struct{} // closed at the end of the leadership
	done chan struct{} // closed when the flusher has submitted its last generation
}

// lease is the time in which no other node can lead.
type lease struct {
	// confirmed is the time at which the newest committed entry was submitted, on the monotonic clock. Followers reject
	// other candidates for the length of the lease after it.
	confirmed atomic.Int64
	offered   atomic.Bool // another node was asked to lead, and may lead at any time
}

// holds reports whether no other node can lead at a time of the monotonic clock.
func (l *lease) holds(now, length time.Duration) bool {
	return !l.offered.Load() && now < time.Duration(l.confirmed.Load())+length
}

func newLeadership(epoch, term uint64) *leadership {
	return &leadership{
		epoch:    epoch,
		term:     term,
		pipeline: pipeline{freed: make(chan struct{}, 1)},
		wake:     make(chan struct{}, 1),
		over:     make(chan struct{}),
		done:     make(chan struct{}),
	}
}

// wakeFlusher makes the flusher check whether there is a generation to submit.
func (l *leadership) wakeFlusher() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// demand makes the flusher submit a generation, even if it has no changes.
func (l *leadership) demand(generation uint64) {
	for {
		old := l.demanded.Load()
		if old >= generation || l.demanded.CompareAndSwap(old, generation) {
			break
		}
	}
	l.wakeFlusher()
}

// await blocks until a generation is committed. It returns limiter.ErrUncertain if the leadership ends first.
func (l *leadership) await(generation uint64) error {
	if l.waiters.isCommitted(generation) {
		return nil
	}
	done := l.waiters.channel(generation)
	if done == nil {
		return nil
	}
	l.demand(generation)
	select {
	case <-done:
		return nil
	case <-l.over:
	}
	if l.waiters.isCommitted(generation) {
		return nil
	}
	return limiter.ErrUncertain
}

// awaitRoom blocks until another generation may be submitted. It returns false if the leadership ends first.
func (l *leadership) awaitRoom() bool {
	for !l.pipeline.hasRoom() {
		select {
		case <-l.over:
			return false
		case <-l.pipeline.freed:
		}
	}
	return true
}

// commit records that a generation and all earlier ones are committed, and unblocks their waiters. It returns the time at
// which the log time of the generation was read.
func (l *leadership) commit(generation uint64, now time.Duration) (readAt time.Duration) {
	l.waiters.committed.Store(generation)
	readAt = l.pipeline.remove(generation, now)
	l.lease.confirmed.Store(int64(readAt))
	l.waiters.unblock(generation)
	return readAt
}

// pause blocks for d, and returns true. It returns false if the leadership ends first.
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
