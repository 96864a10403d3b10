package raftstore

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
)

// state describes the content of a directory: the indexes of its snapshots, and ranges of entries.
type state struct {
	snapshots []uint64
	entries   [][2]uint64
}

// createDir creates a directory with the given content. It returns the IDs of the snapshots.
func createDir(t *testing.T, st state) (dir string, ids []string) {
	t.Helper()
	dir = t.TempDir()
	s := openStore(t, Config{Dir: dir})
	_, _, err := s.Claim("cluster", "node")
	must(t, err)
	for _, index := range st.snapshots {
		ids = append(ids, snapshot(t, s, index, fmt.Sprint("state at ", index)))
	}
	for _, r := range st.entries {
		must(t, s.Logs().StoreLogs(commands(r[0], r[1], 20)))
	}
	must(t, s.Close())
	return dir, ids
}

// check opens a directory and calls Check.
func check(t *testing.T, dir string) (*Store, error) {
	t.Helper()
	s := openStore(t, Config{Dir: dir})
	return s, s.Check()
}

func TestCheck(t *testing.T) {
	for what, c := range map[string]struct {
		state
		want error
	}{
		"nothing":                         {state{}, nil},
		"a log":                           {state{nil, [][2]uint64{{1, 50}}}, nil},
		"a log without its begin":         {state{nil, [][2]uint64{{2, 50}}}, ErrGap},
		"a snapshot":                      {state{[]uint64{50}, nil}, nil},
		"a log that ends in the snapshot": {state{[]uint64{50}, [][2]uint64{{10, 30}}}, nil},
		"a log from before to after the end of the snapshot": {state{[]uint64{50}, [][2]uint64{{10, 80}}}, nil},
		"a log right behind it":                              {state{[]uint64{50}, [][2]uint64{{51, 80}}}, nil},
		"a log too far behind it":                            {state{[]uint64{50}, [][2]uint64{{52, 80}}}, ErrGap},
		"as after an install":                                {state{[]uint64{500}, [][2]uint64{{1, 50}, {501, 600}}}, nil},
		"a gap behind the snapshot":                          {state{[]uint64{50}, [][2]uint64{{1, 60}, {62, 70}}}, ErrGap},
		"a gap before the end of the snapshot":               {state{[]uint64{50}, [][2]uint64{{1, 20}, {30, 70}}}, nil},
		"two snapshots":                                      {state{[]uint64{50, 90}, [][2]uint64{{40, 100}}}, nil},
		"two snapshots, the log begins after the newer one":  {state{[]uint64{50, 90}, [][2]uint64{{91, 100}}}, nil},
		"three snapshots, of which two stay":                 {state{[]uint64{50, 90, 120}, [][2]uint64{{121, 130}}}, nil},
	} {
		dir, _ := createDir(t, c.state)
		if _, err := check(t, dir); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: Check returns %v; want %v", what, err, c.want)
		}
	}
}

// TestCheck_Damaged damages the newest of two snapshots. If the log reaches back to the
// older snapshot, Check must succeed. The damaged snapshot must be hidden from raft, which would
// otherwise start from the older snapshot but send the damaged one to followers.
func TestCheck_Damaged(t *testing.T) {
	const meta, content = "meta.json", "state.bin"
	rewrite := func(name string, change func([]byte) []byte) func(string) error {
		return func(dir string) error {
			path := filepath.Join(dir, name)
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(path, change(b), 0o600)
		}
	}
	for what, damage := range map[string]func(dir string) error{
		"empty meta.json":  rewrite(meta, func([]byte) []byte { return nil }),
		"cut meta.json":    rewrite(meta, func(b []byte) []byte { return b[:len(b)/2] }),
		"another snapshot": rewrite(meta, func(b []byte) []byte { return bytes.Replace(b, []byte(`"ID":"`), []byte(`"ID":"9`), 1) }),
		"another version":  rewrite(meta, func(b []byte) []byte { return bytes.Replace(b, []byte(`"Version":1`), []byte(`"Version":9`), 1) }),
		"no meta.json":     func(dir string) error { return os.Remove(filepath.Join(dir, meta)) },
		"no state.bin":     func(dir string) error { return os.Remove(filepath.Join(dir, content)) },
		"empty state.bin":  rewrite(content, func([]byte) []byte { return nil }),
		"bit in state.bin": rewrite(content, func(b []byte) []byte { b[3] ^= 16; return b }),
		"longer state.bin": rewrite(content, func(b []byte) []byte { return append(b, 0) }),
		"directory as meta": func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, meta)), os.Mkdir(filepath.Join(dir, meta), 0o700))
		},
	} {
		for first, want := range map[uint64]error{40: nil, 51: nil, 52: ErrGap, 91: ErrGap} {
			dir, ids := createDir(t, state{[]uint64{50, 90}, [][2]uint64{{first, 100}}})
			must(t, damage(inCurrent(dir, snapshotsName, ids[1])))
			s, err := check(t, dir)
			if !errors.Is(err, want) || (err == nil) != (want == nil) {
				t.Errorf("%s, and a log that begins with entry %d: Check returns %v; want %v", what, first, err, want)
			}
			list, err := s.Snapshots().List()
			must(t, err)
			if len(list) != 1 || list[0].ID != ids[0] {
				t.Errorf("%s: List returns %v; want only the older snapshot", what, list)
			}
			if _, err := os.Stat(inCurrent(dir, damagedName, ids[1])); err != nil {
				t.Errorf("%s: the snapshot is not in the directory \"damaged\": %v", what, err)
			}
			if want == nil {
				must(t, s.Check())
			}
		}
	}
}

