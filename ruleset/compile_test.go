package ruleset

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// TestComputeEndsWithItsContext checks that a computation that takes too long ends with an error, and that the next one
// waits for it.
func TestComputeEndsWithItsContext(t *testing.T) {
	s := NewStore()
	running, finish := make(chan struct{}), make(chan struct{})
	slow := func() (string, error) {
		close(running)
		<-finish
		return "slow", nil
	}
	fast := func() (string, error) { return "fast", errors.New("of the function") }
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-running
		cancel()
	}()
	for _, f := range []func() (string, error){slow, fast} { // the second one waits, because slow still runs
		if got, err := compute(ctx, s, largeText, f); got != "" || !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "nothing was changed") {
			t.Errorf("compute returned %q and the error %v, want the error of the context", got, err)
		}
	}
	if got, err := compute(ctx, s, largeText-1, fast); got != "fast" || errors.Is(err, context.Canceled) {
		t.Errorf("of a small text, compute returned %q and the error %v, want the results of the function", got, err)
	}
	close(finish)
	if got, err := compute(t.Context(), s, largeText, fast); got != "fast" || err == nil || err.Error() != "of the function" {
		t.Errorf("compute returned %q and the error %v, want the results of the function", got, err)
	}
}

// TestComputePanics checks that the caller gets the panic of a computation, and that the next one does not wait.
func TestComputePanics(t *testing.T) {
	s := NewStore()
	for range 2 {
		func() {
			defer func() {
				if p, ok := recover().(error); !ok || !strings.Contains(p.Error(), "damaged") {
					t.Errorf("compute panics with %v, want the value of the function", p)
				}
			}()
			_, err := compute(t.Context(), s, largeText, func() (int, error) { panic("damaged") })
			t.Errorf("compute returned the error %v, want a panic", err)
		}()
	}
}

// TestLateChanges checks that a change of a large text whose context has ended changes nothing, and that it can be repeated.
func TestLateChanges(t *testing.T) {
	s, l := newLocal()
	large := textOf("a") + strings.Repeat("# "+strings.Repeat("x", 1000)+"\n", largeText/1000+1)
	propose(t, l, large)
	e := Editor{s, l}
	s.computing <- struct{}{} // another computation does not finish
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, change := range map[string]func() (Result, error){
		"Patch": func() (Result, error) { return e.Patch(ctx, "limits: {b: {allow: 1/s}}", "ann", nil) },
		"Prepare": func() (Result, error) {
			_, err := s.Prepare(ctx, Proposal{Text: large + "#"}, testTime)
			return Result{}, err
		},
	} {
		if _, err := change(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s returned the error %v, want that of the context", name, err)
		}
	}
	<-s.computing
	if r, err := e.Patch(t.Context(), "limits: {b: {allow: 1/s}}", "ann", nil); err != nil || r.Version.Number != 2 || s.Active().Version != 2 {
		t.Errorf("Patch returned %+v and the error %v, want version 2", r, err)
	}
}
