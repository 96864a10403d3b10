package cluster

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/internal/failpoint"
	"github.com/throttledhq/throttled/topology"
)

// fsm is the state machine of a node. Raft calls it to apply committed entries, and to write and restore snapshots.
type fsm struct {
	config    *Config
	raft      *raftHandle
	leader    *leader
	view      *observer
	keeper    *recordKeeper
	table     *buckets.Table
	clock     *logClock
	setting   *heartbeatSetting
	announced *announcements
	rules     rulesState
	users     usersState
	failure   *failure
	ended     <-chan struct{} // closed when the node is closed
	fsmCounters

	// state guards the applied state. It is held while an entry is applied, while a leadership begins or ends, and
	// while a view is created.
	state        *sync.Mutex
	appliedIndex uint64
}

// fsmCounters are counters that are read without holding fsm.state.
type fsmCounters struct {
	snapshotIndex atomic.Uint64 // index of the newest snapshot
	restores      atomic.Uint64 // number of snapshots restored
	grown         atomic.Int64  // bytes of entries applied since the last snapshot of the compactor
}

var (
	_ raft.FSM                = (*fsm)(nil)
	_ raft.ConfigurationStore = (*fsm)(nil)
)

// Apply applies a committed entry. The process exits if the entry cannot be applied, because the state of this node
// would then differ from that of the other nodes. The result is the number of the newest version of the users, see
// usersProposals.append.
func (f *fsm) Apply(log *raft.Log) any {
	f.state.Lock()
	defer f.state.Unlock()
	arrival := f.clock.arrivalOf(log)
	if err := f.apply(log, arrival); err != nil {
		f.failure.fail(fmt.Errorf("apply entry %d: %w", log.Index, err))
		return err
	}
	f.appliedIndex = log.Index
	f.users.reached(log.Index)
	f.keeper.recordLeader(log)
	f.grown.Add(int64(len(log.Data)))
	return f.users.Number
}

// apply applies an entry. arrival is its arrival time on the monotonic clock.
func (f *fsm) apply(log *raft.Log, arrival time.Duration) error {
	if len(log.Data) == 0 {
		return fmt.Errorf("the entry is empty: %w", errEntry)
	}
	switch log.Data[0] {
	case changesEntry:
		c, err := parseChanges(log.Data)
		if err != nil {
			return err
		}
		return f.applyChanges(log, &c, arrival)
	case settingsEntry:
		s, err := parseSettings(log.Data)
		if err != nil {
			return err
		}
		f.applySettings(log, s)
		return nil
	case rulesChunkEntry, rulesVersionEntry:
		return f.applyRules(log)
	case usersEntry:
		return f.users.apply(log)
	case memberEntry:
		a, err := parseAnnouncement(log.Data)
		if err != nil {
			return err
		}
		return f.applyAnnouncement(&a)
	}
	return fmt.Errorf("kind %d: %w", log.Data[0], errEntry)
}

// applySettings applies settings. Settings that were appended to the log in a later term than the one in which they
// were proposed are void.
func (f *fsm) applySettings(log *raft.Log, s settings) {
	if s.Term == log.Term || failpoint.Is(failpoint.AnyTerm) {
		f.setting.apply(log.Index, s)
		f.setFeatures()
	}
}

// applyRules applies an entry of the rules.
func (f *fsm) applyRules(log *raft.Log) error {
	if log.Data[0] == rulesChunkEntry {
		c, err := parseRulesChunk(log.Data)
		if err == nil {
			f.rules.applyChunk(log, &c)
		}
		return err
	}
	v, err := parseRulesVersion(log.Data)
	if err == nil {
		f.rules.applyVersion(log, &v)
	}
	return err
}

// applyAnnouncement applies the announcement of a node, unless it contradicts an earlier announcement of that node.
// Only announcements from the log are compared, so the result is the same on all nodes.
func (f *fsm) applyAnnouncement(a *Announcement) error {
	known := f.announced.of(a.ID)
	if known.Incarnation != "" && known.Incarnation != a.Incarnation {
		return nil // two nodes have joined under the same id concurrently; the first one is accepted
	}
	if (nodeRecord{Boot: known.Boot, Process: known.Process}).outdates(a) {
		return nil // from an old copy of the data, or from an older version of the program
	}
	f.announced.set(a.stored())
	f.keeper.records.announced(a)
	f.view.publish()
	return f.checkSelf()
}

