package background

import (
	"runtime"
	"sync"
	"testing"
)

// TestRun checks that concurrent calls run all functions, each with one more processor, and that GOMAXPROCS is restored.
func TestRun(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	const calls = 4
	var all, started sync.WaitGroup
	started.Add(calls)
	for range calls {
		all.Go(func() {
			Run(func() {
				started.Done()
				started.Wait() // all functions run concurrently
				if got := runtime.GOMAXPROCS(0); got <= before {
					t.Errorf("GOMAXPROCS is %d during a call, want more than %d", got, before)
				}
			})
		})
	}
	all.Wait()
	if got := runtime.GOMAXPROCS(0); got != before {
		t.Errorf("GOMAXPROCS is %d after all calls, want %d", got, before)
	}
}
