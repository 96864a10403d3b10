package background

import (
	"runtime"
	"testing"
)

// niceOf returns the niceness of the calling thread.
func niceOf(t *testing.T) int {
	t.Helper()
	n, err := threadNiceness()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestPriority checks that only the thread of the function has a lower priority, also while it starts other goroutines.
func TestPriority(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := niceOf(t)
	want := min(before+niceness, lowest)
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
	if during != want || niceOf(t) != before {
		t.Errorf("the niceness is %d during the call and %d after it, want %d and %d", during, niceOf(t), want, before)
	}
}
