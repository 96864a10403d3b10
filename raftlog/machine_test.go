package raftlog

import (
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// machine is a state machine that counts applied entries and records the snapshot it was
// restored from.
type machine struct {
	mu      sync.Mutex
	applied int
	from    string
}

func (m *machine) restored() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.from
}

func (m *machine) Apply(*raft.Log) any {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.applied++
	return m.applied
}

func (m *machine) Restore(src io.ReadCloser) error {
	b, err := io.ReadAll(src)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.from, m.applied = string(b), 0
	return err
}

func (m *machine) Snapshot() (raft.FSMSnapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return machineSnapshot(fmt.Sprintf("%s and %d applied", m.from, m.applied)), nil
}

type machineSnapshot string

func (s machineSnapshot) Persist(sink raft.SnapshotSink) error {
	if _, err := io.WriteString(sink, string(s)); err != nil {
		return err
	}
	return sink.Close()
}

func (machineSnapshot) Release() {}

// startRaft starts the library on a store, as node "a" with the configuration in the store.
func startRaft(t testing.TB, s *Store) (*machine, *raft.Raft) {
	t.Helper()
	conf := raft.DefaultConfig()
	conf.LocalID = "a"
	conf.HeartbeatTimeout, conf.ElectionTimeout, conf.LeaderLeaseTimeout = 50*time.Millisecond, 50*time.Millisecond, 50*time.Millisecond
	conf.TrailingLogs = 10
	conf.Logger = Logger(slog.New(slog.DiscardHandler))
	_, transport := raft.NewInmemTransport("127.0.0.1:1")
	m := &machine{}
	node, err := raft.NewRaft(conf, m, s.Logs(), s.Stable(), s.Snapshots(), transport)
	must(t, err)
	t.Cleanup(func() { _ = node.Shutdown().Error() }) // usually shut down already
	return m, node
}
