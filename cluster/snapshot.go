package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/internal/failpoint"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/persistence"
)

// head is what a snapshot holds besides the records.
type head struct {
	Version   int            `json:"version"`
	Cluster   string         `json:"cluster"`
	Index     uint64         `json:"index"` // of the newest entry that is in it
	Time      uint64         `json:"time"`  // log time of that entry
	Term      uint64         `json:"term"`  // in which it was decided
	Wall      int64          `json:"wall"`  // wall time of the leader then
	Announced []Announcement `json:"announced"`
	Heartbeat heartbeats     `json:"heartbeat"`
}

const (
	snapshotVersion = 1
	maxHead         = 1 << 20 // bytes
)

// Snapshot returns a snapshot with a copy of all state but the records. The records are written while more entries are
// applied, so some may be newer: applying those entries again does no harm.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := head{Version: snapshotVersion, Cluster: f.config.Cluster, Index: f.appliedIndex, Heartbeat: f.pulse.known()}
	f.clock.save(&h)
	for _, a := range f.announced {
		h.Announced = append(h.Announced, a)
	}
	if failpoint.Is(failpoint.ForgottenTime) {
		h.Time = 0
	}
	return &snapshot{f, h, f.restores.Load()}, nil
}

type snapshot struct {
	fsm      *fsm
	head     head
	restores uint64 // at the time of the head
}

var errReplaced = errors.New("the state has been replaced meanwhile")

// Persist writes the head, as JSON behind its length, and then the records as in a snapshot
// file.
func (s *snapshot) Persist(sink raft.SnapshotSink) error {
	if err := s.write(sink); err != nil {
		_ = sink.Cancel() // the error that matters is err
		return fmt.Errorf("write a snapshot: %w", err)
	}
	if err := sink.Close(); err != nil {
		return fmt.Errorf("complete a snapshot: %w", err)
	}
	s.fsm.snapshotIndex.Store(s.head.Index)
	return nil
}

func (s *snapshot) write(w io.Writer) error {
	b, err := json.Marshal(s.head)
	if err != nil {
		return err
	}
	if _, err := w.Write(lengthOf(len(b))); err != nil {
		return err
	}
	if _, err := w.Write(b); err != nil {
		return err
	}
	f := s.fsm
	_, err = persistence.Write(w, persistence.Info{Program: f.config.Version, Created: f.config.Wall()}, committed{f.clock, f.table}, f.ended)
	if err == nil && f.restores.Load() != s.restores {
		err = errReplaced // and may have been read when half empty
	}
	return err
}

// Release has nothing to release.
func (s *snapshot) Release() {}

// Restore replaces the state by a snapshot, at the start or because the log of the leader begins later than this
// node's ends. It stops the process if the snapshot turns out to be damaged halfway.
func (f *fsm) Restore(src io.ReadCloser) error {
	defer func() { _ = src.Close() }() // it is only read
	h, err := readHead(src)
	if err != nil {
		return fmt.Errorf("read a snapshot: %w", err)
	}
	if h.Cluster != f.config.Cluster {
		return fmt.Errorf("read a snapshot of cluster %q: %w", h.Cluster, ErrOtherCluster)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.node.follow()
	f.restores.Add(1)
	f.table.Reset()
	_, err = persistence.Read(src, func(rec limiter.Record) error { return f.table.Restore(rec, h.Time) })
	if err != nil {
		err = fmt.Errorf("take in a snapshot: %w", err)
		f.node.fatal(err)
		return err
	}
	f.restoreHead(h)
	if err := f.checkSelf(); err != nil {
		f.node.fatal(err)
		return err
	}
	return f.config.Installed(h.Index)
}

func (f *fsm) restoreHead(h *head) {
	f.announced = map[string]Announcement{}
	for _, a := range h.Announced {
		f.announced[a.ID] = a
		f.memory.announced(&a)
	}
	f.pulse.restore(h.Heartbeat)
	f.setGauges()
	f.clock.restore(h)
	f.appliedIndex = h.Index
	f.snapshotIndex.Store(h.Index)
	f.node.publish()
}
