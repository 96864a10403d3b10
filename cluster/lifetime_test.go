package cluster

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/topology"
)

// doneFuture is a future with a fixed result. Error returns the result when decided is closed, or immediately if
// decided is nil.
type doneFuture struct {
	err     error
	decided <-chan struct{}
}

func (f doneFuture) Error() error {
	if f.decided != nil {
		<-f.decided
	}
	return f.err
}

func (doneFuture) Index() uint64 { return 0 }
func (doneFuture) Response() any { return nil }

// TestOutcomeError checks which errors of submit mean that the change may be made later.
func TestOutcomeError(t *testing.T) {
	for err, unknown := range map[error]bool{
		raft.ErrLeadershipLost: true, raft.ErrRaftShutdown: true, context.DeadlineExceeded: true, context.Canceled: true,
		raft.ErrNotLeader: false, raft.ErrEnqueueTimeout: false, raft.ErrLeadershipTransferInProgress: false, errClosed: false,
	} {
		if got := outcomeError(err); !errors.Is(got, err) || errors.Is(got, topology.ErrOutcome) != unknown {
			t.Errorf("%v: got %v, want ErrOutcome: %t", err, got, unknown)
		}
	}
	if err := outcomeError(nil); err != nil {
		t.Errorf("success: got %v, want nil", err)
	}
}

// TestSubmit checks that submit returns the result of a change, or an error after a timeout or the end of the lifetime.
func TestSubmit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, failed := newLifetime(), errors.New("failed")
		passed := time.Duration(0)
		submit := func(ctx context.Context, f raft.Future) error {
			return l.submit(ctx, func(within time.Duration) raft.Future {
				passed = within
				return f
			})
		}
		if err := submit(t.Context(), doneFuture{err: failed}); err != failed || passed != enqueueWithin {
			t.Errorf("submit of a change that fails: %v, timeout for Raft %v; want the error of the change, and enqueueWithin", err, passed)
		}
		decided := make(chan struct{})
		begun := time.Now()
		if err := submit(t.Context(), doneFuture{decided: decided}); err != context.DeadlineExceeded || time.Since(begun) != changeWithin {
			t.Errorf("submit of a change that is not decided: %v after %v, want DeadlineExceeded after changeWithin", err, time.Since(begun))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := submit(ctx, doneFuture{decided: decided}); err != context.DeadlineExceeded || passed != time.Millisecond {
			t.Errorf("submit with a deadline: %v, timeout for Raft %v; want DeadlineExceeded and 1ms", err, passed)
		}
		passed = 0
		if err := submit(ctx, doneFuture{}); err != context.DeadlineExceeded || passed != 0 {
			t.Errorf("submit after the deadline: %v, timeout for Raft %v; want DeadlineExceeded, and no call", err, passed)
		}
		close(decided)
		l.end()
		if err := submit(t.Context(), doneFuture{}); err != errClosed || passed != 0 {
			t.Errorf("submit after the end: %v, timeout for Raft %v; want errClosed, and no call", err, passed)
		}
		l.wait()
	})
}

// TestLifetime_End checks that end waits for calls in progress and interrupts sleep.
func TestLifetime_End(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLifetime()
		l.run(func() {
			if err := l.sleep(t.Context(), time.Hour); err != errClosed {
				t.Errorf("sleep interrupted by end: %v, want errClosed", err)
			}
		})
		begun := time.Now()
		go l.unlessEnded(func() { pass(time.Second) })
		synctest.Wait()
		l.end()
		if took := time.Since(begun); took != time.Second {
			t.Errorf("end blocked for %v, want 1s", took)
		}
		if l.unlessEnded(func() { t.Error("unlessEnded called its function after the end") }) || l.ctx.Err() == nil {
			t.Error("after end, unlessEnded returned true, or the context is not canceled")
		}
		l.end()
		l.wait()
	})
}

// TestFailure checks that only the first error is reported.
func TestFailure(t *testing.T) {
	var reported []error
	f := failure{report: func(err error) { reported = append(reported, err) }}
	if f.hasOccurred() {
		t.Error("hasOccurred returned true before the first error")
	}
	f.fail(ErrRemoved)
	f.fail(ErrUsed)
	if len(reported) != 1 || reported[0] != ErrRemoved || !f.hasOccurred() {
		t.Errorf("reported %v, want only ErrRemoved", reported)
	}
}
