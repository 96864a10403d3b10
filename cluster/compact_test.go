package cluster

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// failingSnapshots is a snapshot store in which the first calls to Create fail.
type failingSnapshots struct {
	raft.SnapshotStore
	mu    sync.Mutex
	fails int
	tries []time.Duration // time of each attempt, since begun
	begun time.Time
}

func (f *failingSnapshots) Create(version raft.SnapshotVersion, index, term uint64, c raft.Configuration, ci uint64, tr raft.Transport) (raft.SnapshotSink, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tries = append(f.tries, time.Since(f.begun).Round(time.Second))
	if len(f.tries) <= f.fails {
		return nil, errors.New("no space left")
	}
	return f.SnapshotStore.Create(version, index, term, c, ci, tr)
}

func (f *failingSnapshots) tried() []time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.tries)
}

// TestSnapshotRetried checks that a failed snapshot is retried at growing intervals, even if the log does not grow.
func TestSnapshotRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := soloConfig("n1")
		store := &failingSnapshots{SnapshotStore: c.Snapshots, fails: 8, begun: time.Now()}
		c.Snapshots = store
		n := startSolo(t, c)
		defer closeSolo(t, n)
		if _, err := ask1(n, "s"); err != nil {
			t.Fatal(err)
		}
		n.fsm.grown.Store(minLog)
		pass(5 * time.Minute)
		seconds := func(all ...int) (times []time.Duration) {
			for _, s := range all {
				times = append(times, time.Duration(s)*time.Second)
			}
			return times
		}
		// The pauses are 2, 4, 8, 16 and 32 s, and then a minute.
		if want, got := seconds(1, 3, 7, 15, 31, 63, 123, 183, 243), store.tried(); !slices.Equal(got, want) {
			t.Errorf("snapshots were attempted at %v, want %v", got, want)
		}
		if got := n.fsm.grown.Load(); got >= minLog {
			t.Errorf("after a snapshot, %d bytes of entries count as new, want fewer than minLog", got)
		}
		if _, err := ask1(n, "s"); err != nil {
			t.Fatal(err)
		}
		before := len(store.tried())
		n.fsm.grown.Store(minLog)
		pass(2 * time.Second)
		if got := len(store.tried()) - before; got != 1 {
			t.Errorf("%d snapshots were attempted after the log has grown again, want 1", got)
		}
	})
}

// TestNothingNewToSnapshot checks that entries do not count as new if Raft reports that the last snapshot contains
// all of them.
func TestNothingNewToSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := startSolo(t, soloConfig("n1"))
		defer closeSolo(t, n)
		if err := n.Snapshot(); err != nil {
			t.Fatal(err)
		}
		n.fsm.grown.Store(minLog)
		pass(2 * time.Second)
		if got := n.fsm.grown.Load(); got != 0 {
			t.Errorf("after Raft reported that there is nothing new, %d bytes of entries count as new, want 0", got)
		}
	})
}
