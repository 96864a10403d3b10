package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/topology"
)

// changeWithin is the timeout of submit.
const changeWithin = 5 * time.Second

var errClosed = errors.New("the node is closed")

// lifetime manages the goroutines of a node, and the context that is canceled when the node is closed.
type lifetime struct {
	ctx     context.Context // canceled by end
	cancel  context.CancelFunc
	calls   callGroup // calls to unlessEnded in progress
	running sync.WaitGroup
}

func newLifetime() *lifetime {
	ctx, cancel := context.WithCancel(context.Background())
	return &lifetime{ctx: ctx, cancel: cancel}
}

// ended returns a channel that is closed by end.
func (l *lifetime) ended() <-chan struct{} { return l.ctx.Done() }

// run calls f in a goroutine. f must return soon after the lifetime has ended. After end, run may be called only from
// goroutines that run has started.
func (l *lifetime) run(f func()) { l.running.Go(f) }

// unlessEnded calls f and returns true, or returns false if the lifetime has ended. While f is running, end blocks.
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

// sleep blocks for d. It returns an error if the lifetime ends or ctx is done first. d must be positive: a timer with a
// duration of 0 can crash the race detector in a bubble of testing/synctest.
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

// submit passes a change to Raft by calling pass, and blocks until the change is committed. The argument of pass is the
// time within which Raft must accept the change. If ctx is done first, or changeWithin has passed, the outcome is
// unknown.
//
// Raft is shut down after the lifetime has ended, and never completes a change that it receives during its shutdown.
// The end method therefore blocks while pass is running, and submit rejects changes after the end.
func (l *lifetime) submit(ctx context.Context, pass func(within time.Duration) raft.Future) error {
	ctx, cancel := context.WithTimeout(ctx, changeWithin)
	defer cancel()
	deadline, _ := ctx.Deadline() // set above
	left := time.Until(deadline)
	if left <= 0 { // Raft would treat this value as no timeout
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

// outcomeError returns the error of a change that submit has returned. It wraps topology.ErrOutcome unless the error shows
// that Raft has not appended the change to the log. The outcome of a change that timed out before Raft received it also
// counts as unknown.
func outcomeError(err error) error {
	for _, unknown := range [...]error{context.DeadlineExceeded, context.Canceled, raft.ErrLeadershipLost, raft.ErrRaftShutdown, raft.ErrAbortedByRestore} {
		if errors.Is(err, unknown) {
			return fmt.Errorf("%w: %w", topology.ErrOutcome, err)
		}
	}
	return err
}

// failure reports the first error after which the process must exit.
type failure struct {
	report func(error)

	mu       sync.Mutex // held while the error is reported
	occurred bool
}

// fail reports an error, unless an earlier error has been reported.
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
