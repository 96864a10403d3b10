package background

import (
	"runtime"
	"syscall"
	"testing"
)

// linuxZero is the value of the system call getpriority for niceness 0. The value is lower for a higher niceness.
const linuxZero = 20

// niceOf returns the niceness of the calling thread.
func niceOf(t *testing.T) int {
	t.Helper()
	n, err := syscall.Getpriority(syscall.PRIO_PROCESS, syscall.Gettid())
	if err != nil {
		t.Fatal(err)
	}
	return linuxZero - n
}

// TestPriority checks that only the thread of the function has a lower priority, also while it starts other goroutines.
func TestPriority(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := niceOf(t)
	if before >= niceness {
		t.Skipf("the test runs with niceness %d", before)
	}
	during, other := 0, make(chan int)
	Run(func() {
		during = niceOf(t)
		for range 8 {
			go func() {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				other <- niceOf(t)
			}()
		}
		for range 8 {
			if got := <-other; got != before {
				t.Errorf("the thread of another goroutine has niceness %d, want %d", got, before)
			}
		}
	})
	if during != niceness || niceOf(t) != before {
		t.Errorf("the niceness is %d during the call and %d after it, want %d and %d", during, niceOf(t), niceness, before)
	}
}
