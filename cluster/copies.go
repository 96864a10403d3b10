package cluster

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/cluster/raftstore"
)

// ErrStale is wrapped by errors which report that the data of a node is an old copy.
var ErrStale = raftstore.ErrStale

// staleError describes how the data of a node is out of date. For errors.Is it equals ErrStale, but it does not contain
// the text of ErrStale, which names the remedy. The rejected node adds that text to its own error.
type staleError string

func (e staleError) Error() string   { return string(e) }
func (staleError) Is(err error) bool { return err == ErrStale }

// nodeRecord is the record that one node keeps of another node, to detect old copies of that node's data directory.
type nodeRecord struct {
	Boot    uint64 `json:"boot"`    // highest boot number that the node has announced, or has reported in a rejoin check
	Process string `json:"process"` // identifier of the process with that boot number
	// Announced is the highest boot number that was announced.
	Announced uint64 `json:"announced,omitempty"`
	// Held is the index of the newest committed entry that the log of the node is known to contain. If the
	// log lacks that entry later, the data is an old copy.
	Held uint64 `json:"held"`
}

// outdates reports whether the record contains a start of the node that the data of process a lacks.
func (r nodeRecord) outdates(a *Announcement) bool {
	return a.Boot < r.Boot || a.Boot == r.Boot && r.Process != "" && a.Process != r.Process || a.Lineage.Excludes(a.Boot, r.Boot, r.Process)
}

// check returns an error if the data of a returning node is out of date. last is the newest entry in the log of that
// node. heldTerm is the term of entry r.Held, or 0 if it is unknown.
func (r nodeRecord) check(a *Announcement, last entryID, heldTerm uint64) error {
	switch {
	case r.outdates(a):
		return r.outdated(a)
	case last.Index < r.Held || last.Term < heldTerm:
		return staleError(fmt.Sprintf("the log of %s ends with entry %d of term %d, and it had acknowledged entry %d of term %d", a.ID, last.Index, last.Term, r.Held, heldTerm))
	}
	return nil
}

// outdated returns the error for a process for which outdates returns true.
func (r nodeRecord) outdated(a *Announcement) error {
	if a.Boot > r.Boot {
		return staleError(fmt.Sprintf("%s was started with boot number %d, and its data lacks that start", a.ID, r.Boot))
	}
	return staleError(fmt.Sprintf("%s was started with boot number %d, and then with boot number %d, by another process", a.ID, r.Boot, a.Boot))
}

// nodeRecords holds the records of all other nodes. They are stored on disk.
type nodeRecords struct {
	mu    sync.Mutex
	nodes map[string]nodeRecord
	// acked contains, for each node, the index of the newest entry that the node has acknowledged to this node as the
	// leader, and the term of Raft at the time of that acknowledgment.
	acked   map[string]entryID
	changed bool // a start has been recorded since the last write
	heldNew bool // Held has changed since the last write; such changes are written less often

	saving mutex // held while the records are written, so that the last write contains the newest records
}

func newNodeRecords() *nodeRecords {
	return &nodeRecords{nodes: map[string]nodeRecord{}, acked: map[string]entryID{}, saving: newMutex()}
}

// of returns the record of a node.
func (m *nodeRecords) of(id string) nodeRecord {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.nodes[id]
}

// announced records the start in a committed announcement. If a different process with the same boot number has been
// recorded, the announced process replaces it.
func (m *nodeRecords) announced(a *Announcement) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.nodes[a.ID]
	if a.Boot > r.Boot || a.Boot == r.Boot && a.Process != r.Process {
		m.started(a)
	}
	if a.Boot > r.Announced {
		r = m.nodes[a.ID]
		r.Announced = a.Boot
		m.nodes[a.ID] = r
		m.changed = true
	}
}

// recordReturn records the start of a node that was started with data. It returns a staleError if the data is out of
// date.
func (m *nodeRecords) recordReturn(a *Announcement) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.nodes[a.ID]
	if r.outdates(a) {
		return r.outdated(a)
	}
	if a.Boot > r.Boot {
		m.started(a)
	}
	return nil
}

// started records a start. The caller must hold m.mu.
func (m *nodeRecords) started(a *Announcement) {
	r := m.nodes[a.ID]
	r.Boot, r.Process = a.Boot, a.Process
	m.nodes[a.ID] = r
	m.changed = true
}

// acknowledged records that a node has acknowledged the log of this node, the leader in the given term, up to index.
func (m *nodeRecords) acknowledged(id string, term, index uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if old := m.acked[id]; term > old.Term || term == old.Term && index > old.Index {
		m.acked[id] = entryID{index, term}
	}
}

// committed records that this node, the leader in the given term, has committed the entries up to index. Entries up
// to index that another node has acknowledged in that term stay in the log of that node. Later entries may be
// discarded.
func (m *nodeRecords) committed(term, index uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, a := range m.acked {
		if a.Term == term {
			m.hold(id, min(a.Index, index))
		}
	}
}

