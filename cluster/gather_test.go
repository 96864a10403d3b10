package cluster

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// call makes n callers charge a key each and wait for the commit.
func (r *flusherRig) call(n int) {
	rule := rules['s']
	for i := range n {
		req := limiter.Request{Kind: rule.kind, Key: fmt.Append(nil, i), Limit: rule.limit, Quantity: 1}
		token := r.engine.Decide([]limiter.Request{req}, make([]limiter.Decision, 1))
		go func() { _ = r.leadership.await(token.Generation) }()
	}
	synctest.Wait()
}

// submits checks whether an entry was submitted, and commits its generation after the given time.
func (r *flusherRig) submits(want bool, commitAfter time.Duration, when string) {
	r.t.Helper()
	c, submitted := r.entry()
	if submitted != want {
		r.t.Fatalf("%s: an entry was submitted: %t, want %t", when, submitted, want)
	}
	if submitted {
		pass(commitAfter)
		r.leadership.commit(c.generation, r.clock.monotonic())
		synctest.Wait()
	}
}

// TestGather checks that a generation is submitted when as many callers wait as at the last commit, and otherwise after
// the duration of a commit. If less than half of the missing callers have come by then, the next generation must be
// submitted immediately.
func TestGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const took = 2 * time.Millisecond
		r := newFlusherRig(t)
		go r.run()
		r.call(1)
		first, _ := r.entry()
		r.call(9)
		pass(took)
		r.leadership.commit(first.generation, r.clock.monotonic())
		r.submits(false, 0, "nine of ten callers")
		r.call(1)
		r.submits(true, took, "all ten callers")
		r.call(3)
		pass(took - 1)
		r.submits(false, 0, "three of ten callers, before a commit could have been made")
		pass(1)
		r.submits(true, took, "three of ten callers, when a commit could have been made")
		r.call(1)
		r.submits(true, took, "one of three callers, after a wait that timed out")
		close(r.leadership.over)
		<-r.leadership.done
	})
}

// testGather runs a test with a flusher whose last commit took 2 ms and had a number of callers.
func testGather(t *testing.T, callers int, test func(r *flusherRig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newFlusherRig(t)
		go r.run()
		r.leadership.flights.took = 2 * time.Millisecond
		r.leadership.waiters.callers = callers
		test(r)
		close(r.leadership.over)
		<-r.leadership.done
	})
}

// TestGatherFewerCallers checks that the flusher uses the number of callers that a commit records during the wait.
func TestGatherFewerCallers(t *testing.T) {
	testGather(t, 10, func(r *flusherRig) {
		r.call(1)
		r.submits(false, 0, "one of ten callers")
		r.leadership.waiters.mu.Lock()
		r.leadership.waiters.callers = 2
		r.leadership.waiters.mu.Unlock()
		r.call(1)
		r.submits(true, 0, "two of two callers")
	})
}

// TestGatherRefusals checks that refusals do not fill a generation.
func TestGatherRefusals(t *testing.T) {
	testGather(t, 10, func(r *flusherRig) {
		r.call(1)
		rule := rules['s']
		reqs := make([]limiter.Request, fullEntry)
		for i := range reqs {
			reqs[i] = limiter.Request{Kind: rule.kind, Key: []byte("refused"), Limit: rule.limit, Quantity: 2 * rule.limit.Max}
		}
		r.engine.Decide(reqs, make([]limiter.Decision, len(reqs)))
		r.leadership.wakeFlusher()
		r.submits(false, 0, "one admission and many refusals")
		if n := r.counts.decided.Load(); n != 1 {
			t.Errorf("counted %d decisions, want the only admission", n)
		}
	})
}

// TestGatherFull checks that a full generation is submitted without its remaining callers.
func TestGatherFull(t *testing.T) {
	testGather(t, 2*fullEntry, func(r *flusherRig) {
		r.call(fullEntry - 1)
		r.submits(false, 0, "a generation that is not full")
		r.call(1)
		r.submits(true, 0, "a full generation")
	})
}
