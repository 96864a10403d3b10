package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/topology"
)

// Config says what a Node works with. All but Bootstrap, Join, Peers and Log has to be given.
type Config struct {
	Cluster   string // id of the cluster
	Advertise string // raft address of this node
	Self      Announcement
	Version   string // of the program, for snapshots

	Bootstrap []topology.Member // all nodes of a cluster that begins, this one among them: ID and Raft
	Join      []string          // raft addresses of nodes to join through
	Peers     Peers             // nil: the node is by itself

	Recovery topology.Recovery // that the node belongs to, if it has data
	// Adopted is told to which recovery a node without data belongs, before it takes part. nil: nobody is.
	Adopted func(topology.Recovery) error
	// Announced is called once the announcement of this process is applied, so that Self.Line of the next one begins
	// with it. Optional.
	Announced func() error

	Async bool // replies do not wait for replication
	// Heartbeat is the silence of the leader after which followers elect another, 100 ms to 5 s in whole
	// milliseconds, until the cluster has one: that of the node which leads it first.
	Heartbeat time.Duration

	Table *buckets.Table // with a journal, and the Clock below
	Clock *Clock

	Logs       raft.LogStore
	Stable     raft.StableStore
	Snapshots  raft.SnapshotStore
	Transport  Transport
	Logger     *slog.Logger // nil: nothing is logged
	RaftLogger hclog.Logger // nil: Raft logs nothing
	// Tune changes the settings of Raft, for tests. nil: they stay.
	Tune func(*raft.Config)

	Wall func() time.Time // nil: Wall

	// Fatal is called when the node must not go on. The process has to end.
	Fatal func(error)
	// Installed is told of each snapshot that replaces the node's state, by its index. Its error
	// is given to Raft. nil: nobody is.
	Installed func(index uint64) error
	// Stuck is told how each attempt to begin to lead has gone: nil is success. nil: nobody is.
	Stuck func(error)
}

// Node is one node of a cluster. It implements limiter.Engine and topology.Cluster.
type Node struct {
	config Config
	log    *slog.Logger
	raft   *raft.Raft
	table  *buckets.Table
	clock  *logClock
	pulse  *pulse
	fsm    *fsm

	leaderships *leaderships
	view        atomic.Pointer[shownView]

	// mu is held while an entry is applied and while a leadership begins or ends.
	mu     sync.Mutex
	met    map[string]Announcement // before there was one
	failed bool                    // Fatal has been called

	memory    *memory    // of other nodes' data
	returning *returning // stands before Raft
	began     entryID    // the newest entry of the log when this process began

	changing   sync.Mutex              // held while the cluster is being changed
	leaderSeen atomic.Int64            // when, on the monotonic clock, this node last observed a leader
	refused    atomic.Pointer[refusal] // the newest of a leader; nil: none
	trips      roundTrips              // of heartbeats
	contacts   *catchUp                // progress of the followers while this node leads; nil before Raft is started
	guard      *guard                  // of what other nodes send
	strangers  *strangers

	ended   chan struct{}
	endOnce sync.Once
	giving  entrance // those within give Raft a change
	running sync.WaitGroup
}

var (
	_ limiter.Engine   = (*Node)(nil)
	_ topology.Cluster = (*Node)(nil)
)

// The errors with which a node refuses to start or to be changed.
var (
	ErrOtherCluster = errors.New("the state is that of another cluster")
	ErrMoved        = errors.New("start it under the address that the cluster has for it, or remove it and join under another id")
	ErrUsed         = errors.New("the cluster has known a node of that id with other data: an id is not used again")
)

