package cluster

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// changeWithin is the longest time that a change of the cluster may take.
const changeWithin = 5 * time.Second

var errClosed = errors.New("the node is closed")

// lifetime is the time from New to Close of a node. It holds the goroutines of the node.
type lifetime struct {
	ctx     context.Context // canceled by end
	cancel  context.CancelFunc
	calls   callGroup // calls of unlessEnded
	running sync.WaitGroup
}

func newLifetime() *lifetime {
	ctx, cancel := context.WithCancel(context.Background())
	return &lifetime{ctx: ctx, cancel: cancel}
}

// ended returns a channel that end closes.
func (l *lifetime) ended() <-chan struct{} { return l.ctx.Done() }

// run calls f in a goroutine. f must return when the lifetime has ended. Callers outside of such a goroutine must call
// run before end.
func (l *lifetime) run(f func()) { l.running.Go(f) }

// unlessEnded calls f and returns true, or returns false if the lifetime has ended. It does not end before f returns.
func (l *lifetime) unlessEnded(f func()) bool {
	if !l.calls.begin() {
		return false
	}
	defer l.calls.end()
	f()
	return true
}

// end ends the lifetime. It may be called more than once.
func (l *lifetime) end() {
	l.cancel()
	l.calls.close()
}

// wait blocks until all goroutines have returned.
func (l *lifetime) wait() { l.running.Wait() }

// sleep returns nil after d, which must be positive, or an error when the lifetime has ended or ctx is done. A timer
// with a duration of 0 can crash the race detector in a bubble of testing/synctest.
func (l *lifetime) sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-l.ended():
		return errClosed
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// submit passes a change to Raft, and blocks until it is committed. If ctx is done first, the outcome is unknown.
//
// Raft blocks further changes until the change is decided, and never decides it after its shutdown. end therefore waits
// for all changes that are being passed to Raft, and later ones are rejected.
func (l *lifetime) submit(ctx context.Context, pass func(within time.Duration) raft.Future) error {
	ctx, cancel := context.WithTimeout(ctx, changeWithin)
	defer cancel()
	deadline, _ := ctx.Deadline() // set above
	left := time.Until(deadline)
	if left <= 0 { // Raft would wait without a limit
		return context.DeadlineExceeded
	}
	done := make(chan error, 1)
	if !l.unlessEnded(func() {
		future := pass(min(left, enqueueWithin))
		l.run(func() { done <- future.Error() })
	}) {
		return errClosed
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// failure reports the first error after which the process must exit.
type failure struct {
	report func(error)

	mu       sync.Mutex // held while the error is reported
	occurred bool
}

// fail reports an error, unless one has been reported.
func (f *failure) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.occurred {
		f.occurred = true
		f.report(err)
	}
}

// hasOccurred reports whether an error has been reported.
func (f *failure) hasOccurred() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.occurred
}
