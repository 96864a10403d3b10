package cluster

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/topology"
)

const testHeartbeat = 250 * time.Millisecond

var verbose = flag.Bool("simlog", false, "have simulated nodes write what happens to standard error")

// simConfig says how a simulated cluster is.
type simConfig struct {
	size       int
	async      bool
	shards     int
	memory     int64 // of each table; above 0 the smallest debts are evicted
	latency    time.Duration
	slowDisk   time.Duration
	skewed     bool // wall clocks differ, and jump
	tune       func(*raft.Config)
	unexpected func(id string, err error) bool // judges what a node ends with; nil: all is unexpected
}

// sim is a cluster within one process, without a network or disks.
type sim struct {
	t     testing.TB
	c     simConfig
	begun time.Time

	mu        sync.Mutex
	nodes     map[string]*simNode
	cuts      map[[2]string]bool
	entries   map[[2]uint64]entryNote // by index and term, each that any node has stored
	committed map[uint64]uint64       // the term of each entry that is known to be committed
	noted     uint64                  // the highest of them
	fuzzy     map[uint64]uint64       // up to which entry a snapshot may hold what is newer than its index
	leads     atomic.Int64            // reigns that have begun
	closed    bool
	ending    sync.WaitGroup
}

// entryNote is what is known of an entry.
type entryNote struct {
	changes bool
	time    uint64
	void    bool
	stored  time.Time // for the first time
}

// simNode is a node of a simulated cluster: what survives its processes.
type simNode struct {
	sim         *sim
	id          string
	incarnation string
	join        []string
	bootstrap   []topology.Member
	disk        *disk
	skew        atomic.Int64 // of its wall clock, in nanoseconds
	life        *life        // nil while it is down; guarded by sim.mu
	gone        bool         // it has been told that it is removed; guarded by sim.mu
}

// life is one process of a node.
type life struct {
	*Node
	node    *simNode
	disk    *disk
	wire    *wire
	ctx     context.Context // ends with the process
	end     context.CancelFunc
	started chan struct{} // closed when Start has returned
	err     error         // of Start
	fuzzy   atomic.Uint64 // the state may be newer than the index until this entry is applied

	mu     sync.Mutex
	paused chan struct{} // closed when it goes on; nil while it runs
}

