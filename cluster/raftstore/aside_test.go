package raftstore

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestSetAside checks that the log, the vote and the identity are moved, and that only the newest
// two directories of the name aside-N are kept.
func TestSetAside(t *testing.T) {
	dir := claimed(t, 9)
	seen := map[string]bool{}
	var last string
	for n := range 4 {
		s := openStore(t, Config{Dir: dir})
		i, fresh, err := s.Claim("cluster", "node")
		must(t, err)
		if seen[i.Incarnation] || fresh == (n == 0) {
			t.Errorf("round %d: Claim returns %+v, fresh %t; want a new incarnation, and fresh true except in round 0", n, i, fresh)
		}
		seen[i.Incarnation] = true
		index, err := s.Logs().LastIndex()
		must(t, err)
		if (index == 0) != fresh {
			t.Errorf("round %d: the last index is %d; want 0 if and only if the directory is new", n, index)
		}
		must(t, s.Close())
		if last, err = SetAside(dir); err != nil || filepath.Dir(last) != dir {
			t.Fatalf("round %d: SetAside returns %q, %v; want a path in the directory", n, last, err)
		}
		if err := s.Logs().StoreLog(command(1, 1)); !errors.Is(err, ErrClosed) {
			t.Errorf("round %d: StoreLog after SetAside returns %v; want ErrClosed", n, err)
		}
		if aside, err := readIdentity(last); err != nil || *aside != i {
			t.Errorf("round %d: %s has the identity %v, error %v; want the identity of the closed store", n, last, aside, err)
		}
	}
	entries, err := os.ReadDir(dir)
	must(t, err)
	if len(entries) != keptAside || filepath.Base(last) != "aside-4" {
		t.Errorf("the last directory is %s; want aside-4; the remaining directories are %v; want 2", last, entries)
	}
}

// TestSetAside_Damaged checks that a directory can be set aside although its files are damaged.
func TestSetAside_Damaged(t *testing.T) {
	dir := claimed(t, 9)
	must(t, os.Truncate(inCurrent(dir, logName), 5))
	refused(t, "cut", dir, ErrDamaged)
	_, err := SetAside(dir)
	must(t, err)
	s := openStore(t, Config{Dir: dir})
	if _, err := SetAside(dir); !errors.Is(err, ErrLocked) {
		t.Errorf("SetAside of an open directory returns %v; want ErrLocked", err)
	}
	must(t, s.Close())
	must(t, os.RemoveAll(inCurrent(dir)))
	if _, err := SetAside(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("SetAside without the directory \"current\" returns %v; want os.ErrNotExist", err)
	}
	if _, err := SetAside(filepath.Join(dir, "gone")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("SetAside of a missing directory returns %v; want os.ErrNotExist", err)
	}
}

func TestAsideNumber(t *testing.T) {
	for name, want := range map[string]int{"aside-1": 1, "aside-12": 12, "aside-0": 0, "aside--3": 0, "aside-": 0, "aside-x": 0, "7": 0, "current": 0} {
		if got := asideNumber(name); got != want {
			t.Errorf("asideNumber(%q) is %d; want %d", name, got, want)
		}
	}
}
