package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/mutant"
	"github.com/throttledhq/throttled/persistence"
	"github.com/throttledhq/throttled/topology"
)

// machine is the node as Raft sees it: what is done with committed entries.
type machine struct{ *Node }

// Machine returns the node as what Raft applies entries to, for use without Raft: to take in a
// log that no node runs with.
func (n *Node) Machine() raft.FSM { return machine{n} }

// Snapshot makes Raft write the committed state to a file, and forget the entries before it.
func (n *Node) Snapshot() error {
	if !n.begun() {
		return topology.ErrNoLeader
	}
	if err := n.raft.Snapshot().Error(); err != nil {
		return fmt.Errorf("take a snapshot: %w", err)
	}
	return nil
}

var (
	_ raft.FSM                = machine{}
	_ raft.ConfigurationStore = machine{}
)

// Apply takes a committed entry in. One that cannot be read stops the process: to go on without it
// would be to decide by another state than the others.
func (m machine) Apply(log *raft.Log) any {
	m.mu.Lock()
	defer m.mu.Unlock()
	came := m.clock.cameIn(log)
	if err := m.apply(log, came); err != nil {
		m.fatal(fmt.Errorf("apply entry %d: %w", log.Index, err))
		return err
	}
	m.appliedIndex = log.Index
	m.noteLeader(log)
	m.grown.Add(int64(len(log.Data)))
	return nil
}

// apply applies an entry that came in at a time of the monotonic clock.
func (n *Node) apply(log *raft.Log, came time.Duration) error {
	if len(log.Data) == 0 {
		return fmt.Errorf("it is empty: %w", errEntry)
	}
	switch log.Data[0] {
	case changesEntry:
		c, err := parseChanges(log.Data)
		if err != nil {
			return err
		}
		return n.applyChanges(log, &c, came)
	case settingsEntry:
		s, err := parseSettings(log.Data)
		if err != nil {
			return err
		}
		if s.Term == log.Term || mutant.Is(mutant.AnyTerm) {
			n.pulse.apply(log.Index, s)
			n.setGauges()
		}
		return nil
	case memberEntry:
		a, err := parseAnnouncement(log.Data)
		if err != nil {
			return err
		}
		if known := n.announced[a.ID].Incarnation; known != "" && known != a.Incarnation {
			return nil // two have come under one id at the same moment: the first is it, on all nodes alike
		}
		known := n.announced[a.ID]
		if (remembered{Boot: known.Boot, Process: known.Process}).outdates(&a) {
			return nil // it comes from an old copy of the data, or from a version before
		}
		n.announced[a.ID] = a.kept()
		n.memory.announced(&a)
		n.publish()
		return n.checkSelf()
	}
	return fmt.Errorf("kind %d: %w", log.Data[0], errEntry)
}

// applyChanges acknowledges a generation of this node's own that is in flight, and puts any
// other.
//
// An entry that was decided under an older term than the one in which it got into the log is
// void, on all nodes alike: it was decided without knowing what came between.
func (n *Node) applyChanges(log *raft.Log, c *changes, came time.Duration) error {
	r := n.reign.Load()
	if r != nil && c.term == r.term && c.reign == r.number && log.Term == r.term {
		return n.acknowledge(r, c)
	}
	if r != nil && log.Term != r.term {
		n.abdicate(r) // somebody else has led: what is in flight here must not be in their way
	}
	if log.Term != c.term && !mutant.Is(mutant.AnyTerm) {
		return nil
	}
	if err := n.table.Replay(c.data, n.replayTime(c)); err != nil {
		return err
	}
	n.clock.note(c, came, n.raft != nil && n.clock.isFresh(log, n.raft.CurrentTerm()))
	return nil
}

// replayTime is the time up to which an entry lets records expire.
func (n *Node) replayTime(c *changes) uint64 {
	if mutant.Is(mutant.LocalExpiry) {
		return uint64(max(0, n.config.Wall().UnixNano()))
	}
	return c.time
}

