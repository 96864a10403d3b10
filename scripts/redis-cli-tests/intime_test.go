package rediscli

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"
)

// soon is the maximum duration of a run of a section in which all replies must match. In
// slower runs replies may differ for two reasons: Redis rounds the remaining seconds to the
// nearest second, and a leader may lose contact with its followers.
const soon = 400 * time.Millisecond

// inTime returns a test that runs a section with the function hold, for servers whose clock cannot
// be controlled. If the section fails and took longer than soon, the section is repeated,
// since the delay (for example on a busy machine) may be the cause of the failure.
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

// attempt is a testing.TB that stores failures instead of reporting them, so that the test
// can be repeated.
type attempt struct {
	testing.TB
	failures []string
	cleanups []func()
}

// run runs f and then its cleanups. Each of these functions runs in its own goroutine, so that FailNow
// stops only the function that calls it.
func (a *attempt) run(f func()) {
	a.runInGoroutine(f)
	for len(a.cleanups) > 0 {
		last := a.cleanups[len(a.cleanups)-1]
		a.cleanups = slices.Delete(a.cleanups, len(a.cleanups)-1, len(a.cleanups))
		a.runInGoroutine(last)
	}
}

// runInGoroutine runs f in a new goroutine and waits for it.
func (a *attempt) runInGoroutine(f func()) {
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

// TestInTime checks that a section is repeated after a slow failure, and that each attempt is cleaned up.
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
		t.Errorf("%d attempts, %d cleanups; want 3 and 3", tries, cleaned)
	}
}