// applyChanges applies an entry with changes. If the entry contains a generation that this node has in flight, the
// changes are already in the table, and applyChanges commits the generation. Otherwise it applies the changes to the
// table.
//
// An entry is void on all nodes if it was decided in one term and appended to the log in a later one: other leaders may
// have appended earlier entries that its decisions do not take into account.
func (f *fsm) applyChanges(log *raft.Log, c *changes, arrival time.Duration) error {
	if own, err := f.leader.acknowledge(log, c); own || err != nil {
		return err
	}
	if log.Term != c.term && !failpoint.Is(failpoint.AnyTerm) {
		return nil
	}
	if err := f.table.Replay(c.data, f.clock.replayTime(c)); err != nil {
		return err
	}
	f.clock.record(c, arrival, f.isFresh(log))
	return nil
}

// isFresh reports whether an entry was decided while this process was running.
func (f *fsm) isFresh(log *raft.Log) bool {
	return f.raft.started() && f.clock.isFresh(log, f.raft.CurrentTerm())
}

// StoreConfiguration publishes a view with the new members of the cluster.
func (f *fsm) StoreConfiguration(uint64, raft.Configuration) { f.view.refresh() }

// checkSelf returns an error if the id of this node was announced with a different data directory, or if the
// announcement shows that the data of this node is an old copy.
func (f *fsm) checkSelf() error {
	self, known := f.config.Self, f.announced.of(f.config.Self.ID)
	switch {
	case known.Incarnation == "" || self.Incarnation == "":
	case known.Incarnation != self.Incarnation:
		return fmt.Errorf("%s: %w", self.ID, ErrUsed)
	case self.Boot > 0 && (nodeRecord{Boot: known.Boot, Process: known.Process}).outdates(&self):
		return fmt.Errorf("another process of %s was announced with boot number %d, and this process has boot number %d: %w", self.ID, known.Boot, self.Boot, ErrStale)
	}
	return nil
}

// setFeatures makes the table store gauges (see package buckets) if the cluster has a replicated heartbeat or this node
// is standalone. A heartbeat is proposed only after all voters have answered a question about it. Versions of the
// program that cannot read gauges cannot answer that question, so a replicated heartbeat shows that all voters can
// read gauges. The table stores leases in the format that all voters can read according to an entry, or in any format if this
// node is standalone.
func (f *fsm) setFeatures() {
	f.table.SetGauges(f.config.Peers == nil || f.setting.replicated().Version > 0)
	leases := buckets.LatestLeases
	if f.config.Peers != nil {
		leases = min(leases, f.setting.leases())
	}
	f.table.SetLeases(leases)
}

// heartbeat returns the replicated heartbeat, and the index of the newest applied entry.
func (f *fsm) heartbeat() (h heartbeats, applied uint64) {
	f.state.Lock()
	defer f.state.Unlock()
	return f.setting.replicated(), f.appliedIndex
}

// newestUsers returns the newest applied version of the users. It returns false until this node has applied the entries
// that the previous process had applied when it stored a version.
func (f *fsm) newestUsers() (v usersVersion, known bool) {
	f.state.Lock()
	defer f.state.Unlock()
	return f.users.usersVersion, f.users.behind == 0
}

// fingerprint returns the fingerprint of the state. It blocks the application of entries for about 50 ms per million
// keys.
func (f *fsm) fingerprint() topology.Fingerprint {
	f.state.Lock()
	defer f.state.Unlock()
	p := topology.Fingerprint{Index: f.appliedIndex, LogTime: f.clock.lastApplied()}
	p.Sum, p.Keys = f.table.Hash(p.LogTime)
	p.Sum ^= f.rules.sum() ^ f.users.sum()
	return p
}
