package persistence

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// must fails the test on an error in a setup step.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// savedDir returns a directory that contains a snapshot of state.
func savedDir(t testing.TB, state State) string {
	t.Helper()
	dir := t.TempDir()
	s, err := Open(Config{Dir: dir, Name: "dump.thr", Version: "1.2.3"})
	must(t, err)
	s.blockSize = 64
	must(t, s.Load(t.Context(), state))
	must(t, s.Save())
	must(t, s.Close())
	return dir
}

// loadDir opens a new Store, loads the snapshot in dir and closes the Store.
func loadDir(t testing.TB, dir string) *memory {
	t.Helper()
	s, err := Open(Config{Dir: dir, Name: "dump.thr"})
	must(t, err)
	got := newMemory(0)
	must(t, s.Load(t.Context(), got))
	must(t, s.Close())
	return got
}

// lockedLog is a buffer for log output that is safe for concurrent use.
type lockedLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *lockedLog) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func names(t testing.TB, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

func TestStore_SavesAndLoads(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, Config{Dir: dir, Version: "1.2.3"})
	state := newMemory(0)
	if info, found, err := s.Info(); found || err != nil || info != (Info{}) {
		t.Errorf("in an empty directory, Info returns %+v, %t, %v; want no snapshot", info, found, err)
	}
	must(t, s.Load(t.Context(), state))
	for generation := range 3 {
		state.set("key", uint64(2000+generation))
		state.now++
		must(t, s.Save())
		info, found, err := s.Info()
		if !found || err != nil || info.Keys != 1 || info.Ended != state.now || info.Program != "1.2.3" {
			t.Errorf("after save %d, Info returns %+v, %t, %v; want 1 key, and the time and version of the save", generation, info, found, err)
		}
	}
	must(t, s.Close())
	if got := names(t, dir); got != "dump.thr dump.thr.previous" {
		t.Errorf("the directory holds %s; want the current and the previous snapshot", got)
	}
	sameContent(t, "the snapshot", loadDir(t, dir), state)
	must(t, os.Rename(filepath.Join(dir, "dump.thr.previous"), filepath.Join(dir, "dump.thr")))
	state.set("key", 2001)
	sameContent(t, "the previous snapshot", loadDir(t, dir), state)
	if info, err := os.Stat(filepath.Join(dir, "dump.thr")); err != nil || info.Mode() != 0o600 {
		t.Errorf("the mode of the file is %v, error %v; want 0600", info.Mode(), err)
	}
}

func TestStore_Status(t *testing.T) {
	before := time.Now()
	s := newStore(t, Config{Dir: t.TempDir()})
	if st := s.Status(); !st.Loading || !s.Loading() || st.LastDuration != -1 || st.LastSave.Before(before) || st.Changes != 0 {
		t.Errorf("before Load the status is %+v; want Loading, LastDuration -1, and no changes", st)
	}
	state := newMemory(3)
	must(t, s.Load(t.Context(), state))
	if st := s.Status(); st.Loading || s.Loading() || st.Changes != 0 || st.LoadStarted.Before(before) {
		t.Errorf("after Load the status is %+v; want LoadStarted after the start of the test, no changes, and Loading false", st)
	}
	state.set("a", 1)
	state.set("b", 1)
	if st := s.Status(); st.Changes != 2 || st.Saves != 0 || !st.SaveStarted.IsZero() {
		t.Errorf("after two changes the status is %+v; want 2 changes, and no save", st)
	}
	var during Status
	state.visited = func() { during = s.Status() }
	began := time.Now()
	must(t, s.Save())
	if !during.Saving || during.SaveStarted.Before(began) || during.Saves != 0 {
		t.Errorf("during a save the status is %+v; want Saving, the start of this save, and no successful save", during)
	}
	if st := s.Status(); st.Saving || st.Changes != 0 || st.Saves != 1 || st.LastFailed || st.LastDuration < 0 || st.LastSave.Before(began) {
		t.Errorf("after a save the status is %+v; want one successful save, and no changes", st)
	}
	must(t, s.Load(t.Context(), state))
	if st := s.Status(); st.KeysLoaded != 3 || st.KeysExpired != 2 || st.LoadTotal == 0 || st.LoadDone != st.LoadTotal {
		t.Errorf("after a second load the status is %+v; want 3 keys loaded, 2 expired, and LoadDone equal to LoadTotal", st)
	}
}

