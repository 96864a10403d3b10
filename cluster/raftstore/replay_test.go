package raftstore

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

// replayFSM records the entries that were applied after a snapshot.
type replayFSM struct {
	raft.FSM
	from    string
	applied []uint64
	err     error // returned by Apply
}

func (m *replayFSM) Apply(entry *raft.Log) any {
	m.applied = append(m.applied, entry.Index)
	return m.err
}

func (m *replayFSM) Restore(src io.ReadCloser) error {
	b, err := io.ReadAll(src)
	m.from = string(b)
	return errors.Join(err, src.Close())
}

// applies checks the snapshot and the entries that Replay passes to the state machine.
func applies(t *testing.T, dir, from string, first, last uint64) {
	t.Helper()
	var m replayFSM
	if err := Replay(t.Context(), dir, &m); err != nil {
		t.Fatalf("Replay: %v", err)
	}
	if m.from != from || uint64(len(m.applied)) != last+1-first {
		t.Fatalf("Replay restores %q and applies %d entries, want %q and %d", m.from, len(m.applied), from, last+1-first)
	}
	for i, index := range m.applied {
		if index != first+uint64(i) {
			t.Fatalf("applied entry %d is %d, want %d", i, index, first+uint64(i))
		}
	}
}

// contentOf returns the content of all files below a directory, by path.
func contentOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		files[path] = string(b)
		return err
	}))
	return files
}

// TestReplay checks a directory with entries, then with a snapshot of a part of them, and with a damaged newer snapshot.
func TestReplay(t *testing.T) {
	dir := claimed(t, 20)
	before := contentOf(t, dir)
	applies(t, dir, "", 1, 20)
	for path, content := range contentOf(t, dir) {
		if before[path] != content {
			t.Errorf("Replay has changed or created %s", path)
		}
	}
	s := openStore(t, Config{Dir: dir})
	snapshot(t, s, 12, "older")
	newer := snapshot(t, s, 15, "newer")
	must(t, s.Close())
	applies(t, dir, "newer", 16, 20)
	must(t, os.WriteFile(inCurrent(dir, snapshotsName, newer, stateName), []byte("damaged"), 0o600))
	applies(t, dir, "older", 13, 20)
}

// TestReplay_NewestEntries checks that entries that are only in files of package wal are applied, and that raft's own
// entries are not.
func TestReplay_NewestEntries(t *testing.T) {
	dir := claimed(t, 3)
	s := openStore(t, Config{Dir: dir})
	must(t, s.Logs().StoreLogs(commands(4, 9, 100)))
	must(t, s.Logs().StoreLog(&raft.Log{Index: 10, Term: 1, Type: raft.LogNoop}))
	backup := t.TempDir()
	must(t, os.CopyFS(backup, os.DirFS(dir)))
	applies(t, backup, "", 1, 9)
	if err := Replay(t.Context(), dir, &replayFSM{}); !errors.Is(err, ErrLocked) {
		t.Errorf("Replay of an open store: error %v, want ErrLocked", err)
	}
}

func TestReplay_Errors(t *testing.T) {
	dir := claimed(t, 20)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Replay(canceled, dir, &replayFSM{}); !errors.Is(err, context.Canceled) {
		t.Errorf("with a canceled context: error %v, want context.Canceled", err)
	}
	refused := errors.New("refused")
	if err := Replay(t.Context(), dir, &replayFSM{err: refused}); !errors.Is(err, refused) {
		t.Errorf("error %v, want that of Apply", err)
	}
	s := openStore(t, Config{Dir: dir})
	must(t, s.Logs().DeleteRange(1, 5))
	must(t, s.Close())
	if err := Replay(t.Context(), dir, &replayFSM{}); !errors.Is(err, ErrGap) || !strings.Contains(err.Error(), "entry 1 is missing") {
		t.Errorf("without the first entries and without a snapshot: error %v, want ErrGap", err)
	}
}
