package cluster

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/internal/failpoint"
)

// fsm is the replicated state of a node. Raft calls it to apply committed entries, and to write and restore snapshots.
type fsm struct {
	config *Config
	node   host
	table  *buckets.Table
	clock  *logClock
	pulse  *pulse
	memory *memory
	ended  <-chan struct{} // closed when the node is

	mu           *sync.Mutex             // Node.mu; held while an entry is applied
	announced    map[string]Announcement // by the log
	appliedIndex uint64

	snapshotIndex atomic.Uint64 // of the newest snapshot
	restores      atomic.Uint64 // snapshots restored
	grown         atomic.Int64  // bytes of entries applied since the last snapshot that keepShort has asked for
}

// host is the node of an fsm. Its methods are called with Node.mu held.
type host interface {
	// acknowledge commits the generation of an entry if it was submitted by the present leadership of this node, and
	// reports whether it was. It ends a leadership that an entry of another term shows to be over.
	acknowledge(log *raft.Log, c *changes) (own bool, err error)
	// follow ends the leadership of this node, if there is one.
	follow()
	// isFresh reports whether an entry was decided while this process was running.
	isFresh(log *raft.Log) bool
	// noteLeader records that the leader which has sent an entry has it in its log.
	noteLeader(log *raft.Log)
	// publish makes a new view if the members, or their announcements, have changed.
	publish()
	// fatal stops the process.
	fatal(err error)
}

func (n *Node) newFSM() *fsm {
	return &fsm{
		config: &n.config, node: n, table: n.table, clock: n.clock, pulse: n.pulse, memory: n.memory, ended: n.ended,
		mu: &n.mu, announced: map[string]Announcement{},
	}
}

// FSM returns the state machine of the node, to apply entries to it without Raft.
func (n *Node) FSM() raft.FSM { return n.fsm }

var (
	_ raft.FSM                = (*fsm)(nil)
	_ raft.ConfigurationStore = (*fsm)(nil)
)

// Apply applies a committed entry. It stops the process if the entry cannot be read: without it this node would decide
// on another state than the others.
func (f *fsm) Apply(log *raft.Log) any {
	f.mu.Lock()
	defer f.mu.Unlock()
	came := f.clock.cameIn(log)
	if err := f.apply(log, came); err != nil {
		f.node.fatal(fmt.Errorf("apply entry %d: %w", log.Index, err))
		return err
	}
	f.appliedIndex = log.Index
	f.node.noteLeader(log)
	f.grown.Add(int64(len(log.Data)))
	return nil
}

// apply applies an entry that came in at a time of the monotonic clock.
func (f *fsm) apply(log *raft.Log, came time.Duration) error {
	if len(log.Data) == 0 {
		return fmt.Errorf("it is empty: %w", errEntry)
	}
	switch log.Data[0] {
	case changesEntry:
		c, err := parseChanges(log.Data)
		if err != nil {
			return err
		}
		return f.applyChanges(log, &c, came)
	case settingsEntry:
		s, err := parseSettings(log.Data)
		if err != nil {
			return err
		}
		f.applySettings(log, s)
		return nil
	case memberEntry:
		a, err := parseAnnouncement(log.Data)
		if err != nil {
			return err
		}
		return f.applyAnnouncement(&a)
	}
	return fmt.Errorf("kind %d: %w", log.Data[0], errEntry)
}

// applySettings applies settings, which are void in another term than the one in which they were proposed.
func (f *fsm) applySettings(log *raft.Log, s settings) {
	if s.Term == log.Term || failpoint.Is(failpoint.AnyTerm) {
		f.pulse.apply(log.Index, s)
		f.setGauges()
	}
}

// applyAnnouncement applies the announcement of a node, unless it is void, which it is on all nodes alike.
func (f *fsm) applyAnnouncement(a *Announcement) error {
	known := f.announced[a.ID]
	if known.Incarnation != "" && known.Incarnation != a.Incarnation {
		return nil // two nodes have joined under one id concurrently: the first is accepted
	}
	if (remembered{Boot: known.Boot, Process: known.Process}).outdates(a) {
		return nil // it is from an old copy of the data, or from an older version
	}
	f.announced[a.ID] = a.kept()
	f.memory.announced(a)
	f.node.publish()
	return f.checkSelf()
}

// applyChanges commits a generation of this node's own that is in flight, and applies any other to the table.
//
// An entry that was decided under an older term than the one in which it got into the log is
// void, on all nodes alike: it was decided without knowing what came between.
func (f *fsm) applyChanges(log *raft.Log, c *changes, came time.Duration) error {
	if own, err := f.node.acknowledge(log, c); own || err != nil {
		return err
	}
	if log.Term != c.term && !failpoint.Is(failpoint.AnyTerm) {
		return nil
	}
	if err := f.table.Replay(c.data, f.clock.replayTime(c)); err != nil {
		return err
	}
	f.clock.note(c, came, f.node.isFresh(log))
	return nil
}

// StoreConfiguration publishes the members of the cluster.
func (f *fsm) StoreConfiguration(uint64, raft.Configuration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.node.publish()
}

// checkSelf returns an error if the cluster knows this node with other or newer data. f.mu is held.
func (f *fsm) checkSelf() error {
	self, known := f.config.Self, f.announced[f.config.Self.ID]
	switch {
	case known.Incarnation == "" || self.Incarnation == "":
	case known.Incarnation != self.Incarnation:
		return fmt.Errorf("%s: %w", self.ID, ErrUsed)
	case self.Boot > 0 && (remembered{Boot: known.Boot, Process: known.Process}).outdates(&self):
		return fmt.Errorf("%s was started with boot number %d elsewhere, and here with boot number %d: %w", self.ID, known.Boot, self.Boot, ErrStale)
	}
	return nil
}

// setGauges makes the table store gauges once the cluster has a heartbeat: every voter has then answered a
// question about heartbeats, and the versions that cannot read gauges cannot answer it. A node without peers
// stores them from the beginning.
func (f *fsm) setGauges() {
	f.table.SetGauges(f.config.Peers == nil || f.pulse.known().Version > 0)
}