// TestCheck_NamesTheDamage checks that each damaged snapshot is logged, and that the directory "damaged"
// keeps only one of them.
func TestCheck_NamesTheDamage(t *testing.T) {
	dir, ids := createDir(t, state{[]uint64{50, 90}, [][2]uint64{{1, 100}}})
	for _, id := range ids {
		must(t, os.Truncate(inCurrent(dir, snapshotsName, id, "state.bin"), 1))
	}
	var lines bytes.Buffer
	s := openStore(t, Config{Dir: dir, Log: slog.New(slog.NewTextHandler(&lines, nil))})
	must(t, s.Check())
	for _, id := range ids {
		if !bytes.Contains(lines.Bytes(), []byte(id)) {
			t.Errorf("no line of the log names snapshot %s: %s", id, lines.String())
		}
	}
	kept, err := os.ReadDir(inCurrent(dir, damagedName))
	must(t, err)
	if len(kept) != 1 {
		t.Errorf("%d damaged snapshots are kept; want 1", len(kept))
	}
}

// TestCheck_SnapshotsGone removes the snapshot directory. Check must then reject a log that does not
// begin with entry 1.
func TestCheck_SnapshotsGone(t *testing.T) {
	for first, want := range map[uint64]error{1: nil, 2: ErrGap} {
		dir, _ := createDir(t, state{[]uint64{50}, [][2]uint64{{first, 100}}})
		must(t, os.RemoveAll(inCurrent(dir, snapshotsName)))
		if _, err := check(t, dir); !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("a log that begins with entry %d: Check returns %v; want %v", first, err, want)
		}
	}
}

// TestCheck_DoesNotStopTheNode checks that Check returns errors without calling Fatal.
func TestCheck_DoesNotStopTheNode(t *testing.T) {
	f := newFaulty()
	s := guardedStore(f, func(err error) { t.Errorf("Fatal is called with %v; want no call", err) })
	must(t, f.InmemStore.StoreLogs(commands(1, 3, 10))) // directly into the database, so the entries have no checksums
	if err := checkEntries(s.logs, 0); !errors.Is(err, ErrDamaged) {
		t.Errorf("the entries have no checksums: checkEntries returns %v; want ErrDamaged", err)
	}
	f.before = func(op string) error { panic("page 7") }
	if err := checkEntries(s.logs, 0); !errors.Is(err, ErrDamaged) {
		t.Errorf("the database panics: checkEntries returns %v; want ErrDamaged", err)
	}
	f.before = func(op string) error {
		if op == "LastIndex" {
			return errDisk
		}
		return nil
	}
	if err := checkEntries(s.logs, 0); !errors.Is(err, errDisk) {
		t.Errorf("the log cannot be read: checkEntries returns %v; want errDisk", err)
	}
}

// TestRaftStarts checks that the library starts with a directory that Check accepts, and
// panics with a directory that Check rejects.
func TestRaftStarts(t *testing.T) {
	dir, ids := createDir(t, state{[]uint64{50, 90}, [][2]uint64{{40, 100}}})
	must(t, os.Truncate(inCurrent(dir, snapshotsName, ids[1], "state.bin"), 1))
	s, err := check(t, dir)
	must(t, err)
	fsm, node := startRaft(t, s)
	if fsm.restored() != "state at 50" || node.LastIndex() != 100 {
		t.Errorf("raft starts from %q with last index %d; want \"state at 50\" and 100", fsm.restored(), node.LastIndex())
	}
	must(t, node.Shutdown().Error())
	must(t, s.Close())

	dir, ids = createDir(t, state{[]uint64{50, 90}, [][2]uint64{{91, 100}}})
	must(t, os.Truncate(inCurrent(dir, snapshotsName, ids[1], "state.bin"), 1))
	s = openStore(t, Config{Dir: dir})
	panicked := func() (p any) {
		defer func() { p = recover() }()
		startRaft(t, s)
		return nil
	}()
	if !errors.Is(panicked.(error), raft.ErrLogNotFound) {
		t.Errorf("if entries are missing, the library panics with %v; want raft.ErrLogNotFound", panicked)
	}
	if err := s.Check(); !errors.Is(err, ErrGap) {
		t.Errorf("Check returns %v; want ErrGap", err)
	}
}
