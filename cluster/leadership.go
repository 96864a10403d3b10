package cluster

import (
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// leadership is a period in which a node makes decisions. It begins when the node is the Raft leader and has applied all
// entries from earlier terms. It ends when the node detects that it is no longer the leader.
type leadership struct {
	epoch uint64 // number of the leadership in this process, which is the Epoch of its commit tokens
	term  uint64 // Raft term

	demanded atomic.Uint64 // newest generation with a waiter
	waiters  waiters
	pipeline pipeline
	lease    lease

	leaving atomic.Bool // a hand-over is in progress: the server holds commands for the next leader
	stopped atomic.Bool // decisions are refused; set with leaderships.deciding held

	wake chan struct{} // signals that there may be a generation to submit
	over chan struct{} // closed at the end of the leadership
	done chan struct{} // closed when the flusher has stopped
}

// lease is the period in which no other node can be the leader.
type lease struct {
	// confirmed is the time at which the newest committed entry was submitted, on the monotonic clock. For the length of
	// the lease after that, a majority of the voters rejects other candidates.
	confirmed atomic.Int64
	offered   atomic.Bool // leadership is being transferred, so another node may become the leader at any time
}

// holds reports whether no other node can be the leader at time now on the monotonic clock. length is the length of the
// lease.
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

// demand makes the flusher submit a generation even if the generation has no changes.
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

// awaitRoom blocks until one more generation may be in flight. It returns false if the leadership ends first.
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

// pause blocks for d and returns true. It returns false if the leadership ends first.
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
