package raftlog

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestMark has a store that is in use set aside at the next start, once.
func TestMark(t *testing.T) {
	dir := claimed(t, 9)
	s := openStore(t, Config{Dir: dir})
	old, _, err := s.Claim("cluster", "node")
	must(t, err)
	must(t, Mark(dir, "it loops"))
	must(t, s.Stable().SetUint64([]byte("term"), 7)) // Raft goes on until the process ends
	must(t, s.Logs().StoreLog(command(10, 1)))
	if _, _, err := SetAsideMarked(dir); !errors.Is(err, ErrLocked) {
		t.Errorf("set aside while it is in use: %v", err)
	}
	must(t, s.Close())

	why, to, err := SetAsideMarked(dir)
	if err != nil || why != "it loops" || filepath.Dir(to) != dir {
		t.Errorf("%q in %q, %v", why, to, err)
	}
	if aside, err := readIdentity(to); err != nil || *aside != old {
		t.Errorf("%s is of %v, %v", to, aside, err)
	}
	for range 2 { // what is new is not marked
		if why, to, err := SetAsideMarked(dir); err != nil || why != "" || to != "" {
			t.Errorf("again: %q in %q, %v", why, to, err)
		}
		s = openStore(t, Config{Dir: dir})
		i, _, err := s.Claim("cluster", "node")
		if err != nil || i.Incarnation == old.Incarnation {
			t.Errorf("claimed %+v, %v", i, err)
		}
		must(t, s.Close())
	}
}

// TestUnmark takes a mark back, of which a directory that was never used has none.
func TestUnmark(t *testing.T) {
	dir := claimed(t, 9)
	must(t, Unmark(dir))
	must(t, Mark(dir, "it loops"))
	must(t, Unmark(dir))
	if why, to, err := SetAsideMarked(dir); err != nil || why != "" || to != "" {
		t.Errorf("%q in %q, %v", why, to, err)
	}
	empty := t.TempDir()
	if why, to, err := SetAsideMarked(empty); err != nil || why != "" || to != "" {
		t.Errorf("a new directory: %q in %q, %v", why, to, err)
	}
	if err := Mark(empty, "it loops"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("marked nothing: %v", err)
	}
}