func newSim(t testing.TB, c simConfig) *sim {
	s := &sim{
		t: t, c: c, begun: time.Now(),
		nodes: map[string]*simNode{}, cuts: map[[2]string]bool{},
		entries: map[[2]uint64]entryNote{}, committed: map[uint64]uint64{}, fuzzy: map[uint64]uint64{},
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

// add makes a node, which is down.
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

// start boots all nodes, and waits until they take part.
func (s *sim) start() {
	for _, n := range s.list() {
		n.boot()
	}
	for _, n := range s.list() {
		l := s.alive(n.id)
		<-l.started
		if l.err != nil {
			s.t.Fatalf("%s: %v", n.id, l.err)
		}
	}
}

// list returns the nodes in the order of their ids.
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

// lives returns the processes that run.
func (s *sim) lives() (all []*life) {
	for _, n := range s.list() {
		if l := s.alive(n.id); l != nil {
			all = append(all, l)
		}
	}
	return all
}

// alive returns the process of a node, or nil.
func (s *sim) alive(id string) *life {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.nodes[id]; n != nil {
		return n.life
	}
	return nil
}

// boot starts a process.
func (n *simNode) boot() *life {
	l := &life{node: n, disk: n.disk, started: make(chan struct{})}
	l.ctx, l.end = context.WithCancel(context.Background())
	l.wire = newWire(l)
	clock := NewClock()
	eviction := buckets.NoEviction
	if n.sim.c.memory > 0 {
		eviction = buckets.EvictSmallestDebt
	}
	c := Config{
		Cluster: "sim", Version: "test", Advertise: n.id,
		Self:      Announcement{ID: n.id, Incarnation: n.incarnation, Host: "127.0.0.1", Port: 1},
		Bootstrap: n.bootstrap, Join: n.join, Peers: simPeers{l}, Async: n.sim.c.async, Heartbeat: testHeartbeat,
		Table: buckets.New(buckets.Config{Clock: clock.Now, Journal: true, Shards: max(1, n.sim.c.shards), MaxMemory: n.sim.c.memory, Eviction: eviction}),
		Clock: clock,
		Logs:  l.disk, Stable: l.disk, Snapshots: l.disk, Transport: l.wire,
		Wall: func() time.Time { return time.Now().Add(time.Duration(n.skew.Load())) },
		Tune: l.tune, Fatal: l.fatal, Installed: l.installed,
	}
	if *verbose {
		c.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("node", n.id)
		c.RaftLogger = hclog.New(&hclog.LoggerOptions{Name: n.id, Level: hclog.Debug})
	}
	l.Node = New(c)
	l.disk.saved = l.saved
	n.sim.mu.Lock()
	n.life = l
	n.sim.mu.Unlock()
	go func() {
		defer close(l.started)
		l.err = l.Start(l.ctx)
	}()
	return l
}

// tune has what Raft says of leadership come late, above all while the process is paused.
func (l *life) tune(s *raft.Config) {
	told := make(chan bool, cap(l.notify))
	s.NotifyCh = told
	l.node.sim.ending.Go(func() {
		for {
			select {
			case leads := <-told:
				if !l.resumed() {
					return
				}
				pass(rand.N(20 * time.Millisecond)) // it is scheduled when it is
				l.notify <- leads
			case <-l.ctx.Done():
				return
			}
		}
	})
	if l.node.sim.c.tune != nil {
		l.node.sim.c.tune(s)
	}
}

// saved notes what a snapshot may hold. Records are written while entries are applied.
func (l *life) saved(index uint64) {
	applied := l.Fingerprint().Index
	s := l.node.sim
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fuzzy[index] = max(s.fuzzy[index], applied)
}

func (l *life) installed(index uint64) error {
	s := l.node.sim
	s.mu.Lock()
	defer s.mu.Unlock()
	for of, until := range s.fuzzy {
		if of >= index { // the index of a snapshot is that of its newest entry, whatever that is about
			l.fuzzy.Store(max(l.fuzzy.Load(), until))
		}
	}
	return nil
}

// fatal is called with the node's lock held.
func (l *life) fatal(err error) {
	s := l.node.sim
	removed := errors.Is(err, ErrRemoved)
	if s.c.unexpected == nil || s.c.unexpected(l.node.id, err) {
		s.t.Errorf("%s: %v", l.node.id, err)
	}
	s.ending.Go(func() { l.crash(removed) })
}

// crash ends a process as kill -9 does. What it goes on to do until it has ended is seen by nobody.
func (l *life) crash(gone bool) {
	s := l.node.sim
	s.mu.Lock()
	if l.node.life != l {
		s.mu.Unlock()
		return
	}
	l.node.life = nil
	l.node.gone = l.node.gone || gone
	s.mu.Unlock()
	l.node.disk = l.disk.copy()
	l.end()
	l.resume()
	s.ending.Go(l.finish)
}

// finish ends what is left of a process.
func (l *life) finish() {
	<-l.started
	if err := l.Close(); err != nil {
		l.node.sim.t.Errorf("%s: %v", l.node.id, err)
	}
	l.Node.mu.Lock()
	l.node.sim.leads.Add(int64(l.reigns))
	l.Node.mu.Unlock()
}

// stop ends a process as SIGTERM does.
func (l *life) stop() {
	<-l.started
	ctx, cancel := context.WithTimeout(l.ctx, 2*time.Second)
	defer cancel()
	if err := l.HandOver(ctx); err != nil {
		l.log.Debug("leadership was not handed over", "error", err)
	}
	l.crash(false)
}

// resumed waits while the process is paused, and reports whether it is still there.
func (l *life) resumed() bool {
	l.mu.Lock()
	paused := l.paused
	l.mu.Unlock()
	if paused != nil {
		select {
		case <-paused:
		case <-l.ctx.Done():
		}
	}
	return l.ctx.Err() == nil
}

// arrives is resumed for a message, which a process that goes on reads when it gets to it.
func (l *life) arrives() bool {
	l.mu.Lock()
	paused := l.paused != nil
	l.mu.Unlock()
	if !l.resumed() {
		return false
	}
	if paused {
		pass(rand.N(20 * time.Millisecond))
	}
	return l.ctx.Err() == nil
}

// pause has the process receive nothing, send nothing, answer nobody, and not learn that it
// has lost leadership.
func (l *life) pause() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.paused == nil {
		l.paused = make(chan struct{})
	}
}

func (l *life) resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.paused != nil {
		close(l.paused)
		l.paused = nil
	}
}

