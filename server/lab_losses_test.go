package server

import "github.com/throttledhq/throttled/limiter"

// hold makes WaitCommitted block until release is called. WaitCommitted then returns the argument of release.
func (l *lab) hold() (release func(lost error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := make(chan struct{})
	l.held = held
	return func(lost error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.held, l.lost = nil, lost
		close(held)
	}
}

// interrupt makes no node decide during one call of Decide, after a number of further calls.
func (l *lab) interrupt(after int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.decisions = after
}

// interrupts counts a call of Decide, and reports whether it is that of interrupt.
func (l *lab) interrupts() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.decisions--
	return l.decisions == -1
}

// lose sets the result of WaitCommitted. A nil error means success.
func (l *lab) lose(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = err
}

func (n *labNode) Flush() error {
	l := n.lab
	l.mu.Lock()
	flushing, onFlush := l.flushing, l.onFlush
	l.flushes++
	l.mu.Unlock()
	if flushing != nil {
		<-flushing
	}
	if onFlush != nil {
		return onFlush()
	}
	return nil
}

// loseAtFlush makes Flush end the leadership and return an error, which is nil if the node leads again before Flush is called. If
// on is false, Flush succeeds again.
func (l *lab) loseAtFlush(on bool, err error) {
	l.lose(nil)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onFlush = nil
	if on {
		l.onFlush = func() error {
			l.lose(limiter.ErrUncertain)
			return err
		}
	}
}

// holdFlush makes Flush block until release is called.
func (l *lab) holdFlush() (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	flushing := make(chan struct{})
	l.flushing = flushing
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.flushing = nil
		close(flushing)
	}
}
