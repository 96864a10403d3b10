package cluster

import (
	"sync"
	"sync/atomic"

	"github.com/throttledhq/throttled/limiter"
)

// leaderships holds the current leadership of a node, and the last one that has ended.
type leaderships struct {
	now  atomic.Pointer[leadership] // nil while this node does not decide
	past atomic.Pointer[leadership] // the newest that has ended; nil if none has

	last   *leadership // the newest one begun; used by runLeaderLoop only
	epochs uint64      // leaderships that this process has begun; guarded by Node.mu

	// deciding is held for reading while commands are decided, and for writing when that is to stop. See handOver.
	deciding sync.RWMutex

	submitted entryCounts
	rollbacks atomic.Uint64

	notify chan bool     // Raft reports here that this node leads, or does not any more
	again  chan struct{} // has one when runLeaderLoop has to check whether to lead
}

func newLeaderships() *leaderships {
	return &leaderships{notify: make(chan bool, 64), again: make(chan struct{}, 1)}
}

// current returns the present leadership, or nil if this node does not decide.
func (s *leaderships) current() *leadership { return s.now.Load() }

// next returns a leadership that can begin. Node.mu is held.
func (s *leaderships) next(term uint64) *leadership {
	s.epochs++
	return newLeadership(s.epochs, term)
}

// begin makes a leadership the present one. Node.mu is held.
func (s *leaderships) begin(l *leadership) {
	s.now.Store(l)
	s.last = l
}

// end makes the present leadership a past one, and reports whether it was the present one. Node.mu is held.
func (s *leaderships) end(l *leadership) bool {
	if s.now.Load() != l {
		return false
	}
	s.past.Store(l)
	s.now.Store(nil)
	return true
}

// drain waits until nothing of the newest leadership will be submitted any more.
func (s *leaderships) drain() {
	if s.last != nil {
		<-s.last.done
	}
}

// hold keeps this node deciding until release, and reports whether it decides.
func (s *leaderships) hold() bool {
	s.deciding.RLock()
	if l := s.now.Load(); l == nil || l.stopped.Load() {
		s.deciding.RUnlock()
		return false
	}
	return true
}

func (s *leaderships) release() { s.deciding.RUnlock() }

// decides reports whether this node decides, and does not hand leadership over.
func (s *leaderships) decides() bool {
	l := s.now.Load()
	return l != nil && !l.leaving.Load()
}

// hasten makes the flusher submit the generation of a ticket that no caller waits for.
func (s *leaderships) hasten(t limiter.Ticket) {
	if l := s.now.Load(); l != nil && t.Generation > 0 {
		l.wakeFlusher()
	}
}

// outcome returns the error for a ticket of a leadership that has ended. It is nil if the generation was committed
// before that, which a caller that was scheduled late may not have seen.
func (s *leaderships) outcome(t limiter.Ticket) error {
	if l := s.past.Load(); l != nil && l.epoch == t.Term && t.Generation > 0 && l.waiters.isCommitted(t.Generation) {
		return nil
	}
	return lost(t)
}

// lost returns the error for a ticket of a leadership that has ended.
func lost(t limiter.Ticket) error {
	if t.Generation > 0 {
		return limiter.ErrUncertain
	}
	return limiter.ErrNotLeading
}

// wake makes runLeaderLoop check whether to lead.
func (s *leaderships) wake() {
	select {
	case s.again <- struct{}{}:
	default:
	}
}
