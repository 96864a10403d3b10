package thread

import (
	"runtime"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// pin locks the goroutine to a thread, which runs on the processor number cpu only and ends with the goroutine.
func pin(t *testing.T, cpu int) {
	runtime.LockOSThread()
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		t.Errorf("pin a thread to processor %d: %v", cpu, err)
	}
}

// firstCPU returns the number of a processor on which this process may run.
func firstCPU(t *testing.T) (cpu int) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	for !set.IsSet(cpu) {
		cpu++
	}
	return cpu
}

// TestYield checks that another thread that waits for the same processor runs during Yield.
func TestYield(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4)) // two for the threads of this test, also on one processor
	cpu := firstCPU(t)
	var steps atomic.Int64
	var stop atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		pin(t, cpu)
		for !stop.Load() {
			steps.Add(1)
		}
	}()
	ran := make(chan int)
	go func() {
		pin(t, cpu)
		for steps.Load() == 0 {
			Yield()
		}
		n := 0
		for range 100 {
			before := steps.Load()
			Yield()
			if steps.Load() > before {
				n++
			}
		}
		ran <- n
	}()
	n := <-ran
	stop.Store(true)
	<-ended
	if n < 10 {
		t.Errorf("the other thread ran during %d of 100 calls, want at least 10", n)
	}
}
