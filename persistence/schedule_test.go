package persistence

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// scheduled is a Store that runs in the fake time of package synctest.
type scheduled struct {
	*Store
	t     *testing.T
	state *memory
	disk  *faulty
	log   *lockedLog
}

// runScheduled calls play in a synctest bubble while Run is running.
func runScheduled(t *testing.T, points []SavePoint, play func(s *scheduled)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := &scheduled{t: t, state: newMemory(1), disk: &faulty{}, log: &lockedLog{}}
		s.Store = loadedStore(t, Config{Dir: dir, FS: s.disk, Log: s.log.logger()}, s.state)
		s.SetSavePoints(points)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { s.Run(ctx); close(ended) }()
		play(s)
		cancel()
		<-ended
		if s.Status().Saving {
			t.Error("Run returned while a save was running")
		}
	})
}

// wait advances the fake time by d and waits until all goroutines are blocked.
func (s *scheduled) wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (s *scheduled) change(n int) {
	for range n {
		s.state.set("changed", 9999)
	}
}

// saves checks the number of successful saves.
func (s *scheduled) saves(when string, want int64) {
	s.t.Helper()
	if got := s.Status().Saves; got != want {
		s.t.Errorf("%s: %d successful saves; want %d", when, got, want)
	}
}

// half is an offset that places the checks of a test between two ticks of Run.
const half = checkEvery / 2

func TestRun_OnePoint(t *testing.T) {
	runScheduled(t, []SavePoint{{After: time.Minute, Changes: 3}}, func(s *scheduled) {
		s.wait(half)
		s.change(2)
		s.wait(time.Hour)
		s.saves("too few changes", 0)
		s.change(1)
		s.wait(time.Second)
		s.saves("enough changes, long after the last save", 1)
		s.change(3)
		s.wait(58 * time.Second)
		s.saves("too early", 1)
		s.wait(2 * time.Second)
		s.saves("a minute after the first save", 2)
		s.wait(time.Hour)
		s.saves("nothing has changed", 2)
	})
}

func TestRun_SeveralPoints(t *testing.T) {
	runScheduled(t, []SavePoint{{After: time.Hour, Changes: 1}, {After: time.Minute, Changes: 100}}, func(s *scheduled) {
		s.wait(half)
		s.change(99)
		s.wait(59 * time.Minute)
		s.saves("no save point met", 0)
		s.wait(time.Minute)
		s.saves("first save point met", 1)
		s.change(100)
		s.wait(time.Minute)
		s.saves("second save point met", 2)
	})
}

func TestRun_FollowsItsPoints(t *testing.T) {
	runScheduled(t, nil, func(s *scheduled) {
		s.wait(half)
		s.change(100)
		s.wait(100 * time.Hour)
		s.saves("no points", 0)
		s.SetSavePoints([]SavePoint{{After: time.Second, Changes: 1}})
		s.wait(time.Second)
		s.saves("a point", 1)
		s.SetSavePoints(nil)
		s.change(1)
		s.wait(time.Hour)
		s.saves("no points again", 1)
	})
}

func TestRun_CountsOtherSaves(t *testing.T) {
	runScheduled(t, []SavePoint{{After: time.Minute, Changes: 1}}, func(s *scheduled) {
		s.wait(half)
		s.change(1)
		s.wait(30 * time.Second)
		must(s.t, s.Save())
		s.change(1)
		s.wait(59 * time.Second)
		s.saves("a minute after the start", 1)
		s.wait(2 * time.Second)
		s.saves("a minute after the other save", 2)
	})
}