// TestStore_ChangesDuringASave checks that changes made during a save count as unsaved
// after it.
func TestStore_ChangesDuringASave(t *testing.T) {
	state := newMemory(2)
	s := loadedStore(t, Config{Dir: t.TempDir()}, state)
	state.visited = func() { state.set("during", 9999) }
	must(t, s.Save())
	if got := s.Status().Changes; got != 2 {
		t.Errorf("after a save during which 2 changes were made: %d unsaved changes; want 2", got)
	}
}

func TestStore_RefusesToSave(t *testing.T) {
	state := newMemory(1)
	s := newStore(t, Config{Dir: t.TempDir()})
	f := func(when string, want error) {
		t.Helper()
		if err := s.Save(); err != want {
			t.Errorf("%s, Save returns %v; want %v", when, err, want)
		}
		if err := s.SaveInBackground(); err != want {
			t.Errorf("%s, SaveInBackground returns %v; want %v", when, err, want)
		}
	}
	f("before Load", ErrLoading)
	must(t, s.Load(t.Context(), state))
	state.visited = func() { f("while saving", ErrSaving) }
	must(t, s.Save())
	must(t, s.Close())
	f("after Close", ErrClosed)
	must(t, s.Close())
}

func TestStore_CloseWaits(t *testing.T) {
	state := newMemory(1)
	s := loadedStore(t, Config{Dir: t.TempDir()}, state)
	begun, release := make(chan struct{}), make(chan struct{})
	state.visited = func() { close(begun); <-release }
	must(t, s.SaveInBackground())
	<-begun
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	select {
	case <-closed:
		t.Error("Close returned while a save was running")
	case <-time.After(10 * time.Millisecond):
	}
	close(release)
	must(t, <-closed)
	if st := s.Status(); st.Saves != 1 {
		t.Errorf("after Close the status is %+v; want 1 save", st)
	}
}

func TestOpen_Refuses(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"", ".", "..", "a/b", "/", "/abs"} {
		if s, err := Open(Config{Dir: dir, Name: name}); err == nil {
			t.Errorf("Open accepts the file name %q, want an error", name)
			must(t, s.Close())
		}
	}
	_, err := Open(Config{Dir: filepath.Join(dir, "nowhere"), Name: "dump.thr"})
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), dir) {
		t.Errorf("Open of a missing directory returns %v; want ErrNotExist, and the directory in the text", err)
	}
}

func TestOpen_RemovesLeftovers(t *testing.T) {
	dir := savedDir(t, newMemory(3))
	for _, name := range []string{"dump.thr.tmp", "dump.thr.previous.tmp"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("half"), 0o600))
	}
	var log lockedLog
	newStore(t, Config{Dir: dir, Log: log.logger()})
	if got := names(t, dir); got != "dump.thr" {
		t.Errorf("the directory holds %s; want only dump.thr", got)
	}
	if n := strings.Count(log.String(), "unfinished snapshot"); n != 2 {
		t.Errorf("the log does not report two unfinished snapshots: %s", &log)
	}

	other := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(other, "dump.thr.tmp", "full"), 0o700))
	newStore(t, Config{Dir: other, Log: log.logger()})
	if !strings.Contains(log.String(), "level=WARN") {
		t.Errorf("the log has no warning about the unfinished snapshot that cannot be removed: %s", &log)
	}
}

func TestStore_Writable(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, Config{Dir: dir})
	if err := s.Writable(); err != nil || names(t, dir) != "" {
		t.Errorf("Writable returns %v, and the directory then holds %q; want no error, and an empty directory", err, names(t, dir))
	}
	must(t, os.Remove(dir))
	if err := s.Writable(); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), dir) {
		t.Errorf("in a directory that was removed, Writable returns %v; want ErrNotExist, and the directory in the text", err)
	}
}

func TestLoad_DropsExpiredRecords(t *testing.T) {
	state := newMemory(0)
	state.set("before", 1999)
	state.set("at", 2000)
	state.set("after", 2001)
	dir := savedDir(t, state)
	into := newMemory(0)
	into.now = 2000
	s := loadedStore(t, Config{Dir: dir}, into)
	if got := into.expiries(); len(got) != 1 || got["after"] != 2001 {
		t.Errorf("Load stores keys with the expiry times %v; want only the key \"after\", with the expiry time 2001", got)
	}
	if st := s.Status(); st.KeysLoaded != 1 || st.KeysExpired != 2 {
		t.Errorf("the status is %+v; want 1 key loaded, 2 expired", st)
	}
}

