package raftstore

import (
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// testFSM is a state machine that counts applied entries and records the snapshot it was
// restored from.
type testFSM struct {
	mu      sync.Mutex
	applied int
	from    string
}

func (m *testFSM) restored() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.from
}

func (m *testFSM) Apply(*raft.Log) any {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.applied++
	return m.applied
}

func (m *testFSM) Restore(src io.ReadCloser) error {
	b, err := io.ReadAll(src)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.from, m.applied = string(b), 0
	return err
}

func (m *testFSM) Snapshot() (raft.FSMSnapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return testSnapshot(fmt.Sprintf("%s and %d applied", m.from, m.applied)), nil
}

type testSnapshot string

func (s testSnapshot) Persist(sink raft.SnapshotSink) error {
	if _, err := io.WriteString(sink, string(s)); err != nil {
		return err
	}
	return sink.Close()
}

func (testSnapshot) Release() {}

// startRaft starts the library on a store, as node "a" with the configuration in the store.
func startRaft(t testing.TB, s *Store) (*testFSM, *raft.Raft) {
	t.Helper()
	conf := raft.DefaultConfig()
	conf.LocalID = "a"
	conf.HeartbeatTimeout, conf.ElectionTimeout, conf.LeaderLeaseTimeout = 50*time.Millisecond, 50*time.Millisecond, 50*time.Millisecond
	conf.TrailingLogs = 10
	conf.Logger = Logger(slog.New(slog.DiscardHandler))
	_, transport := raft.NewInmemTransport("127.0.0.1:1")
	m := &testFSM{}
	node, err := raft.NewRaft(conf, m, s.Logs(), s.Stable(), s.Snapshots(), transport)
	must(t, err)
	t.Cleanup(func() { _ = node.Shutdown().Error() }) // most tests have shut the node down already
	return m, node
}
