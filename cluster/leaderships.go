package cluster

import (
	"sync"
	"sync/atomic"

	"github.com/throttledhq/throttled/limiter"
)

// leaderships holds the current leadership of a node and the previous one.
type leaderships struct {
	now  atomic.Pointer[leadership] // current leadership; nil if this node is not the leader
	past atomic.Pointer[leadership] // leadership that ended last; nil if none has ended

	last   *leadership // leadership that began last; used by the leader loop only
	epochs uint64      // number of leaderships since the process started; guarded by the lock of the applied state

	// deciding is held for reading while a command makes decisions, and for writing to stop decisions. See
	// leader.stopDeciding.
	deciding sync.RWMutex

	submitted entryCounts
	rollbacks atomic.Uint64

	notify chan bool     // Raft sends true when this node becomes the leader, false when it steps down
	again  chan struct{} // signals that the leader loop must check whether to begin a leadership
}

func newLeaderships() *leaderships {
	return &leaderships{notify: make(chan bool, 64), again: make(chan struct{}, 1)}
}

// current returns the current leadership, or nil if there is none.
func (s *leaderships) current() *leadership { return s.now.Load() }

// leads reports whether there is a current leadership.
func (s *leaderships) leads() bool { return s.now.Load() != nil }

// decides reports whether there is a current leadership and it is not being handed over.
func (s *leaderships) decides() bool {
	l := s.now.Load()
	return l != nil && !l.leaving.Load()
}

// next returns a new leadership with the next epoch. The caller must hold the lock of the applied state.
func (s *leaderships) next(term uint64) *leadership {
	s.epochs++
	return newLeadership(s.epochs, term)
}

// set makes l the current leadership. The caller must hold the lock of the applied state.
func (s *leaderships) set(l *leadership) {
	s.now.Store(l)
	s.last = l
}

// finish ends l if it is the current leadership, and reports whether it was. The caller must hold the lock of the
// applied state.
func (s *leaderships) finish(l *leadership) bool {
	if s.now.Load() != l {
		return false
	}
	s.past.Store(l)
	s.now.Store(nil)
	return true
}

// drain blocks until the flusher of the leadership that began last has stopped.
func (s *leaderships) drain() {
	if s.last != nil {
		<-s.last.done
	}
}

// hold reports whether this node makes decisions. If it returns true, hand-overs are delayed until the caller calls
// release. If it returns false, the caller must not call release.
func (s *leaderships) hold() bool {
	s.deciding.RLock()
	if l := s.now.Load(); l == nil || l.stopped.Load() {
		s.deciding.RUnlock()
		return false
	}
	return true
}

func (s *leaderships) release() { s.deciding.RUnlock() }

// hasten makes the flusher submit the generation of a token, even if no caller waits for the commit.
func (s *leaderships) hasten(t limiter.CommitToken) {
	if l := s.now.Load(); l != nil && t.Generation > 0 {
		l.wakeFlusher()
	}
}

// outcome returns the result of waiting for a token whose leadership has ended. The result is nil if the generation was
// committed during the leadership. This is possible because the leadership can end between the commit and the call of
// outcome.
func (s *leaderships) outcome(t limiter.CommitToken) error {
	if l := s.past.Load(); l != nil && l.epoch == t.Epoch && t.Generation > 0 && l.waiters.isCommitted(t.Generation) {
		return nil
	}
	return lost(t)
}

// lost returns the error for a token that was not committed before its leadership ended.
func lost(t limiter.CommitToken) error {
	if t.Generation > 0 {
		return limiter.ErrUncertain
	}
	return limiter.ErrNotLeading
}

// wake makes the leader loop check whether to begin a leadership.
func (s *leaderships) wake() {
	select {
	case s.again <- struct{}{}:
	default:
	}
}
