package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/internal/failpoint"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/persistence"
)

// head is the part of a snapshot that precedes the records.
type head struct {
	Version   int            `json:"version"`
	Cluster   string         `json:"cluster"`
	Index     uint64         `json:"index"` // index of the newest applied entry
	Time      uint64         `json:"time"`  // log time of the newest applied entry with changes
	Term      uint64         `json:"term"`  // term in which that entry was decided
	Wall      int64          `json:"wall"`  // wall time of the leader when that entry was decided
	Announced []Announcement `json:"announced"`
	Heartbeat heartbeats     `json:"heartbeat"`
	RulesPart rulesPart      `json:"rules_part,omitzero"`
	Users     usersVersion   `json:"users,omitzero"`
	Leases    bool           `json:"leases,omitempty"` // all voters can read records with leases
	// LeaseFormat is the format that they can read, see settings.
	LeaseFormat buckets.LeaseFormat `json:"lease_format,omitempty"`
}

const (
	snapshotVersion      = 1       // of a snapshot without rules and users
	rulesSnapshotVersion = 2       // rules follow the head
	usersSnapshotVersion = 3       // rules and the text of the users follow the head; the rules may be empty
	maxHead              = 1 << 20 // bytes
)

// Snapshot returns a snapshot with a copy of all state except the records. The records are written while more entries
// are applied, so some records may be newer than the head. After a restore, all entries that are newer than the
// head are applied again, which leads to the same state.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	f.state.Lock()
	defer f.state.Unlock()
	h := head{Version: snapshotVersion, Cluster: f.config.Cluster, Index: f.appliedIndex, Announced: f.announced.all(), Heartbeat: f.setting.replicated(), Leases: f.setting.leases() > buckets.NoLeases, LeaseFormat: f.setting.leases()}
	f.clock.save(&h)
	rules := f.rules.copied()
	if !rules.isEmpty() {
		h.Version, h.RulesPart = rulesSnapshotVersion, rules.part
	}
	if f.users.Number > 0 {
		h.Version, h.Users = usersSnapshotVersion, f.users.usersVersion
	}
	if failpoint.Is(failpoint.ForgottenTime) {
		h.Time = 0
	}
	return &snapshot{f, h, rules, f.restores.Load()}, nil
}

type snapshot struct {
	fsm      *fsm
	head     head
	rules    rulesCopy
	restores uint64 // value of fsm.restores when the head was copied
}

var errReplaced = errors.New("the state was replaced by another snapshot in the meantime; retry")

// Persist writes the length of the head, the head as JSON, the rules and the text of the users if the version of the head
// states this, and the records in the format of package persistence.
func (s *snapshot) Persist(sink raft.SnapshotSink) error {
	if err := s.write(sink); err != nil {
		_ = sink.Cancel() // the error from write is returned
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
	if s.head.Version >= rulesSnapshotVersion {
		if err := s.rules.write(w); err != nil {
			return err
		}
	}
	if _, err := io.WriteString(w, s.head.Users.text); err != nil {
		return err
	}
	return s.fsm.writeRecords(w, s.restores)
}

// writeRecords writes the committed records. It fails if the number of restores is not the parameter restores when it is
// done: the records may have been read during a restore.
func (f *fsm) writeRecords(w io.Writer, restores uint64) error {
	_, err := persistence.Write(w, persistence.Info{Program: f.config.Version, Created: f.config.Wall()}, committedState{f.clock, f.table}, f.ended)
	if err == nil && f.restores.Load() != restores {
		err = errReplaced
	}
	return err
}

// backup writes the committed records.
func (f *fsm) backup(w io.Writer) error {
	if err := f.writeRecords(w, f.restores.Load()); err != nil {
		return fmt.Errorf("write a backup: %w", err)
	}
	return nil
}

// Release does nothing.
func (s *snapshot) Release() {}

// Restore replaces the state with a snapshot. Raft calls it when the node starts, and when the leader sends a snapshot
// because it no longer has the entries that this node needs. The process exits if the records in the snapshot are
// damaged.
func (f *fsm) Restore(src io.ReadCloser) error {
	defer func() { _ = src.Close() }() // opened for reading only
	h, err := readHead(src)
	if err != nil {
		return fmt.Errorf("read a snapshot: %w", err)
	}
	if h.Cluster != f.config.Cluster {
		return fmt.Errorf("read a snapshot of cluster %q: %w", h.Cluster, ErrOtherCluster)
	}
	rules, err := readRules(src, h)
	if err != nil {
		return fmt.Errorf("read a snapshot: %w", err)
	}
	users, err := readUsers(src, h)
	if err != nil {
		return fmt.Errorf("read a snapshot: %w", err)
	}
	f.state.Lock()
	defer f.state.Unlock()
	f.leader.stepDownCurrentLocked()
	f.restores.Add(1)
	f.table.Reset()
	_, err = persistence.Read(src, func(rec limiter.Record) error { return f.table.Restore(rec, h.Time) })
	if err != nil {
		err = fmt.Errorf("restore a snapshot: %w", err)
		f.failure.fail(err)
		return err
	}
	f.restoreHead(h)
	f.rules.restore(rules)
	f.users.restore(users)
	if err := f.checkSelf(); err != nil {
		f.failure.fail(err)
		return err
	}
	return f.config.Installed(h.Index)
}

func (f *fsm) restoreHead(h *head) {
	f.announced.replace(h.Announced)
	for _, a := range h.Announced {
		f.keeper.records.announced(&a)
	}
	f.setting.restore(h.Heartbeat)
	f.setting.setLeases(formatOf(h.Leases, h.LeaseFormat))
	f.setFeatures()
	f.clock.restore(h)
	f.appliedIndex = h.Index
	f.users.reached(h.Index)
	f.snapshotIndex.Store(h.Index)
	f.view.publish()
}
