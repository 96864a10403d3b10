package cluster

import (
	"sync"
	"sync/atomic"

	"github.com/throttledhq/throttled/limiter"
)

// leaderships holds the present leadership of a node, and the last one that has ended.
type leaderships struct {
	now  atomic.Pointer[leadership] // nil while this node does not decide
	past atomic.Pointer[leadership] // last one that has ended; nil if none has

	last   *leadership // last one that has begun; used by the leader loop only
	epochs uint64      // number of leaderships of this process; guarded by the lock of the applied state

	// deciding is held for reading while commands are decided, and for writing to stop that. See leader.handOver.
	deciding sync.RWMutex

	submitted entryCounts
	rollbacks atomic.Uint64

	notify chan bool     // receives from Raft whether this node leads
	again  chan struct{} // receives an element when the leader loop must check whether to lead
}

func newLeaderships() *leaderships {
	return &leaderships{notify: make(chan bool, 64), again: make(chan struct{}, 1)}
}

// current returns the present leadership, or nil if this node does not decide.
func (s *leaderships) current() *leadership { return s.now.Load() }

// leads reports whether there is a present leadership.
func (s *leaderships) leads() bool { return s.now.Load() != nil }

// decides reports whether this node decides and is not handing leadership over.
func (s *leaderships) decides() bool {
	l := s.now.Load()
	return l != nil && !l.leaving.Load()
}

// next returns a new leadership. The lock of the applied state is held.
func (s *leaderships) next(term uint64) *leadership {
	s.epochs++
	return newLeadership(s.epochs, term)
}

// set makes a leadership the present one. The lock of the applied state is held.
func (s *leaderships) set(l *leadership) {
	s.now.Store(l)
	s.last = l
}

// finish makes the present leadership the last one that has ended, and reports whether it was the present one. The lock of
// the applied state is held.
func (s *leaderships) finish(l *leadership) bool {
	if s.now.Load() != l {
		return false
	}
	s.past.Store(l)
	s.now.Store(nil)
	return true
}

// drain blocks until the last leadership that has begun submits nothing more.
func (s *leaderships) drain() {
	if s.last != nil {
		<-s.last.done
	}
}

// hold prevents a hand-over until release, and reports whether this node decides.
func (s *leaderships) hold() bool {
	s.deciding.RLock()
	if l := s.now.Load(); l == nil || l.stopped.Load() {
		s.deciding.RUnlock()
		return false
	}
	return true
}

func (s *leaderships) release() { s.deciding.RUnlock() }

// hasten makes the flusher submit the generation of a token that no caller waits for.
func (s *leaderships) hasten(t limiter.CommitToken) {
	if l := s.now.Load(); l != nil && t.Generation > 0 {
		l.wakeFlusher()
	}
}

// outcome returns the error of a token whose leadership has ended. It returns nil if the generation was committed before
// that, which a caller that was scheduled late may not have observed.
func (s *leaderships) outcome(t limiter.CommitToken) error {
	if l := s.past.Load(); l != nil && l.epoch == t.Epoch && t.Generation > 0 && l.waiters.isCommitted(t.Generation) {
		return nil
	}
	return lost(t)
}

// lost returns the error of a token that was not committed before its leadership ended.
func lost(t limiter.CommitToken) error {
	if t.Generation > 0 {
		return limiter.ErrUncertain
	}
	return limiter.ErrNotLeading
}

// wake makes the leader loop check whether to lead.
func (s *leaderships) wake() {
	select {
	case s.again <- struct{}{}:
	default:
	}
}