// New returns a node that can answer questions. It takes part once it is started.
func New(c Config) *Node {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.RaftLogger == nil {
		c.RaftLogger = hclog.NewNullLogger()
	}
	if c.Installed == nil {
		c.Installed = func(uint64) error { return nil }
	}
	if c.Stuck == nil {
		c.Stuck = func(error) {}
	}
	if c.Announced == nil {
		c.Announced = func() error { return nil }
	}
	if c.Wall == nil {
		c.Wall = Wall
	}
	c.Clock.wall = c.Wall
	n := &Node{
		config: c, log: c.Logger, table: c.Table,
		clock:       &logClock{Clock: c.Clock, stable: c.Stable, log: c.Logger},
		pulse:       newPulse(c.Heartbeat),
		leaderships: newLeaderships(),
		met:         map[string]Announcement{},
		trips:       roundTrips{log: c.Logger},
		ended:       make(chan struct{}),
		memory:      newMemory(),
	}
	n.fsm = n.newFSM()
	n.returning = n.newReturning()
	first := &shownView{changed: make(chan struct{})}
	first.View = topology.View{Cluster: c.Cluster, Self: c.Self.ID, Changed: first.changed}
	n.view.Store(first)
	n.strangers = &strangers{ask: n.startInquiry, now: n.clock.monotonic, known: map[string]*stranger{}}
	n.guard = &guard{view: n.View, strangers: n.strangers, log: n.log, reported: map[error]time.Time{}}
	return n
}

// Start makes the node take part: it decides once it leads. A node without data waits until it may, or
// for ctx to end: where a cluster is to begin for all its nodes, and else for a leader that
// takes it in. The error wraps ErrUsed if the cluster has known it with other data.
func (n *Node) Start(ctx context.Context) error {
	known, err := raft.HasExistingState(n.config.Logs, n.config.Stable, n.config.Snapshots)
	if err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	n.fsm.setGauges()
	begins := !known && len(n.config.Bootstrap) > 0
	if !known {
		n.returning.skip()
	}
	switch {
	case begins:
		err = n.meet(ctx)
	case !known && len(n.config.Join) > 0:
		err = n.enter(ctx)
	}
	if err != nil {
		return err
	}
	if err := n.startRaft(begins); err != nil {
		return err
	}
	n.observe()
	n.running.Go(func() { n.clock.keepOffset(n.ended) })
	n.running.Go(n.runLeaderLoop)
	n.running.Go(n.keepShort)
	n.running.Go(n.keepMemory)
	n.running.Go(n.askAll)
	if n.config.Peers != nil {
		n.running.Go(n.watchLeader)
		n.running.Go(n.introduce)
		n.running.Go(n.keepHeartbeat)
		n.running.Go(n.superviseHeartbeat)
	}
	return nil
}

// begun reports whether the node takes part.
func (n *Node) begun() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.raft != nil
}

// settings are those of Raft.
func (n *Node) settings() *raft.Config {
	s := raft.DefaultConfig()
	s.LocalID = raft.ServerID(n.config.Self.ID)
	s.HeartbeatTimeout, s.ElectionTimeout = n.heartbeat(), n.heartbeat()
	s.LeaderLeaseTimeout = leaseOf(n.heartbeat())
	s.CommitTimeout = 20 * time.Millisecond // tells idle followers what is committed
	s.MaxAppendEntries = 32                 // of up to megabytes each
	s.BatchApplyCh = true                   // the flusher bounds what is on its way
	s.ShutdownOnRemove = false              // see Close
	s.SnapshotInterval, s.SnapshotThreshold = 30*time.Second, 50_000
	s.TrailingLogs = 200_000 // longer than a snapshot takes to be sent, and back to the one before
	s.NotifyCh = n.leaderships.notify
	s.NoLegacyTelemetry = true
	s.Logger = n.config.RaftLogger
	if n.config.Tune != nil {
		n.config.Tune(s)
	}
	return s
}