// holds records that the log of a node contains a committed entry.
func (m *nodeRecords) holds(id string, index uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hold(id, index)
}

// hold is like holds. The caller must hold m.mu.
func (m *nodeRecords) hold(id string, index uint64) {
	if r := m.nodes[id]; index > r.Held {
		r.Held = index
		m.nodes[id] = r
		m.heldNew = true
	}
}

var recordsKey = []byte(raftstore.RememberedKey)

// load loads the records that the previous process stored.
func (m *nodeRecords) load(from raft.StableStore) error {
	b, err := from.Get(recordsKey)
	if err != nil && err.Error() != "not found" { // hashicorp/raft compares the same text
		return fmt.Errorf("read the records of other nodes: %w", err)
	}
	if len(b) == 0 { // a recovery deletes the records
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := json.Unmarshal(b, &m.nodes); err != nil {
		return fmt.Errorf("read the records of other nodes: %w", err)
	}
	if m.nodes == nil {
		m.nodes = map[string]nodeRecord{}
	}
	return nil
}

// save writes the records if they have changed. The field Held changes often. If no other field has changed, save
// writes the records only if the argument all is true.
func (m *nodeRecords) save(to raft.StableStore, all bool) error {
	m.saving.Lock()
	defer m.saving.Unlock()
	m.mu.Lock()
	changed, heldNew, nodes := m.changed, m.heldNew, maps.Clone(m.nodes)
	due := changed || all && heldNew
	if due {
		m.changed, m.heldNew = false, false
	}
	m.mu.Unlock()
	if !due {
		return nil
	}
	b, err := json.Marshal(nodes)
	if err == nil {
		err = to.Set(recordsKey, b)
	}
	if err != nil {
		m.mu.Lock()
		m.changed, m.heldNew = m.changed || changed, m.heldNew || heldNew
		m.mu.Unlock()
	}
	return err
}

const (
	saveEvery    = 100 * time.Millisecond
	saveAllEvery = 50 // interval at which changes of Held are written, as a multiple of saveEvery
)

// recordKeeper keeps the records of other nodes up to date, and checks returning nodes against these records.
type recordKeeper struct {
	self        string
	records     *nodeRecords
	stable      raft.StableStore
	logs        raft.LogStore
	raft        *raftHandle
	leaderships *leaderships
	life        *lifetime
	log         *slog.Logger
}

// run periodically writes the records until the node is closed. On the leader, it records before each write which
// committed entries the other nodes have acknowledged.
func (k *recordKeeper) run() {
	ticker := time.NewTicker(saveEvery)
	defer ticker.Stop()
	for i := 1; ; i++ {
		select {
		case <-k.life.ended():
			k.save(true)
			return
		case <-ticker.C:
			k.save(i%saveAllEvery == 0)
		}
	}
}

func (k *recordKeeper) save(all bool) {
	k.recordCommitted()
	if err := k.records.save(k.stable, all); err != nil {
		k.log.Warn("cannot write the records of other nodes; check the disk of the data directory", "error", err)
	}
}

// recordCommitted passes the newest committed index to the records if this node is the leader. It reads the term before
// and after the index, to ensure that the index belongs to that term.
func (k *recordKeeper) recordCommitted() {
	term := k.raft.CurrentTerm()
	index := k.raft.CommitIndex()
	if k.raft.State() == raft.Leader && k.raft.CurrentTerm() == term {
		k.records.committed(term, index)
	}
}

// recordLeader records that the log of the leader contains an entry that this node has applied. An entry from the
// current term was sent by the leader of that term, so the leader's log contains it.
func (k *recordKeeper) recordLeader(log *raft.Log) {
	if !k.raft.started() || k.leaderships.current() != nil || k.raft.CurrentTerm() != log.Term {
		return
	}
	if _, id := k.raft.LeaderWithID(); id != "" && string(id) != k.self && k.raft.CurrentTerm() == log.Term {
		k.records.holds(string(id), log.Index)
	}
}

// checkReturn returns a staleError if the data of a node that was started with data is out of date. If q.RecordStart is
// set, checkReturn records the start of the node on disk before it returns, because the node may vote after the answer,
// long before it is announced.
func (k *recordKeeper) checkReturn(q *Question) error {
	k.recordCommitted()
	r := k.records.of(q.Node.ID)
	if err := r.check(q.Node, q.Last, k.termOf(r.Held)); err != nil {
		return err
	}
	if !q.RecordStart {
		return nil
	}
	if err := k.records.recordReturn(q.Node); err != nil {
		return err
	}
	return k.records.save(k.stable, false)
}

// termOf returns the term of a committed entry, or 0 if the entry is no longer in the log or is not known to be
// committed.
func (k *recordKeeper) termOf(index uint64) uint64 {
	var log raft.Log
	if index == 0 || index > k.raft.CommitIndex() || k.logs.GetLog(index, &log) != nil {
		return 0
	}
	return log.Term
}
