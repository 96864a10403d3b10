package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/cluster/transport"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/ruleset"
	"github.com/throttledhq/throttled/topology"
)

// Config configures a Node. Cluster, Advertise, Self, Heartbeat, Table, Clock, Logs, Stable, Snapshots, Transport and
// Fatal are required. A node without data needs Bootstrap or Join, too.
type Config struct {
	Cluster   string       // id of the cluster
	Advertise string       // raft address of this node
	Self      Announcement // this node
	Version   string       // version of the program, for snapshots

	Bootstrap []topology.Member // all nodes of a new cluster, including this one; only ID and Raft are used
	Join      []string          // raft addresses of nodes to join through
	Peers     Peers             // nil on a standalone node

	Recovery topology.Recovery // recovery that is stored on a node with data
	// StoreRecovery stores the recovery of the cluster on a node without data, before the node starts Raft. Optional.
	StoreRecovery func(topology.Recovery) error
	// Announced is called after the announcement of this process has been applied. The function must record in the data
	// directory that this process was announced, so that Self.Lineage of the next process begins with this process.
	// Optional.
	Announced func() error

	Async bool // replies do not wait for replication
	// Heartbeat is the time without messages from the leader after which followers start an election: 100 ms to 5 s in
	// whole milliseconds. It is used until the cluster has a replicated heartbeat. The first leader replicates its own
	// value.
	Heartbeat time.Duration

	Rules *ruleset.Store // the replicated rules; nil means a store that only this node uses
	Users Users          // receives the replicated users; optional
	Table *buckets.Table // the replicated table; must use Clock
	Clock *Clock

	Logs       raft.LogStore
	Stable     raft.StableStore
	Snapshots  raft.SnapshotStore
	Transport  Transport
	Logger     *slog.Logger // nil disables logging
	RaftLogger hclog.Logger // nil disables logging by Raft
	// Tune changes Raft settings in tests. Optional.
	Tune func(*raft.Config)

	Wall func() time.Time // wall clock; nil means the function Wall of this package

	// Fatal is called with the first error after which the process must exit.
	Fatal func(error)
	// Installed is called with the index of each snapshot that has replaced the state. Its error is returned to Raft.
	// Optional.
	Installed func(index uint64) error
	// BeginResult is called with the result of each attempt to begin a leadership. A nil error means success. Optional.
	BeginResult func(error)
}

// setDefaults replaces nil loggers and functions with defaults.
func (c *Config) setDefaults() {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.RaftLogger == nil {
		c.RaftLogger = hclog.NewNullLogger()
	}
	if c.Installed == nil {
		c.Installed = func(uint64) error { return nil }
	}
	if c.BeginResult == nil {
		c.BeginResult = func(error) {}
	}
	if c.Announced == nil {
		c.Announced = func() error { return nil }
	}
	if c.Wall == nil {
		c.Wall = Wall
	}
	if c.Rules == nil {
		c.Rules = ruleset.NewStore()
	}
	if c.Users == nil {
		c.Users = noUsers{}
	}
}

// Node is one node of a cluster. It implements limiter.Engine and topology.Cluster. Its methods may be called
// concurrently.
type Node struct {
	*engine
	config    Config
	life      *lifetime
	raft      *raftHandle
	fsm       *fsm
	observer  *observer
	leader    *leader
	agreement *heartbeatAgreement
	members   *membership
	rules     *rulesProposals
	users     *usersProposals
	bootstrap *bootstrap
	control   *control
	access    *access
	peers     *peerClient
	rejoiner  *rejoiner
	loops     []func() // functions that Start runs in goroutines
}

var (
	_ limiter.Engine   = (*Node)(nil)
	_ limiter.Leases   = (*Node)(nil)
	_ topology.Cluster = (*Node)(nil)
	_ ruleset.Log      = (*Node)(nil)
)

// Errors returned if a node cannot start.
var (
	ErrOtherCluster = errors.New("the snapshot is from another cluster; check data-dir and cluster-id")
	ErrMoved        = errors.New("start the node with its old address, or remove it and add it under another id")
)