// startRaft starts Raft. A cluster begins before that: other nodes may be further, and Raft would
// not begin any more once one of them has sent it something.
func (n *Node) startRaft(begins bool) error {
	if begins {
		if err := n.bootstrap(); err != nil {
			return fmt.Errorf("begin the cluster: %w", err)
		}
	}
	last, err := n.config.Logs.LastIndex()
	if err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	n.clock.begin(last, n.knownTerm())
	if err := n.pulse.load(n.config.Stable); err != nil {
		return err
	}
	if n.began, err = n.lastEntry(); err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	if err := n.memory.load(n.config.Stable); err != nil {
		return err
	}
	c := &n.config
	n.contacts = n.newCatchUp(n.returning)
	if t, ok := c.Transport.(acknowledging); ok {
		t.Acknowledged(n.contacts.acknowledged)
	}
	logs := n.clock.observe(compactedLog{c.Logs})
	r, err := raft.NewRaft(n.settings(), n.fsm, logs, c.Stable, c.Snapshots, n.contacts)
	if err != nil {
		return fmt.Errorf("start raft: %w", err)
	}
	if err := n.checkAddress(r.GetConfiguration().Configuration()); err != nil {
		return errors.Join(err, r.Shutdown().Error())
	}
	n.mu.Lock()
	n.raft = r
	n.mu.Unlock()
	n.guard.raft.Store(r)
	return nil
}

// checkAddress refuses to take part under another address than the cluster has for this node by its log: nobody
// would reach it, and it could only ask to be elected, for ever.
func (n *Node) checkAddress(c raft.Configuration) error {
	for _, s := range c.Servers {
		if at := string(s.Address); n.config.Peers != nil && string(s.ID) == n.config.Self.ID && !strings.EqualFold(at, n.config.Advertise) {
			return fmt.Errorf("this node, %s, advertises %s, and the cluster has %s for it: %w", s.ID, n.config.Advertise, at, ErrMoved)
		}
	}
	return nil
}

// knownTerm returns the newest term that Raft has noted; 0 if it has noted none, or that cannot be read,
// which Raft finds out by itself.
func (n *Node) knownTerm() uint64 {
	term, err := n.config.Stable.GetUint64([]byte("CurrentTerm"))
	if err != nil {
		return 0
	}
	return term
}

func (n *Node) bootstrap() error {
	c := &n.config
	return raft.BootstrapCluster(n.settings(), c.Logs, c.Stable, c.Snapshots, c.Transport, firstConfiguration(c.Bootstrap))
}

func firstConfiguration(members []topology.Member) (c raft.Configuration) {
	for _, m := range members {
		c.Servers = append(c.Servers, raft.Server{Suffrage: raft.Voter, ID: raft.ServerID(m.ID), Address: raft.ServerAddress(m.Raft)})
	}
	return c
}

// Close ends the node. What waits is answered with limiter.ErrUncertain. HandOver comes first
// where others are to go on at once.
//
// Raft ends last: what is on its way through it when it is shut down, it never answers.
func (n *Node) Close() error {
	n.endOnce.Do(func() { close(n.ended) })
	n.giving.close()
	n.stepDown()
	n.running.Wait()
	if !n.begun() {
		return nil
	}
	if err := n.raft.Shutdown().Error(); err != nil {
		return fmt.Errorf("stop raft: %w", err)
	}
	return nil
}

// fatal stops the process. n.mu is held.
func (n *Node) fatal(err error) {
	if !n.failed {
		n.failed = true
		n.config.Fatal(err)
	}
}

func (n *Node) hasFailed() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.failed
}

// lastEntry returns the newest entry of the log, or of a snapshot if that is newer.
func (n *Node) lastEntry() (last entryID, err error) {
	snapshots, err := n.config.Snapshots.List()
	if err != nil {
		return last, err
	}
	for _, s := range snapshots {
		if s.Index > last.Index {
			last = entryID{s.Index, s.Term}
		}
	}
	index, err := n.config.Logs.LastIndex()
	if err != nil || index <= last.Index {
		return last, err
	}
	var log raft.Log
	err = n.config.Logs.GetLog(index, &log)
	return entryID{log.Index, log.Term}, err
}
