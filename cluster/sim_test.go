package cluster

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/topology"
)

// simulate runs a test with a cluster whose nodes are started.
func simulate(t *testing.T, c simConfig, test func(*testing.T, *sim)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, c)
		defer s.close()
		s.start()
		s.leader()
		test(t, s)
	})
}

// simConfig configures a simulated cluster.
type simConfig struct {
	size       int
	async      bool
	shards     int
	memory     int64 // memory limit of each table, which evicts the keys with the smallest debts; 0: no limit
	latency    time.Duration
	slowDisk   time.Duration
	skewed     bool                     // wall clocks differ and jump
	heartbeats map[string]time.Duration // option raft-heartbeat of each node; testHeartbeat by default
	tune       func(*raft.Config)
	logger     *slog.Logger                    // used by all nodes; nil disables logging
	unexpected func(id string, err error) bool // reports whether a fatal error is unexpected; nil: all are unexpected
}

const testHeartbeat = 250 * time.Millisecond

// heartbeat returns the option raft-heartbeat of a node.
func (c *simConfig) heartbeat(id string) time.Duration {
	if d := c.heartbeats[id]; d > 0 {
		return d
	}
	return testHeartbeat
}

// sim is a simulated cluster within one process, without a network or disks.
type sim struct {
	t     testing.TB
	c     simConfig
	begun time.Time

	mu        sync.Mutex
	nodes     map[string]*simNode
	cuts      map[[2]string]bool
	entries   map[[2]uint64]entryNote // stored entries, by index and term
	committed map[uint64]uint64       // term of each committed entry
	noted     uint64                  // highest index in committed
	exactFrom map[uint64]uint64       // newest entry whose changes a snapshot may contain, by the index of the snapshot
	leads     atomic.Int64            // number of leaderships
	drawn     uint64                  // number of leases drawn
	closed    bool
	ending    sync.WaitGroup
}

func newSim(t testing.TB, c simConfig) *sim {
	s := &sim{
		t: t, c: c, begun: time.Now(),
		nodes: map[string]*simNode{}, cuts: map[[2]string]bool{},
		entries: map[[2]uint64]entryNote{}, committed: map[uint64]uint64{}, exactFrom: map[uint64]uint64{},
	}
	var members []topology.Member
	for i := range c.size {
		id := fmt.Sprintf("n%d", i+1)
		members = append(members, topology.Member{ID: id, Raft: id})
	}
	for _, m := range members {
		s.add(m.ID).bootstrap = members
	}
	return s
}

// add adds a node without starting it.
func (s *sim) add(id string) *simNode {
	n := &simNode{sim: s, id: id, incarnation: "of " + id, disk: newDisk()}
	n.disk.stored = s.noteStored
	if s.c.slowDisk > 0 {
		n.disk.slow = func() time.Duration { return rand.N(s.c.slowDisk) }
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes[id] = n
	return n
}

// start boots all nodes, and waits until they have started.
func (s *sim) start() {
	for _, n := range s.list() {
		n.boot()
	}
	for _, n := range s.list() {
		l := s.alive(n.id)
		<-l.started
		if l.err != nil {
			s.t.Fatalf("start of %s: %v", n.id, l.err)
		}
	}
}

// close stops all processes, and waits for all goroutines.
func (s *sim) close() {
	s.heal()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	for _, l := range s.processes() {
		l.crash(false)
	}
	s.ending.Wait()
}

// list returns the nodes sorted by id.
func (s *sim) list() (all []*simNode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.nodes {
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b *simNode) int {
		if len(a.id) != len(b.id) {
			return len(a.id) - len(b.id)
		}
		return slices.Compare([]byte(a.id), []byte(b.id))
	})
	return all
}

// processes returns the running processes.
func (s *sim) processes() (all []*process) {
	for _, n := range s.list() {
		if l := s.alive(n.id); l != nil {
			all = append(all, l)
		}
	}
	return all
}

// alive returns the process of a node, or nil if the node is down.
func (s *sim) alive(id string) *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.nodes[id]; n != nil {
		return n.process
	}
	return nil
}

func (s *sim) latency() time.Duration {
	if s.c.latency == 0 {
		return 0
	}
	return rand.N(s.c.latency)
}

// cut makes a link drop all messages in one direction.
func (s *sim) cut(from, to string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cuts[[2]string{from, to}] = true
}

// isolate cuts all links of a node.
func (s *sim) isolate(id string) {
	for _, n := range s.list() {
		s.cut(id, n.id)
		s.cut(n.id, id)
	}
}

func (s *sim) heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.cuts)
}

func (s *sim) isCut(from, to string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return from != to && s.cuts[[2]string{from, to}]
}

// entryNote describes an entry.
type entryNote struct {
	changes bool
	time    uint64 // log time of the entry
	wall    int64  // wall time of the leader when the entry was submitted
	void    bool
	stored  time.Time // time at which the first node stored the entry
}

// noteStored records an entry that a node has stored.
func (s *sim) noteStored(l *raft.Log) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := [2]uint64{l.Index, l.Term}
	if _, seen := s.entries[at]; seen {
		return
	}
	note := entryNote{stored: time.Now()}
	if l.Type == raft.LogCommand && l.Data[0] == changesEntry {
		c, err := parseChanges(l.Data)
		if err != nil {
			s.t.Errorf("entry %d cannot be parsed: %v", l.Index, err)
		}
		note.changes, note.time, note.wall, note.void = true, c.time, c.wall, c.term != l.Term
	}
	s.entries[at] = note
}

// noteCommitted records the entries that a leader has reported as committed.
func (s *sim) noteCommitted(l *process, index uint64) {
	s.mu.Lock()
	from := s.noted + 1
	s.noted = max(s.noted, index)
	s.mu.Unlock()
	for i := max(1, from); i <= index; i++ {
		var log raft.Log
		if l.disk.GetLog(i, &log) != nil {
			continue
		}
		s.mu.Lock()
		if term, seen := s.committed[i]; seen && term != log.Term {
			s.t.Errorf("entry %d was committed in term %d and in term %d", i, term, log.Term)
		}
		s.committed[i] = log.Term
		s.mu.Unlock()
	}
}
