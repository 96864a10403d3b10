package raftstore

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// guardedStore returns a Store that uses f as the log database and as the stable database. The Store has no
// files of package wal.
func guardedStore(f *faulty, fatal func(error)) *Store {
	s := &Store{dir: "dir", latch: newLatch(fatal), stop: make(chan struct{})}
	s.wrapFiles(f, f, nil)
	return s
}

// operations returns all operations that raft runs on the log and on the stable store of s, by name.
func operations(s *Store) map[string]func() error {
	key := []byte("CurrentTerm")
	return map[string]func() error{
		"StoreLogs":   func() error { return s.logs.StoreLogs(commands(3, 4, 10)) },
		"StoreLog":    func() error { return s.logs.StoreLog(command(5, 10)) },
		"DeleteRange": func() error { return s.logs.DeleteRange(1, 2) },
		"GetLog":      func() error { return s.logs.GetLog(1, new(raft.Log)) },
		"FirstIndex":  func() error { _, err := s.logs.FirstIndex(); return err },
		"LastIndex":   func() error { _, err := s.logs.LastIndex(); return err },
		"Set":         func() error { return s.Stable().Set(key, nil) },
		"SetUint64":   func() error { return s.Stable().SetUint64(key, 9) },
		"Get":         func() error { _, err := s.Stable().Get(key); return err },
		"GetUint64":   func() error { _, err := s.Stable().GetUint64(key); return err },
	}
}

// TestStep checks that step does not trip the latch if its operation fails, and that step runs no
// operation after the latch was tripped.
func TestStep(t *testing.T) {
	s := guardedStore(newFaulty(), func(error) {})
	if err := s.wal.step(func() error { return errDisk }); err != errDisk || s.latch.err() != nil {
		t.Errorf("step returns %v, and the latch holds %v; want errDisk and nil", err, s.latch.err())
	}
	late := s.wal.step(func() error { s.latch.trip(ErrStuck); return nil })
	after := s.wal.step(func() error { t.Error("step runs an operation after the latch was tripped"); return nil })
	if !errors.Is(late, ErrPoisoned) || !errors.Is(after, ErrPoisoned) {
		t.Errorf("step with an operation that trips the latch returns %v, the next step %v; want ErrPoisoned from both", late, after)
	}
}

// TestLatch makes each operation fail, or panic like the database on a damaged page. After
// the failure, no operation may reach the files.
func TestLatch(t *testing.T) {
	for first := range operations(nil) {
		for how, fail := range map[string]func() error{
			"fails":  func() error { return errDisk },
			"panics": func() error { panic("page 7: unexpected type") },
		} {
			var reported []error
			f := newFaulty()
			s := guardedStore(f, func(err error) { reported = append(reported, err) })
			must(t, s.logs.StoreLogs(commands(1, 2, 10)))
			must(t, s.Stable().SetUint64([]byte("CurrentTerm"), 8))
			f.before = func(string) error { return fail() }
			err := operations(s)[first]()
			want := map[string]error{"fails": errDisk, "panics": ErrDamaged}[how]
			if !errors.Is(err, ErrPoisoned) || !errors.Is(err, want) {
				t.Errorf("%s %s, and returns %v; want ErrPoisoned and the cause", first, how, err)
			}
			if len(reported) != 1 || !errors.Is(reported[0], want) || !strings.Contains(reported[0].Error(), "dir/current/raft-") {
				t.Errorf("%s %s: Fatal is called with %v; want one call, with the cause and the file", first, how, reported)
			}
			f.before = nil
			f.forget()
			for name, op := range operations(s) {
				if err := op(); !errors.Is(err, ErrPoisoned) || !errors.Is(err, want) {
					t.Errorf("%s %s; then %s returns %v; want ErrPoisoned and the cause", first, how, name, err)
				}
			}
			if len(reported) != 1 || len(f.list()) != 0 {
				t.Errorf("%s %s: Fatal is called %d times, and then the operations %q reach the files; want one call, and no operations", first, how, len(reported), f.list())
			}
		}
	}
}

// TestLatch_NotFoundIsAnAnswer checks that reading a missing entry or a missing value does not trip
// the latch.
func TestLatch_NotFoundIsAnAnswer(t *testing.T) {
	s := guardedStore(newFaulty(), func(err error) { t.Errorf("Fatal is called with %v; want no call", err) })
	must(t, s.logs.StoreLogs(commands(1, 2, 10)))
	if err := s.logs.GetLog(3, new(raft.Log)); !errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("GetLog of a missing entry returns %v; want raft.ErrLogNotFound", err)
	}
	if _, err := s.Stable().GetUint64([]byte("CurrentTerm")); err == nil || err.Error() != "not found" {
		t.Errorf("GetUint64 of a missing value returns %v; want the text %q, by which raft recognizes this error", err, "not found")
	}
	checkLog(t, s.logs, 1, 2, 10)
}

