package background

import (
	"runtime"
	"strings"
	"sync"
	"testing"
)

// TestRun checks that concurrent calls run all functions, each with its spare processors, and that GOMAXPROCS is restored.
func TestRun(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	const calls = 4
	var all, started, read sync.WaitGroup
	started.Add(calls)
	read.Add(calls)
	for range calls {
		all.Go(func() {
			Run(func() {
				started.Done()
				started.Wait() // all functions run concurrently
				got := runtime.GOMAXPROCS(0)
				read.Done()
				read.Wait() // no function has returned
				if got != before+calls*spareProcessors {
					t.Errorf("GOMAXPROCS is %d during %d calls, want %d", got, calls, before+calls*spareProcessors)
				}
			})
		})
	}
	all.Wait()
	if got := runtime.GOMAXPROCS(0); got != before {
		t.Errorf("GOMAXPROCS is %d after all calls, want %d", got, before)
	}
}

// TestRun_Panic checks that the caller can recover from a panic of the function, and that GOMAXPROCS is restored.
func TestRun_Panic(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	defer func() {
		if p, ok := recover().(error); !ok || !strings.Contains(p.Error(), "damaged") || !strings.Contains(p.Error(), "TestRun_Panic") {
			t.Errorf("Run panics with %v, want the value and the stack of the function", p)
		}
		if got := runtime.GOMAXPROCS(0); got != before {
			t.Errorf("GOMAXPROCS is %d after the panic, want %d", got, before)
		}
	}()
	Run(func() { panic("damaged") })
}