func TestRun_WaitsAfterAFailure(t *testing.T) {
	runScheduled(t, []SavePoint{{After: time.Second, Changes: 1}}, func(s *scheduled) {
		s.wait(half)
		tries := 0
		s.disk.set(func(_ int, op string) (f fault) {
			if op == "create" {
				tries++
				f.err = syscall.ENOSPC
			}
			return f
		})
		s.change(1)
		s.wait(11 * time.Second) // attempts at 1, 6 and 11 s
		if st := s.Status(); tries != 3 || !st.LastFailed || st.Changes != 1 {
			s.t.Errorf("%d attempts to save, want 3; the status is %+v, want LastFailed, and 1 change", tries, st)
		}
		if n := strings.Count(s.log.String(), "level=ERROR"); n != tries {
			s.t.Errorf("%d errors are logged, want one for each of %d attempts; the log is:\n%s", n, tries, s.log)
		}
		s.disk.set(nil)
		s.wait(5 * time.Second)
		s.saves("the disk has room again", 1)
		if st := s.Status(); st.LastFailed {
			s.t.Errorf("after a successful save, the status shows a failure: %+v", st)
		}
	})
}

// TestRun_SlowSave cancels Run during a save that takes a minute. Run must wait for the save.
func TestRun_SlowSave(t *testing.T) {
	var log string
	runScheduled(t, []SavePoint{{After: time.Second, Changes: 1}}, func(s *scheduled) {
		s.wait(half)
		s.state.visited = func() { <-time.After(30 * time.Second) } // 30 s for each of two records
		s.change(1)
		s.wait(30 * time.Second)
		if st := s.Status(); !st.Saving || st.Saves != 0 {
			s.t.Errorf("during the save the status is %+v; want a running save", st)
		}
		if err := s.SaveInBackground(); err != ErrSaving {
			s.t.Errorf("a save during the save returns %v; want ErrSaving", err)
		}
		s.t.Cleanup(func() {
			s.saves("when Run has ended", 1)
			if st := s.Status(); st.LastDuration != time.Minute {
				s.t.Errorf("the save took %v; want a minute", st.LastDuration)
			}
			log = s.log.String()
		})
	})
	if !strings.Contains(log, "snapshot saved") {
		t.Errorf("the log does not report the save: %s", log)
	}
}

// TestProgress checks the progress messages in the log of a load and a save that take 10 s each.
func TestProgress(t *testing.T) {
	dir := savedDir(t, newMemory(100))
	synctest.Test(t, func(t *testing.T) {
		var log lockedLog
		s := newStore(t, Config{Dir: dir, Log: log.logger()})
		s.blockSize = 64 // in bytes: two or three records per block
		slow := &slowState{memory: newMemory(0)}
		must(t, s.Load(t.Context(), slow)) // takes 10 s
		slow.visited = slow.wait
		must(t, s.Save())
		if st := s.Status(); st.LastDuration != 10*time.Second {
			t.Errorf("the save took %v; want 10 s", st.LastDuration)
		}
		for _, what := range []string{"loading a snapshot", "saving a snapshot"} {
			if n := strings.Count(log.String(), what); n < 4 || n > 5 {
				t.Errorf("the log contains %d progress lines %q; want 4 or 5, one every 2 s", n, what)
			}
		}
		for _, want := range []string{"percent=4", "percent=8", "keys=4", "snapshot loaded", "snapshot saved", "keys=100 expired=0", "duration=10s"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("%s is not in the log:\n%s", want, &log)
			}
		}
	})
}

// slowState takes 100 ms per record.
type slowState struct{ *memory }

func (slowState) wait() { <-time.After(100 * time.Millisecond) }

func (s *slowState) Put(r limiter.Record) error {
	s.wait()
	return s.memory.Put(r)
}

// TestProgress_IsQuiet checks that a fast load or save logs a single line.
func TestProgress_IsQuiet(t *testing.T) {
	var log lockedLog
	s := loadedStore(t, Config{Dir: savedDir(t, newMemory(100)), Log: log.logger()}, newMemory(0))
	must(t, s.Save())
	if got := strings.Count(log.String(), "\n"); got != 2 {
		t.Errorf("the log has %d lines; want one for the load and one for the save:\n%s", got, &log)
	}
}