// TestLoad_IsAllOrNothing checks loads that fail even though the file is valid. The state must
// be empty afterwards, and saves must fail.
func TestLoad_IsAllOrNothing(t *testing.T) {
	f := func(what string, ctx context.Context, room int, want error, text string) {
		t.Helper()
		s := newStore(t, Config{Dir: savedDir(t, newMemory(20)), Fallback: true})
		into := newMemory(0)
		into.room = room
		err := s.Load(ctx, into)
		if !errors.Is(err, want) || !strings.Contains(err.Error(), text) || !strings.Contains(err.Error(), s.path) {
			t.Errorf("%s: Load returns %v; want %v", what, err, want)
		}
		if len(into.records) > 0 || into.clears == 0 || !s.Loading() {
			t.Errorf("%s: %d records remain, and Loading returns %t; want no records, true, and a call of Reset", what, len(into.records), s.Loading())
		}
		if err := s.Save(); err != ErrLoading {
			t.Errorf("%s: a later save returns %v, want ErrLoading", what, err)
		}
	}
	f("no room", t.Context(), 19, limiter.ErrOutOfMemory, "after 19 of 20 keys")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	f("canceled context", ended, 0, context.Canceled, "load snapshot")
}

func TestSnapshot_StoppedEarly(t *testing.T) {
	snap, err := OpenSnapshot(filepath.Join(savedDir(t, newMemory(9)), "dump.thr"))
	must(t, err)
	for range snap.Records() {
		break
	}
	if snap.Err() != errStopped {
		t.Errorf("after an iteration over one record, Err returns %v; want errStopped", snap.Err())
	}
	for range 2 {
		if err := snap.Verify(); err != nil || snap.Info().Keys != 9 {
			t.Errorf("Verify returns %v, and the info is %+v; want no error and 9 keys", err, snap.Info())
		}
	}
	must(t, snap.Close())
	if err := snap.Verify(); !errors.Is(err, ErrUnreadable) {
		t.Errorf("after Close, Verify returns %v; want ErrUnreadable", err)
	}
}

// TestSnapshot_ChangedMeanwhile replaces the content of an open file with a different
// valid snapshot. Verify must return an error.
func TestSnapshot_ChangedMeanwhile(t *testing.T) {
	path := filepath.Join(savedDir(t, newMemory(9)), "dump.thr")
	other := filepath.Join(savedDir(t, newMemory(9)), "dump.thr")
	snap, err := OpenSnapshot(path)
	must(t, err)
	b, err := os.ReadFile(other)
	must(t, err)
	must(t, os.WriteFile(path, b, 0o600))
	if err := snap.Verify(); !errors.Is(err, ErrDamaged) || !errors.Is(err, errChanging) {
		t.Errorf("Verify returns %v; want ErrDamaged and errChanging", err)
	}
	must(t, snap.Close())
}

// TestSave_WhileServing saves repeatedly while other goroutines change the state and read
// the status. The last snapshot must contain all records.
func TestSave_WhileServing(t *testing.T) {
	state := newMemory(200)
	state.set("hot", 5000)
	dir := t.TempDir()
	s := loadedStore(t, Config{Dir: dir}, state)
	stop := make(chan struct{})
	var running sync.WaitGroup
	for worker := range 2 {
		running.Go(func() {
			for i := uint64(0); ; i++ {
				select {
				case <-stop:
					return
				default:
					state.set("hot", 5000+i)
					_ = s.Status()
					if worker == 0 && i%100 == 0 {
						_ = s.SaveInBackground() // usually fails with ErrSaving
					}
				}
			}
		})
	}
	good := 0
	for good < 10 {
		if err := s.Save(); err == nil {
			good++
		} else if err != ErrSaving {
			t.Fatal(err)
		}
	}
	close(stop)
	running.Wait()
	must(t, s.Close())
	if got := loadDir(t, dir); len(got.records) != 201 {
		t.Errorf("%d records were loaded; want 201", len(got.records))
	}
}