func (s *sim) latency() time.Duration {
	if s.c.latency == 0 {
		return 0
	}
	return rand.N(s.c.latency)
}

// cut makes a link lose what is sent one way.
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

// noteStored notes an entry that a node has stored.
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
			s.t.Errorf("entry %d: %v", l.Index, err)
		}
		note.changes, note.time, note.void = true, c.time, c.term != l.Term
	}
	s.entries[at] = note
}

// noteCommitted notes which entries a leader has told others are committed.
func (s *sim) noteCommitted(l *life, index uint64) {
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

// leader waits for a node that decides.
func (s *sim) leader() *life {
	s.t.Helper()
	var found *life
	s.await("a node leads", 20*time.Second, func() bool {
		found = s.leading()
		return found != nil
	})
	return found
}

// leading returns a node that decides as far as it knows, or nil.
func (s *sim) leading() *life {
	for _, l := range s.lives() {
		if l.View().Leading {
			return l
		}
	}
	return nil
}

// followers returns the processes but one.
func (s *sim) followers(leader *life) []*life {
	return slices.DeleteFunc(s.lives(), func(l *life) bool { return l == leader })
}

// await waits until something is so.
func (s *sim) await(what string, within time.Duration, is func() bool) {
	s.t.Helper()
	for end := time.Now().Add(within); !is(); pass(5 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("not within %v: %s; %s", within, what, s.describe())
		}
	}
}

func (s *sim) describe() (text string) {
	for _, n := range s.list() {
		l := s.alive(n.id)
		if l == nil {
			text += n.id + " is down; "
			continue
		}
		v := l.View()
		text += fmt.Sprintf("%s: term %d, leader %q, leading %v, %+v; ", n.id, v.Term, v.Leader, v.Leading, l.Fingerprint())
	}
	return text
}

// members returns the nodes that the leader counts in.
func (s *sim) members() (all []*simNode) {
	leader := s.leader()
	for _, n := range s.list() {
		if leader.find(n.id) != nil {
			all = append(all, n)
		}
	}
	return all
}

// converge heals everything, boots all members that are down, and waits until all are in the
// same state.
func (s *sim) converge() {
	s.t.Helper()
	s.heal()
	for _, l := range s.lives() {
		l.resume()
	}
	for _, n := range s.list() {
		if s.alive(n.id) == nil && !n.gone {
			n.boot()
		}
	}
	members := s.members()
	s.await("all are in the same state", 10*time.Second, func() bool {
		var first *topology.Fingerprint
		for _, n := range members {
			l := s.alive(n.id)
			if l == nil {
				return false
			}
			f := l.Fingerprint()
			if first == nil {
				first = &f
			}
			if f != *first {
				return false
			}
		}
		return s.leading() != nil
	})
}

// close ends all processes, and waits for all that they have begun.
func (s *sim) close() {
	s.heal()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	for _, l := range s.lives() {
		l.crash(false)
	}
	s.ending.Wait()
}

// simulate runs a test in a cluster whose nodes take part.
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

// grant charges one unit, which has to be admitted.
func (s *sim) grant(l *life, key string) int64 {
	s.t.Helper()
	d, err := ask1(l.Node, key)
	if err != nil || d.Limited {
		s.t.Fatalf("%s: %s: %+v, %v", l.node.id, key, d, err)
	}
	return d.Remaining
}

// left returns what is left of a key.
func (s *sim) left(l *life, key string) int64 {
	s.t.Helper()
	d, err := charge(l.Node, key, 0)
	if err != nil {
		s.t.Fatalf("%s: %s: %v", l.node.id, key, err)
	}
	return d.Remaining
}

// newLeader waits for another node to lead than before.
func (s *sim) newLeader(before *life) (found *life) {
	s.t.Helper()
	s.await("another node leads", 10*time.Second, func() bool {
		for _, l := range s.followers(before) {
			if l.View().Leading {
				found = l
			}
		}
		return found != nil
	})
	return found
}

// lag is how far log time is behind real time at a node that leads.
func lag(l *life) time.Duration { return time.Since(time.Unix(0, int64(l.clock.Now()))) }
