package raftstore

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestRequestSetAside checks that the store is set aside at the next start, but not at later starts.
func TestRequestSetAside(t *testing.T) {
	dir := claimed(t, 9)
	s := openStore(t, Config{Dir: dir})
	old, _, err := s.Claim("cluster", "node")
	must(t, err)
	must(t, RequestSetAside(dir, "it loops"))
	must(t, s.Stable().SetUint64([]byte("term"), 7)) // raft continues until the process exits
	must(t, s.Logs().StoreLog(command(10, 1)))
	if _, _, err := SetAsideIfRequested(dir); !errors.Is(err, ErrLocked) {
		t.Errorf("SetAsideIfRequested of an open directory returns %v; want ErrLocked", err)
	}
	must(t, s.Close())

	why, to, err := SetAsideIfRequested(dir)
	if err != nil || why != "it loops" || filepath.Dir(to) != dir {
		t.Errorf("SetAsideIfRequested returns reason %q, path %q, %v; want \"it loops\" and a path in the directory", why, to, err)
	}
	if aside, err := readIdentity(to); err != nil || *aside != old {
		t.Errorf("%s has the identity %v, error %v; want the identity of the old store", to, aside, err)
	}
	for range 2 { // there is no request for the new store
		if why, to, err := SetAsideIfRequested(dir); err != nil || why != "" || to != "" {
			t.Errorf("SetAsideIfRequested without a request returns reason %q, path %q, %v; want two empty strings and nil", why, to, err)
		}
		s = openStore(t, Config{Dir: dir})
		i, _, err := s.Claim("cluster", "node")
		if err != nil || i.Incarnation == old.Incarnation {
			t.Errorf("Claim returns %+v, %v; want a new incarnation", i, err)
		}
		must(t, s.Close())
	}
}

// TestCancelSetAside checks that CancelSetAside withdraws a request, and that a directory without files
// has no request.
func TestCancelSetAside(t *testing.T) {
	dir := claimed(t, 9)
	must(t, CancelSetAside(dir))
	must(t, RequestSetAside(dir, "it loops"))
	must(t, CancelSetAside(dir))
	if why, to, err := SetAsideIfRequested(dir); err != nil || why != "" || to != "" {
		t.Errorf("SetAsideIfRequested after CancelSetAside returns reason %q, path %q, %v; want no request", why, to, err)
	}
	empty := t.TempDir()
	if why, to, err := SetAsideIfRequested(empty); err != nil || why != "" || to != "" {
		t.Errorf("SetAsideIfRequested of an empty directory returns reason %q, path %q, %v; want no request", why, to, err)
	}
	if err := RequestSetAside(empty, "it loops"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("RequestSetAside of an empty directory returns %v; want os.ErrNotExist", err)
	}
}
