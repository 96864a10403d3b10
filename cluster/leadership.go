package cluster

import (
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// leadership is a time in which a node decides: from the moment at which it has applied all entries from before its
// term, to the moment at which it knows that it does not lead any more.
type leadership struct {
	epoch uint64 // counts the leaderships of this process; the Term of tickets
	term  uint64 // of Raft

	demanded atomic.Uint64 // the newest generation that is waited for
	waiters  waiters
	pipeline pipeline
	lease    lease

	leaving atomic.Bool // leadership is being handed over: commands are kept for the next leader
	stopped atomic.Bool // nothing is decided any more; set with leaderships.deciding held

	wake chan struct{} // has one when there may be something to flush
	over chan struct{} // closed at the end
	done chan struct{} // closed when nothing of this leadership will be submitted any more
}

// lease is the time in which no other node can lead.
type lease struct {
	// confirmed is when, on the monotonic clock, the newest committed entry was submitted. No other node can lead
	// until followers have ignored other candidates for so long after it as they must.
	confirmed atomic.Int64
	offered   atomic.Bool // another node has been asked to lead, and may at any time
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

// wakeFlusher makes the flusher check whether there is something to submit.
func (l *leadership) wakeFlusher() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// demand makes the flusher submit a generation, even if nothing has changed in it.
func (l *leadership) demand(generation uint64) {
	for {
		old := l.demanded.Load()
		if old >= generation || l.demanded.CompareAndSwap(old, generation) {
			break
		}
	}
	l.wakeFlusher()
}

// await waits until a generation is committed. The error is limiter.ErrUncertain.
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

// room waits until another generation may be submitted. It reports false if the leadership ends first.
func (l *leadership) room() bool {
	for !l.pipeline.hasRoom() {
		select {
		case <-l.over:
			return false
		case <-l.pipeline.freed:
		}
	}
	return true
}

// commit records that a generation, and so those before it, are committed, and unblocks their waiters. It returns when
// the log time of the generation was read.
func (l *leadership) commit(generation uint64, now time.Duration) (taken time.Duration) {
	l.waiters.committed.Store(generation)
	taken = l.pipeline.remove(generation, now)
	l.lease.confirmed.Store(int64(taken))
	l.waiters.unblock(generation)
	return taken
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
