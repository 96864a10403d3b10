package persistence

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

// TestSaver checks that a Saver runs one save at a time and reports the result of the last save.
func TestSaver(t *testing.T) {
	begun, results := make(chan struct{}), make(chan error)
	s := NewSaver(func() error {
		begun <- struct{}{}
		return <-results
	}, slog.New(slog.DiscardHandler))
	if got := s.Status(); got.LastDuration != -1 || got.LastSave.IsZero() || got.Saving || s.Loading() {
		t.Errorf("before the first save the status is %+v; want no save, and LastDuration -1", got)
	}
	failed := errors.New("disk full")
	for _, want := range []error{failed, nil} {
		before := s.Status()
		done := make(chan error, 1)
		go func() { done <- s.Save() }()
		<-begun
		if got := s.Status(); !got.Saving || !got.SaveStarted.After(before.SaveStarted) {
			t.Errorf("during a save the status is %+v; want Saving, and a later SaveStarted", got)
		}
		if err := errors.Join(s.Save(), s.SaveInBackground()); !errors.Is(err, ErrSaving) || strings.Count(err.Error(), ErrSaving.Error()) != 2 {
			t.Errorf("two saves during a save return %v; want ErrSaving twice", err)
		}
		results <- want
		if err := <-done; err != want {
			t.Errorf("the save returns %v, want %v", err, want)
		}
		got, saves := s.Status(), before.Saves
		if want == nil {
			saves++
		}
		if got.Saving || got.LastFailed != (want != nil) || got.LastDuration < 0 || got.Saves != saves || got.LastSave.After(before.LastSave) != (want == nil) {
			t.Errorf("after a save with the result %v the status is %+v, before the save it was %+v; want Saving false, the duration, LastFailed after an error, otherwise a later LastSave, and Saves increased by 1", want, got, before)
		}
	}
}

// TestSaver_Background checks that an error of a background save is logged, and that Wait
// blocks until the save has finished.
func TestSaver_Background(t *testing.T) {
	var log bytes.Buffer
	s := NewSaver(func() error { return errors.New("disk full") }, slog.New(slog.NewTextHandler(&log, nil)))
	if err := s.SaveInBackground(); err != nil {
		t.Fatal(err)
	}
	s.Wait()
	if got := s.Status(); got.Saving || !got.LastFailed || got.Saves != 0 {
		t.Errorf("after the failed background save the status is %+v; want LastFailed, and no successful save", got)
	}
	if !strings.Contains(log.String(), "disk full") {
		t.Errorf("the log does not contain the error of the save: %q", &log)
	}
}