var errSkipped = errors.New("a generation before it is missing")

// acknowledge lets those go who have waited for a generation. With it all before count as committed, so one
// that Raft has refused must not have been before it.
func (n *Node) acknowledge(r *reign, c *changes) error {
	if !r.isNext(c.generation) || !n.table.Commit(c.generation, n.replayTime(c)) {
		return errSkipped
	}
	n.clock.note(c, r.commit(c.generation, n.clock.monotonic()), true)
	return nil
}

// StoreConfiguration tells the faces who is in the cluster.
func (m machine) StoreConfiguration(uint64, raft.Configuration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.publish()
}

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

// Snapshot notes what there is besides the records. The records follow while entries go on
// being applied, so some may be newer: applying those entries again does no harm.
func (m machine) Snapshot() (raft.FSMSnapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := head{Version: snapshotVersion, Cluster: m.config.Cluster, Index: m.appliedIndex, Heartbeat: m.pulse.known()}
	m.clock.save(&h)
	for _, a := range m.announced {
		h.Announced = append(h.Announced, a)
	}
	if mutant.Is(mutant.ForgottenTime) {
		h.Time = 0
	}
	return &snapshot{m.Node, h, m.restores.Load()}, nil
}

type snapshot struct {
	node     *Node
	head     head
	restores uint64 // that the node had seen
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
	s.node.snapshotIndex.Store(s.head.Index)
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
	_, err = persistence.Write(w, persistence.Info{Program: s.node.config.Version, Created: s.node.config.Wall()}, committed{s.node}, s.node.ended)
	if err == nil && s.node.restores.Load() != s.restores {
		err = errReplaced // and may have been seen half empty
	}
	return err
}

// Release has nothing to let go of.
func (s *snapshot) Release() {}

// Restore takes a snapshot in, at the start or because the log of the leader begins later than
// this node's ends. One that turns out to be damaged halfway stops the process.
func (m machine) Restore(src io.ReadCloser) error {
	defer func() { _ = src.Close() }() // it is only read
	h, err := readHead(src)
	if err != nil {
		return fmt.Errorf("read a snapshot: %w", err)
	}
	if h.Cluster != m.config.Cluster {
		return fmt.Errorf("read a snapshot of cluster %q: %w", h.Cluster, ErrOtherCluster)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.reign.Load(); r != nil {
		m.abdicate(r)
	}
	m.restores.Add(1)
	m.table.Reset()
	_, err = persistence.Read(src, func(rec limiter.Record) error { return m.table.Restore(rec, h.Time) })
	if err != nil {
		err = fmt.Errorf("take in a snapshot: %w", err)
		m.fatal(err)
		return err
	}
	m.takeHead(h)
	if err := m.checkSelf(); err != nil {
		m.fatal(err)
		return err
	}
	return m.config.Installed(h.Index)
}

// checkSelf returns an error if the cluster knows this node with other or newer data. n.mu is held.
func (n *Node) checkSelf() error {
	self, known := n.config.Self, n.announced[n.config.Self.ID]
	switch {
	case known.Incarnation == "" || self.Incarnation == "":
	case known.Incarnation != self.Incarnation:
		return fmt.Errorf("%s: %w", self.ID, ErrUsed)
	case self.Boot > 0 && (remembered{Boot: known.Boot, Process: known.Process}).outdates(&self):
		return fmt.Errorf("%s was started with boot number %d elsewhere, and here with boot number %d: %w", self.ID, known.Boot, self.Boot, ErrStale)
	}
	return nil
}

func (n *Node) takeHead(h *head) {
	n.announced = map[string]Announcement{}
	for _, a := range h.Announced {
		n.announced[a.ID] = a
		n.memory.announced(&a)
	}
	n.pulse.restore(h.Heartbeat)
	n.setGauges()
	n.clock.restore(h)
	n.appliedIndex = h.Index
	n.snapshotIndex.Store(h.Index)
	n.publish()
}
