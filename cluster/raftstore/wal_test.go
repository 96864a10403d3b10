package raftstore

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

// killed returns a copy of a directory in use. The copy is like a directory whose process was killed.
func killed(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	must(t, os.CopyFS(to, os.DirFS(dir)))
	return to
}

// frontFiles returns the paths of the files of package wal.
func frontFiles(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(inCurrent(dir, "front-*"))
	must(t, err)
	return paths
}

// TestWAL_Killed checks that Inspect and Open find the entries that were not in the database when the
// process was killed.
func TestWAL_Killed(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, Config{Dir: dir})
	_, _, err := s.Claim("cluster", "node")
	must(t, err)
	must(t, s.Logs().StoreLogs(commands(1, 10, 10)))
	conf := raft.Configuration{Servers: threeServers}
	must(t, s.Logs().StoreLog(&raft.Log{Index: 11, Term: 3, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(conf)}))
	if last, err := s.logs.LastIndex(); last != 0 || err != nil {
		t.Fatalf("the last index of the database is %d, error %v; want 0", last, err)
	}
	left := killed(t, dir)
	for range 2 { // Inspect changes nothing
		sum, err := Inspect(left)
		must(t, err)
		if sum.FirstLog != 1 || sum.LastLog != 11 || sum.LastIndex != 11 || sum.LastTerm != 3 || len(sum.Configuration.Servers) != 3 {
			t.Errorf("Inspect returns %+v; want entries 1 to 11, term 3 and three servers", sum)
		}
	}
	again := openStore(t, Config{Dir: left})
	must(t, again.Check())
	must(t, again.Logs().DeleteRange(11, 11))
	checkLog(t, again.Logs(), 1, 10, 10)
}

// TestWAL_Closed checks that Close moves all entries to the database.
func TestWAL_Closed(t *testing.T) {
	dir := claimed(t, 20)
	if files := frontFiles(t, dir); len(files) > 0 {
		t.Errorf("after Close, the directory still has the log files %q", files)
	}
	checkLog(t, openStore(t, Config{Dir: dir}).logs, 1, 20, 100)
}

// TestWAL_Damaged checks that a corrupt file is rejected.
func TestWAL_Damaged(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, Config{Dir: dir})
	_, _, err := s.Claim("cluster", "node")
	must(t, err)
	must(t, s.Logs().StoreLogs(commands(1, 10, 10)))
	left := killed(t, dir)
	path := frontFiles(t, left)[0]
	b, err := os.ReadFile(path)
	must(t, err)
	b[len(b)/2] ^= 1
	must(t, os.WriteFile(path, b, 0o600))
	if _, err := Inspect(left); !errors.Is(err, ErrDamaged) {
		t.Errorf("Inspect returns %v; want ErrDamaged", err)
	}
	if _, err := Open(Config{Dir: left, Fatal: func(error) {}}); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), path) {
		t.Errorf("Open returns %v; want ErrDamaged and the path of the file", err)
	}
}

// TestWAL_FailsBehind checks that the node stops if entries cannot be moved to the
// database, even though no call is waiting for the move.
func TestWAL_FailsBehind(t *testing.T) {
	f := newFaulty()
	reported := make(chan error, 1)
	s := guardedStore(f, func(err error) { reported <- err })
	s.dir = t.TempDir()
	must(t, makeDir(s.current()))
	must(t, s.openWAL())
	f.before = func(op string) error {
		if strings.HasPrefix(op, "Store") {
			return errDisk
		}
		return nil
	}
	for i := uint64(1); s.latch.first.Load() == nil; i++ {
		if err := s.Logs().StoreLog(command(i, 10)); err != nil && !errors.Is(err, errDisk) {
			t.Fatalf("StoreLog of entry %d returns %v; want nil or errDisk", i, err)
		}
	}
	if err := <-reported; !errors.Is(err, errDisk) {
		t.Errorf("Fatal is called with %v; want errDisk", err)
	}
	if err := s.Logs().GetLog(1, new(raft.Log)); !errors.Is(err, ErrPoisoned) {
		t.Errorf("GetLog returns %v; want ErrPoisoned", err)
	}
	if err := s.Close(); !errors.Is(err, ErrPoisoned) {
		t.Errorf("Close returns %v; want ErrPoisoned", err)
	}
}
