package cluster

import (
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/cluster/raftstore"
)

// ErrStale says that another node knows the data of this one to be an old copy.
var ErrStale = raftstore.ErrStale

// staleError is how the data of a node is out of date. It is ErrStale, whose remedy is left to the node itself.
type staleError string

func (e staleError) Error() string   { return string(e) }
func (staleError) Is(err error) bool { return err == ErrStale }

// remembered is what a node remembers of another one. A copy of that node's data directory is found out by it.
type remembered struct {
	Boot    uint64 `json:"boot"`    // the highest with which the node was announced or has come back
	Process string `json:"process"` // of that start
	// Announced is the highest boot number of an announcement.
	Announced uint64 `json:"announced,omitempty"`
	// Held is the index of the newest entry that was committed and that the node is known to have had in its log. It can
	// never lack that again.
	Held uint64 `json:"held"`
}

// outdates reports whether a process has been started with the data of a node that the data of the process which
// announces a lacks.
func (r remembered) outdates(a *Announcement) bool {
	return a.Boot < r.Boot || a.Boot == r.Boot && r.Process != "" && a.Process != r.Process || a.Line.Denies(a.Boot, r.Boot, r.Process)
}

// check returns how the data of a node that comes back is out of date: last is the newest entry of its log, and
// heldTerm the term of the entry that it had; 0: unknown.
func (r remembered) check(a *Announcement, last entryID, heldTerm uint64) error {
	switch {
	case r.outdates(a):
		return r.outdated(a)
	case last.Index < r.Held || last.Term < heldTerm:
		return staleError(fmt.Sprintf("the log of %s ends with entry %d of term %d, and it had acknowledged entry %d of term %d", a.ID, last.Index, last.Term, r.Held, heldTerm))
	}
	return nil
}

// outdated is the error for a process that is outdated.
func (r remembered) outdated(a *Announcement) error {
	if a.Boot > r.Boot {
		return staleError(fmt.Sprintf("%s was started with boot number %d, and its data lacks that start", a.ID, r.Boot))
	}
	return staleError(fmt.Sprintf("%s was started with boot number %d, and then with boot number %d, by another process", a.ID, r.Boot, a.Boot))
}

// entryID names an entry of the log.
type entryID struct {
	Index uint64 `json:"index"`
	Term  uint64 `json:"term"`
}

// memory is what a node remembers of all others, across its own restarts, too.
type memory struct {
	mu    sync.Mutex
	nodes map[string]remembered
	acked map[string]entryID // by this node's own log in that term; not all of it may be committed
	moved bool               // since it was written, of what is not written at once
	dirty bool               // of what is

	saving mutex // held while the memory is written, so that the last write has the newest state
}

func newMemory() *memory {
	return &memory{nodes: map[string]remembered{}, acked: map[string]entryID{}, saving: newMutex()}
}

// of returns what is remembered of a node.
func (m *memory) of(id string) remembered {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.nodes[id]
}

// announced notes the start of a node whose announcement is committed. Of two processes with one boot number it is the
// right one, whichever has come back here.
func (m *memory) announced(a *Announcement) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.nodes[a.ID]
	if a.Boot > r.Boot || a.Boot == r.Boot && a.Process != r.Process {
		m.startedLocked(a)
	}
	if a.Boot > r.Announced {
		r = m.nodes[a.ID]
		r.Announced = a.Boot
		m.nodes[a.ID] = r
		m.dirty = true
	}
}

// returned records the start of a returning node. It returns a staleError if the data of the node is out of date.
func (m *memory) returned(a *Announcement) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.nodes[a.ID]
	if r.outdates(a) {
		return r.outdated(a)
	}
	if a.Boot > r.Boot {
		m.startedLocked(a)
	}
	return nil
}

func (m *memory) startedLocked(a *Announcement) {
	r := m.nodes[a.ID]
	r.Boot, r.Process = a.Boot, a.Process
	m.nodes[a.ID] = r
	m.dirty = true
}

// acknowledged notes up to which entry a node has the log of this one, which leads in a term.
func (m *memory) acknowledged(id string, term, index uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if old := m.acked[id]; term > old.Term || term == old.Term && index > old.Index {
		m.acked[id] = entryID{index, term}
	}
}

// committed notes that entries up to an index are committed, by this node, which leads in a term. What others have
// acknowledged of them stays in their logs for good; of the rest an end may have to be given up again.
func (m *memory) committed(term, index uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, a := range m.acked {
		if a.Term == term {
			m.holdsLocked(id, min(a.Index, index))
		}
	}
}

// holds notes that a node has a committed entry in its log.
func (m *memory) holds(id string, index uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.holdsLocked(id, index)
}

func (m *memory) holdsLocked(id string, index uint64) {
	if r := m.nodes[id]; index > r.Held {
		r.Held = index
		m.nodes[id] = r
		m.moved = true
	}
}