// Start starts Raft and the goroutines of the node. Without data, the node first bootstraps or joins a cluster: Start
// blocks until all nodes of the new cluster have answered, until a leader has added the node, or until ctx is done. The
// error wraps [ErrUsed] if the id was used with a different data directory, and [ErrRemoved] if the node was removed.
func (n *Node) Start(ctx context.Context) error {
	c := &n.config
	known, err := raft.HasExistingState(c.Logs, c.Stable, c.Snapshots)
	if err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	n.fsm.setFeatures()
	isNew := !known && len(c.Bootstrap) > 0
	if !known {
		n.access.rejoin.skip()
	}
	switch {
	case isNew:
		err = n.bootstrap.handshake(ctx)
	case !known && len(c.Join) > 0:
		var term uint64
		term, err = n.bootstrap.join(ctx)
		n.access.guard.joined.Store(term)
	}
	if err != nil {
		return err
	}
	if err := n.startRaft(isNew); err != nil {
		return err
	}
	n.observer.start()
	for _, loop := range n.loops {
		n.life.run(loop)
	}
	return nil
}

// startRaft starts Raft. If isNew is true, it bootstraps the cluster before Raft is started, because Raft cannot
// bootstrap after it has received a message from another node.
func (n *Node) startRaft(isNew bool) error {
	c := &n.config
	if isNew {
		if err := raft.BootstrapCluster(n.settings(), c.Logs, c.Stable, c.Snapshots, c.Transport, firstConfiguration(c.Bootstrap)); err != nil {
			return fmt.Errorf("bootstrap the cluster: %w", err)
		}
	}
	if err := n.load(); err != nil {
		return err
	}
	if t, ok := c.Transport.(acknowledging); ok {
		t.Acknowledged(n.access.records.acknowledged)
	}
	logs := n.clock.observe(compactedLog{c.Logs})
	r, err := raft.NewRaft(n.settings(), n.fsm, logs, c.Stable, c.Snapshots, n.leader.tracker)
	if err != nil {
		return fmt.Errorf("start raft: %w", err)
	}
	if err := c.checkAddress(r.GetConfiguration().Configuration()); err != nil {
		return errors.Join(err, r.Shutdown().Error())
	}
	n.raft.set(r)
	return nil
}

// load loads the state, other than the log, that the previous process stored.
func (n *Node) load() error {
	c := &n.config
	last, err := c.Logs.LastIndex()
	if err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	n.clock.begin(last, storedTerm(c.Stable))
	if err := n.setting.load(c.Stable); err != nil {
		return err
	}
	if n.rejoiner.last, err = lastEntry(c.Logs, c.Snapshots); err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	return n.access.records.load(c.Stable)
}

// settings returns the configuration for Raft.
func (n *Node) settings() *raft.Config {
	heartbeat := n.setting.heartbeat()
	s := raft.DefaultConfig()
	s.LocalID = raft.ServerID(n.config.Self.ID)
	s.HeartbeatTimeout, s.ElectionTimeout = heartbeat, heartbeat
	s.LeaderLeaseTimeout = leaseOf(heartbeat)
	s.CommitTimeout = 20 * time.Millisecond // interval at which idle followers receive the commit index
	s.MaxAppendEntries = 32                 // an entry can be several megabytes long
	s.BatchApplyCh = true                   // the flusher limits the number of entries in flight
	s.ShutdownOnRemove = false              // see Close
	s.SnapshotInterval, s.SnapshotThreshold = 30*time.Second, 50_000
	s.TrailingLogs = 200_000 // more entries than are added while a snapshot is sent, or between two snapshots
	s.NotifyCh = n.leaderships.notify
	s.NoLegacyTelemetry = true
	s.Logger = n.config.RaftLogger
	if n.config.Tune != nil {
		n.config.Tune(s)
	}
	return s
}

// checkAddress returns an error if the configuration in the log has a different address for this node. If the node were
// started, the other nodes could not reach it, and it would start elections forever.
func (c *Config) checkAddress(configuration raft.Configuration) error {
	for _, s := range configuration.Servers {
		if at := string(s.Address); c.Peers != nil && string(s.ID) == c.Self.ID && !strings.EqualFold(at, c.Advertise) {
			return fmt.Errorf("node %s advertises %s, but its address in the cluster is %s: %w", s.ID, c.Advertise, at, ErrMoved)
		}
	}
	return nil
}

// HandOver transfers leadership to another voter if this node is the leader. All decisions are committed first, and the
// server holds later commands for the next leader, so no command fails and no result is uncertain.
func (n *Node) HandOver(ctx context.Context) error { return n.leader.handOver(ctx, "") }

// Close closes the node. Blocked calls fail with limiter.ErrUncertain. Call HandOver first: otherwise, if this node is
// the leader, the cluster has no leader until the next election. ServeControl must have returned.
//
// Raft is shut down last, because it never completes changes that are submitted during its shutdown.
func (n *Node) Close() error {
	n.life.end()
	n.leader.stepDown()
	n.life.wait()
	if !n.raft.started() {
		return nil
	}
	if err := n.raft.Shutdown().Error(); err != nil {
		return fmt.Errorf("stop raft: %w", err)
	}
	return nil
}

