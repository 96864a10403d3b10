package goroutines

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// worker has one goroutine.
type worker struct{ stop chan struct{} }

func newWorker() *worker {
	w := &worker{make(chan struct{})}
	go w.run()
	return w
}

func (w *worker) run() { <-w.stop }

const (
	ofWorkers = "github.com/throttledhq/throttled/internal/goroutines.(*worker)"
	ofMakers  = "github.com/throttledhq/throttled/internal/goroutines.newWorker"
)

func TestOf(t *testing.T) {
	before := Of(ofWorkers)
	if len(before) != 0 {
		t.Errorf("before the first worker is created, Of returns %v, want no goroutines", before)
	}
	first := newWorker()
	one := Of(ofMakers) // the goroutine may not have started to run yet
	if len(one) != 1 {
		t.Errorf("one worker has %d goroutines, want 1", len(one))
	}
	second := newWorker()
	two := Of(ofMakers)
	if len(two) != 2 || len(Since(one, ofMakers)) != 1 {
		t.Errorf("two workers have %d goroutines, %d of them new; want 2, and 1 new", len(two), len(Since(one, ofMakers)))
	}
	for number, stack := range two {
		if !strings.HasPrefix(stack, "goroutine "+number+" [") {
			t.Errorf("goroutine %q has a stack that does not begin with its number:\n%s", number, stack)
		}
	}
	close(second.stop)
	AwaitEnd(t, ofMakers, one)
	close(first.stop)
	AwaitEnd(t, ofMakers, nil)
	AwaitEnd(t, ofWorkers, nil)
}

// recorder records failures instead of failing the test.
type recorder struct {
	testing.TB
	failures []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func TestAwaitEnd_Left(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, begin := &recorder{TB: t}, time.Now()
		w := newWorker()
		AwaitEnd(r, ofMakers, Of(ofMakers))
		if len(r.failures) != 0 || time.Since(begin) != 0 {
			t.Errorf("AwaitEnd waited %v for earlier goroutines, and failed with %q; want no wait and no failure", time.Since(begin), r.failures)
		}
		AwaitEnd(r, ofMakers, nil)
		if len(r.failures) != 1 || !strings.Contains(r.failures[0], "(*worker).run") || time.Since(begin) < patience {
			t.Errorf("AwaitEnd failed after %v with %q; want one failure after patience, with the stack of the worker", time.Since(begin), r.failures)
		}
		close(w.stop)
	})
}