// TestLatch_BlocksDuringFatal starts a write that blocks and then fails. It starts other operations while
// the write blocks. No operation may return before Fatal has returned, and no later write may reach the file.
func TestLatch_BlocksDuringFatal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exit := make(chan struct{})
		f := newFaulty()
		s := guardedStore(f, func(error) { <-exit })
		release := make(chan struct{})
		f.before = func(string) error { <-release; return errDisk }
		var returned sync.WaitGroup
		var mu sync.Mutex
		var errs []error
		begin := func(op func() error) {
			returned.Go(func() {
				err := op()
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			})
		}
		begin(operations(s)["StoreLogs"])
		synctest.Wait()
		for range 3 {
			begin(operations(s)["DeleteRange"])
			begin(func() error { return s.logs.deleteChunk(1, 2) })
			begin(func() error { return s.logs.StoreLogs(commands(7, 7, 10)) })
		}
		synctest.Wait()
		close(release)
		synctest.Wait()
		begin(operations(s)["SetUint64"])
		synctest.Wait()
		mu.Lock()
		if len(errs) != 0 {
			t.Errorf("before Fatal returns, operations return the errors %v; want no operation to return", errs)
		}
		mu.Unlock()
		close(exit)
		returned.Wait()
		if len(errs) != 11 || slices.ContainsFunc(errs, func(err error) bool { return !errors.Is(err, ErrPoisoned) }) {
			t.Errorf("%d operations return the errors %v; want 11 operations, each with ErrPoisoned", len(errs), errs)
		}
		if writes := slices.DeleteFunc(f.list(), func(op string) bool { return op == "FirstIndex" }); len(writes) != 1 {
			t.Errorf("the writes %q reach the file; want only the first", writes)
		}
	})
}

// TestWatchdog blocks each write operation. The watchdog must call Fatal soon after the limit.
func TestWatchdog(t *testing.T) {
	const limit = 1600 * time.Millisecond
	for _, name := range []string{"StoreLogs", "DeleteRange", "Set"} {
		synctest.Test(t, func(t *testing.T) {
			type call struct {
				err error
				at  time.Duration
			}
			reported := make(chan call, 10)
			begin := time.Now()
			f := newFaulty()
			s := guardedStore(f, func(err error) { reported <- call{err, time.Since(begin)} })
			must(t, s.logs.StoreLogs(commands(1, 2, 10)))
			go s.watch(limit)
			release := make(chan struct{})
			f.before = func(op string) error {
				if op == name {
					<-release
				}
				return nil
			}
			done := make(chan error)
			go func() { done <- operations(s)[name]() }()
			<-time.After(2 * limit)
			synctest.Wait()
			if c := <-reported; len(reported) != 0 || !errors.Is(c.err, ErrStuck) || c.at < limit || c.at > limit+limit/watchTicks {
				t.Errorf("%s: Fatal is called %d times, first after %v with %v; want once, soon after the limit, with ErrStuck", name, 1+len(reported), c.at, c.err)
			}
			if err := s.Close(); !errors.Is(err, ErrStuck) {
				t.Errorf("%s: Close returns %v; want ErrStuck", name, err)
			}
			close(release)
			if err := <-done; !errors.Is(err, ErrPoisoned) || !errors.Is(err, ErrStuck) {
				t.Errorf("%s: the stuck operation returns %v after its late completion; want ErrPoisoned and ErrStuck", name, err)
			}
		})
	}
}

// TestWatchdog_SlowIsNotStuck makes each write take almost the limit. Fatal must not be called.
func TestWatchdog_SlowIsNotStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty()
		s := guardedStore(f, func(err error) { t.Errorf("Fatal is called with %v; want no call", err) })
		go s.watch(time.Second)
		f.before = func(op string) error {
			if op == "StoreLogs" || op == "Set" {
				<-time.After(time.Second - time.Millisecond)
			}
			return nil
		}
		for i := range uint64(20) {
			must(t, s.logs.StoreLog(command(i+1, 10)))
			must(t, s.Stable().SetUint64([]byte("CurrentTerm"), i))
		}
		close(s.stop)
	})
}