// Snapshot makes Raft write a snapshot of the committed state to a file, and delete older entries.
func (n *Node) Snapshot() error { return n.raft.takeSnapshot() }

// Backup writes the committed records of this node to w, in the format of package persistence, while the node is in use. Each
// change that the node has applied before the call is included. WriteSeed makes the first snapshot of a new cluster from it.
func (n *Node) Backup(w io.Writer) error { return n.fsm.backup(w) }

// FSM returns the state machine of the node. It is used to apply entries without Raft.
func (n *Node) FSM() raft.FSM { return n.fsm }

// Guard returns the guard that transport.RaftTransport uses to check messages before Raft receives them.
func (n *Node) Guard() transport.Guard { return n.access.guard }

// Allows reports whether streams with purpose p between this node and the node with the given id are permitted.
func (n *Node) Allows(id string, p transport.Purpose) bool { return n.access.allows(id, p) }

// Current reports whether boot is at least the highest boot number that the node with the given id has announced. If
// Current returns false, a later start of that node has been announced, so the data of the process with that boot
// number is out of date.
func (n *Node) Current(id string, boot uint64) bool { return n.access.isCurrent(id, boot) }

// ServeControl answers questions from other nodes on streams accepted from ln, until ln is closed. It must return
// before Close is called. On a stream from a [transport.Link], a node may ask only about itself, except for the topics
// with the flag onBehalf.
func (n *Node) ServeControl(ln net.Listener) error { return n.control.serve(ln) }

// Reply returns the answer to a question. It does not check whether the asking node is permitted to ask.
func (n *Node) Reply(ctx context.Context, q Question) Answer { return n.control.reply(ctx, q) }

// Dial opens a stream for forwarded client commands to a node.
func (n *Node) Dial(ctx context.Context, id string) (net.Conn, error) { return n.peers.dial(ctx, id) }

// Add adds a node as a nonvoter. It must be called on the leader.
func (n *Node) Add(ctx context.Context, id, addr string) error { return n.members.Add(ctx, id, addr) }

// Remove removes a node from the cluster. It must be called on the leader. If the node is the leader itself, Remove
// first hands over leadership.
func (n *Node) Remove(ctx context.Context, id string) error { return n.members.Remove(ctx, id) }

// Transfer transfers leadership to the voter with the given id, or to the most up-to-date voter if id is empty.
func (n *Node) Transfer(ctx context.Context, id string) error { return n.members.Transfer(ctx, id) }

// SetHeartbeat sets the heartbeat of the cluster: 100 ms to 5 s in whole milliseconds. It must be called on the leader,
// and returns when the change is committed. Until all voters run with the new heartbeat, the lease is based on the
// shortest heartbeat that any voter may be using.
func (n *Node) SetHeartbeat(ctx context.Context, d time.Duration) error {
	return n.agreement.setHeartbeat(ctx, d)
}

// Propose makes a rule set the next version of the rules of all nodes. A follower sends the proposal to the leader, so
// the store of a follower may change after Propose has returned.
//
// The errors are those of [ruleset.Store.Prepare], whose type is lost if this node is a follower; topology.ErrNoLeader;
// topology.ErrNoRules, if the cluster has no rules yet and a member is down or runs a program without rules; and
// topology.ErrChanging. Another error of the leader or of the log states whether nothing was changed, or whether the
// outcome is unknown.
func (n *Node) Propose(ctx context.Context, p ruleset.Proposal) (ruleset.Result, error) {
	return n.rules.Propose(ctx, p)
}

// LoadUsers activates the version of the users that the previous process has used. It must be called before Start, and
// before clients are accepted.
func (n *Node) LoadUsers() error {
	number, err := n.users.active.load()
	n.fsm.users.behind = number
	return err
}

// ProposeUsers replaces a version of the users, base, by a text of at most [acl.MaxText] bytes on all nodes, and returns the
// number of the new version. Base 0 means that there are no users yet. The leader waits up to a second until all members
// use the new version. A member that cannot be reached within this time uses the version when it has applied the log.
//
// The error wraps topology.ErrUsersChanged if another version than base is the newest one. Then the number is that of the
// newest one. Other errors are topology.ErrNoLeader; acl.ErrTooLong; topology.ErrNoUsers, if base is 0 and a member is down
// or runs a program without users; topology.ErrUnchanged; and topology.ErrUsersUnknown.
func (n *Node) ProposeUsers(ctx context.Context, base uint64, text string) (version uint64, err error) {
	return n.users.ProposeUsers(ctx, base, text)
}
