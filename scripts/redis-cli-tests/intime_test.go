package rediscli

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"
)

// soon is within what a conversation has to be over for its replies to be as they are written: a Redis
// rounds the seconds that are left to the nearest, and a leader has to be heard.
const soon = 400 * time.Millisecond

// inTime holds a conversation with a server whose clock cannot be moved. One that fails is held again
// if it took so long that the time that has passed may be the reason, as it is on a busy machine.
func inTime(hold func(t testing.TB, sec *section)) func(t *testing.T, sec *section) {
	return func(t *testing.T, sec *section) {
		t.Helper()
		for end := time.Now().Add(patience); ; {
			a, begin := &attempt{TB: t}, time.Now()
			a.run(func() { hold(a, sec) })
			took := time.Since(begin)
			if len(a.failures) == 0 {
				return
			}
			if took <= soon || time.Now().After(end) {
				for _, failure := range a.failures {
					t.Errorf("%s (after %v)", failure, took)
				}
				return
			}
		}
	}
}

// attempt is a test that may fail, and be made again.
type attempt struct {
	testing.TB
	failures []string
	cleanups []func()
}

// run runs f and what it has left to clean up. Either ends early where it fails at once.
func (a *attempt) run(f func()) {
	a.alone(f)
	for len(a.cleanups) > 0 {
		last := a.cleanups[len(a.cleanups)-1]
		a.cleanups = slices.Delete(a.cleanups, len(a.cleanups)-1, len(a.cleanups))
		a.alone(last)
	}
}

func (a *attempt) alone(f func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f()
	}()
	<-ended
}

func (a *attempt) Helper() {}

func (a *attempt) Cleanup(f func()) { a.cleanups = append(a.cleanups, f) }

func (a *attempt) Error(args ...any) { a.failures = append(a.failures, fmt.Sprint(args...)) }

func (a *attempt) Errorf(format string, args ...any) {
	a.failures = append(a.failures, fmt.Sprintf(format, args...))
}

func (a *attempt) Fatal(args ...any) {
	a.Error(args...)
	a.FailNow()
}

func (a *attempt) Fatalf(format string, args ...any) {
	a.Errorf(format, args...)
	a.FailNow()
}

func (a *attempt) FailNow() { runtime.Goexit() }

// TestInTime sees that a failure is only forgiven where it took long, and that what was begun is cleaned up.
func TestInTime(t *testing.T) {
	tries, cleaned := 0, 0
	inTime(func(t testing.TB, _ *section) {
		t.Cleanup(func() { cleaned++ })
		if tries++; tries < 3 {
			<-time.After(2 * soon)
			t.Fatalf("try %d", tries)
		}
	})(t, nil)
	if tries != 3 || cleaned != 3 {
		t.Errorf("%d tries, %d times cleaned up", tries, cleaned)
	}
}