var rememberedKey = []byte(raftstore.RememberedKey)

// load reads what the process before has written.
func (m *memory) load(from raft.StableStore) error {
	b, err := from.Get(rememberedKey)
	if err != nil && err.Error() != "not found" { // Raft knows that error by its text, too
		return fmt.Errorf("read the memory of other nodes: %w", err)
	}
	if len(b) == 0 { // as after a recovery
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := json.Unmarshal(b, &m.nodes); err != nil {
		return fmt.Errorf("read the memory of other nodes: %w", err)
	}
	if m.nodes == nil {
		m.nodes = map[string]remembered{}
	}
	return nil
}

// save writes the memory if it has changed since it was written. A change of Held, which is frequent, counts only if
// all is true.
func (m *memory) save(to raft.StableStore, all bool) error {
	m.saving.Lock()
	defer m.saving.Unlock()
	m.mu.Lock()
	dirty, moved, nodes := m.dirty, m.moved, maps.Clone(m.nodes)
	due := dirty || all && moved
	if due {
		m.dirty, m.moved = false, false
	}
	m.mu.Unlock()
	if !due {
		return nil
	}
	b, err := json.Marshal(nodes)
	if err == nil {
		err = to.Set(rememberedKey, b)
	}
	if err != nil {
		m.mu.Lock()
		m.dirty, m.moved = m.dirty || dirty, m.moved || moved
		m.mu.Unlock()
	}
	return err
}

const (
	rememberEvery = 100 * time.Millisecond
	saveAllEvery  = 50 // times that
)

// keepMemory notes what is committed while this node leads, and writes the memory when that is due, until the node ends.
func (n *Node) keepMemory() {
	ticker := time.NewTicker(rememberEvery)
	defer ticker.Stop()
	noted, next := false, time.Time{} // next: when to try again
	for i := 1; ; i++ {
		select {
		case <-n.ended:
			n.writeMemory(true)
			return
		case <-ticker.C:
			n.writeMemory(i%saveAllEvery == 0)
		}
		if now := time.Now(); !noted && !now.Before(next) && n.isAnnounced() {
			noted, next = n.noteAnnounced(), now.Add(reportEvery)
		}
	}
}

// noteAnnounced notes in the data directory that this process is announced, and reports whether that was possible.
func (n *Node) noteAnnounced() bool {
	if err := n.config.Announced(); err != nil {
		n.log.Warn("cannot note that this process is announced, and tries again; check the disk of the data directory", "error", err)
		return false
	}
	return true
}

func (n *Node) writeMemory(all bool) {
	n.noteCommitted()
	if err := n.memory.save(n.config.Stable, all); err != nil {
		n.log.Warn("what is remembered of other nodes is not noted", "error", err)
	}
}

// noteCommitted notes up to where entries are committed, if this node leads. It reads the term before and after: it
// leads in that one, and no other node does.
func (n *Node) noteCommitted() {
	term := n.raft.CurrentTerm()
	index := n.raft.CommitIndex()
	if n.raft.State() == raft.Leader && n.raft.CurrentTerm() == term {
		n.memory.committed(term, index)
	}
}

// noteLeader notes that the node which leads has an entry that it has sent. An entry of the present term comes from the
// leader of that term, which has it in its own log.
func (n *Node) noteLeader(log *raft.Log) {
	if n.raft == nil || n.leaderships.current() != nil || n.raft.CurrentTerm() != log.Term {
		return
	}
	if _, id := n.raft.LeaderWithID(); id != "" && string(id) != n.config.Self.ID && n.raft.CurrentTerm() == log.Term {
		n.memory.holds(string(id), log.Index)
	}
}

// checkReturn returns a staleError if a returning node must not take part. If the question asks for it, the start of the
// node is recorded on disk before the answer: the node may vote from then on, long before it is announced.
func (n *Node) checkReturn(q *Question) error {
	n.noteCommitted()
	r := n.memory.of(q.Node.ID)
	if err := r.check(q.Node, q.Last, n.termOf(r.Held)); err != nil {
		return err
	}
	if !q.Note {
		return nil
	}
	if err := n.memory.returned(q.Node); err != nil {
		return err
	}
	return n.memory.save(n.config.Stable, false)
}

// termOf returns the term of a committed entry; 0 if it is not in the log any more.
func (n *Node) termOf(index uint64) uint64 {
	var log raft.Log
	if index == 0 || index > n.raft.CommitIndex() || n.config.Logs.GetLog(index, &log) != nil {
		return 0
	}
	return log.Term
}

// Current reports whether the data of a node is as new as any that was announced, by its boot number. A later start that
// has only come back here may be that of a copy which other nodes have turned away.
func (n *Node) Current(id string, boot uint64) bool { return boot >= n.memory.of(id).Announced }
