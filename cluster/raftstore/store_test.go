package raftstore

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// refused checks that Open rejects a directory with an error that names the path and, if
// want is not nil, wraps want.
func refused(t *testing.T, what, dir string, want error) {
	t.Helper()
	begin := time.Now()
	s, err := Open(Config{Dir: dir, Fatal: func(error) {}})
	if err == nil {
		t.Errorf("%s: Open succeeds; want an error", what)
		must(t, s.Close())
		return
	}
	if want != nil && !errors.Is(err, want) || !strings.Contains(err.Error(), dir) {
		t.Errorf("%s: Open returns %v; want %v and the path", what, err, want)
	}
	if took := time.Since(begin); took > patience {
		t.Errorf("%s: Open takes %v; want at most a minute", what, took)
	}
}

func TestOpen_KeepsStoredEntries(t *testing.T) {
	for _, sync := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "new", "log")
		for round := range uint64(3) {
			s := openStore(t, Config{Dir: dir, Sync: sync})
			must(t, s.Check())
			if round > 0 {
				checkLog(t, s.Logs(), 1, round*300, 500)
			}
			must(t, s.Logs().StoreLogs(commands(round*300+1, round*300+300, 500)))
			must(t, s.Close())
			if err := s.Close(); err != nil {
				t.Errorf("the second Close returns %v; want nil", err)
			}
		}
	}
}

func TestOpen_Private(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	openStore(t, Config{Dir: dir})
	for path, want := range map[string]fs.FileMode{
		dir: fs.ModeDir | 0o700, inCurrent(dir): fs.ModeDir | 0o700, inCurrent(dir, logName): 0o600, inCurrent(dir, stableName): 0o600,
	} {
		info, err := os.Stat(path)
		must(t, err)
		if info.Mode() != want {
			t.Errorf("%s has mode %v; want %v", path, info.Mode(), want)
		}
	}
}

func TestOpen_Config(t *testing.T) {
	if s, err := Open(Config{Dir: t.TempDir()}); err == nil {
		t.Errorf("Open without Config.Fatal returns %v; want an error", s)
	}
}

// TestOpen_Refused creates a file of the wrong type at each path. The test does not
// use file modes to make Open fail, because they have no effect on root.
func TestOpen_Refused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	must(t, os.WriteFile(dir, nil, 0o600))
	refused(t, "a file in the place of the directory", dir, nil)
	refused(t, "a file on the way to it", filepath.Join(dir, "below"), nil)
	for _, name := range []string{"", snapshotsName} {
		dir := t.TempDir()
		if name != "" {
			must(t, os.Mkdir(inCurrent(dir), 0o700))
		}
		must(t, os.WriteFile(inCurrent(dir, name), nil, 0o600))
		refused(t, "a file in the place of "+name, dir, nil)
	}
	for _, name := range []string{logName, stableName} {
		dir := t.TempDir()
		must(t, os.MkdirAll(inCurrent(dir, name), 0o700))
		refused(t, "a directory in the place of "+name, dir, nil)
		must(t, os.RemoveAll(inCurrent(dir, name)))
		must(t, os.WriteFile(inCurrent(dir, name), []byte("text"), 0o600))
		refused(t, "text in the place of "+name, dir, ErrDamaged)
	}
}

// TestOpen_Forgotten checks that a missing database is not created again, since the node's
// votes would be lost.
func TestOpen_Forgotten(t *testing.T) {
	for _, name := range []string{logName, stableName} {
		dir := claimed(t, 5)
		must(t, os.Truncate(inCurrent(dir, name), 0))
		refused(t, name+" is empty", dir, ErrDamaged)
		must(t, os.Remove(inCurrent(dir, name)))
		refused(t, name+" is missing", dir, ErrDamaged)
		if _, err := os.Stat(inCurrent(dir, name)); err == nil {
			t.Errorf("%s was created again", name)
		}
	}
}

func TestOpen_Twice(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, Config{Dir: dir})
	refused(t, "opened twice", dir, ErrLocked)
	if _, err := Inspect(dir); !errors.Is(err, ErrLocked) {
		t.Errorf("Inspect of an open directory returns %v; want ErrLocked", err)
	}
	must(t, s.Close())
	db, err := logDatabase.read(inCurrent(dir))
	must(t, err)
	refused(t, "opened while it is inspected", dir, ErrLocked)
	must(t, db.Close())
	openStore(t, Config{Dir: dir})
}

func TestClose_NothingReachesTheFiles(t *testing.T) {
	s := openStore(t, Config{Dir: t.TempDir()})
	must(t, s.Close())
	for name, op := range operations(s) {
		if err := op(); !errors.Is(err, ErrClosed) {
			t.Errorf("%s after Close returns %v; want ErrClosed", name, err)
		}
	}
}

// TestClose_AfterAnError checks that after a disk error Close leaves all files open and returns that error.
func TestClose_AfterAnError(t *testing.T) {
	dir := claimed(t, 5)
	s, err := Open(Config{Dir: dir, Fatal: func(error) {}})
	must(t, err)
	s.latch.trip(errDisk)
	for range 2 {
		if err := s.Close(); !errors.Is(err, ErrPoisoned) || !errors.Is(err, errDisk) {
			t.Errorf("Close returns %v; want ErrPoisoned and errDisk", err)
		}
	}
	refused(t, "opened in the same process", dir, ErrLocked)
}

// TestRead_PageIsGone simulates a disk that cannot read a mapped page, by truncating the
// file of an open Store. The memory fault must not crash the process.
func TestRead_PageIsGone(t *testing.T) {
	dir := claimed(t, 500)
	var reported error
	s, err := Open(Config{Dir: dir, Fatal: func(err error) { reported = err }})
	must(t, err)
	must(t, os.Truncate(inCurrent(dir, logName), 0))
	for i := uint64(1); err == nil && i <= 500; i++ {
		err = s.Logs().GetLog(i, new(raft.Log))
	}
	if !errors.Is(err, ErrDamaged) || !errors.Is(reported, ErrDamaged) {
		t.Errorf("GetLog returns %v, and Fatal is called with %v; want ErrDamaged in both", err, reported)
	}
}

func TestOpen_RemovesUnfinished(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, Config{Dir: dir})
	_, transport := raft.NewInmemTransport("")
	sink, err := s.Snapshots().Create(1, 5, 1, raft.Configuration{}, 1, transport)
	must(t, err)
	must(t, s.Close())
	left := func() int {
		entries, err := os.ReadDir(inCurrent(dir, snapshotsName))
		must(t, err)
		return len(entries)
	}
	if left() != 1 {
		t.Errorf("while snapshot %s is incomplete, the directory has %d entries; want 1", sink.ID(), left())
	}
	openStore(t, Config{Dir: dir})
	if left() != 0 {
		t.Errorf("after Open, the directory of the snapshots has %d entries; want 0", left())
	}
}

func TestFreeSpace(t *testing.T) {
	if free, err := freeSpace(t.TempDir()); err != nil || free == 0 {
		t.Errorf("freeSpace returns %d, %v; want more than 0", free, err)
	}
	var lines bytes.Buffer
	s := &Store{dir: filepath.Join(t.TempDir(), "gone"), log: slog.New(slog.NewTextHandler(&lines, nil))}
	s.warnOfLowSpace()
	if !strings.Contains(lines.String(), "level=WARN") || !strings.Contains(lines.String(), s.dir) {
		t.Errorf("for a missing directory, warnOfLowSpace logs %q; want a warning with the path", lines.String())
	}
}
