package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/cluster"
	"github.com/throttledhq/throttled/cluster/raftstore"
	"github.com/throttledhq/throttled/cluster/transport"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/options"
	"github.com/throttledhq/throttled/persistence"
	"github.com/throttledhq/throttled/ruleset"
	"github.com/throttledhq/throttled/server/forward"
	"github.com/throttledhq/throttled/topology"
)

const (
	alone          = "local"                // id of a standalone node and of its cluster
	aloneHeartbeat = 20 * time.Millisecond  // short, since there is no other node to wait for
	peerTimeout    = 2 * time.Second        // timeout for a stream without progress
	peerStreams    = 3                      // idle Raft streams kept per node
	maxPeers       = 8                      // other nodes for which MaxConns is sufficient; larger clusters are not recommended
	maxPerPeer     = 2 * forward.MaxStreams // twice the streams that a node opens: it may open new streams before its old streams time out
	handOverWithin = 2 * time.Second
)

// replica replicates the state to other nodes, or makes it durable on a standalone node.
type replica struct {
	log      *slog.Logger
	dir      string
	exit     func(code int) // terminates the process
	store    *raftstore.Store
	link     *transport.Link // nil on a standalone node
	raft     *transport.RaftTransport
	node     *cluster.Node
	installs raftstore.InstallGuard
	transfer raftstore.TransferGuard
	started  atomic.Bool    // the node has been started
	serving  sync.WaitGroup // goroutines that serve other nodes
	closed   chan struct{}
	saver    *persistence.Saver // saves requested by clients; Raft takes further snapshots
}

// replicated is the state that a replica replicates.
type replicated struct {
	table *buckets.Table
	clock *cluster.Clock
	rules *ruleset.Store
	users cluster.Users // nil on a standalone node, whose users are not in the log
}

// openReplica opens the log and the port for other nodes. The node is inactive until start
// is called. Its users are those that the previous process has used.
func openReplica(o *options.Options, state replicated, log *slog.Logger) (r *replica, err error) {
	if err := finishInstallLoop(o.DataDir, log); err != nil {
		return nil, err
	}
	r = &replica{log: log, dir: o.DataDir, exit: os.Exit, closed: make(chan struct{})}
	r.saver = persistence.NewSaver(r.snapshot, log)
	if r.store, err = raftstore.Open(raftstore.Config{Dir: o.DataDir, Sync: o.RaftFsync, Fatal: r.die, Log: log}); err != nil {
		return nil, err
	}
	if err = r.build(o, state); err == nil {
		err = r.node.LoadUsers()
	}
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

// finishInstallLoop sets the log aside if noteInstall of the previous process has requested this, because the log did
// not match the leader's log.
func finishInstallLoop(dir string, log *slog.Logger) error {
	why, aside, err := raftstore.SetAsideIfRequested(dir)
	if err == nil && aside != "" {
		log.Warn("the log was set aside: set another node-id and join to add the node again", "directory", aside, "reason", why)
	}
	return err
}

// build creates the node.
func (r *replica) build(o *options.Options, state replicated) error {
	c := standaloneConfig()
	if o.ClusterID != "" {
		c = memberConfig(o)
	}
	identity, err := r.identify(o, &c)
	if err != nil {
		return err
	}
	if c.Transport, err = r.openTransport(o, identity.Boot); err != nil {
		return err
	}
	if r.link != nil {
		c.Peers = cluster.Over(r.link)
	}
	if c.Recovery, err = r.recovery(identity); err != nil {
		return err
	}
	c.Version, c.Async, c.Table, c.Clock = version, o.Replication == "async", state.table, state.clock
	c.Rules, c.Users = state.rules, state.users
	r.connect(&c)
	r.node = cluster.New(c)
	return nil
}

// standaloneConfig returns the configuration of a standalone node.
func standaloneConfig() cluster.Config {
	return cluster.Config{
		Cluster: alone, Self: cluster.Announcement{ID: alone}, Advertise: alone,
		Bootstrap: []topology.Member{{ID: alone, Raft: alone}},
		Heartbeat: aloneHeartbeat,
	}
}

// identify claims the data directory for the node, checks the directory, and increments the boot number stored in it.
// It also sets the fields of c.Self that identify the process and its data directory.
func (r *replica) identify(o *options.Options, c *cluster.Config) (identity raftstore.Identity, err error) {
	if _, _, err := r.store.Claim(c.Cluster, c.Self.ID); err != nil {
		return identity, err
	}
	if err := r.store.Check(); err != nil {
		return identity, err
	}
	if err := r.checkBegun(o); err != nil {
		return identity, err
	}
	c.Self.Process = rand.Text()
	identity, err = r.store.RecordStart(c.Self.Process)
	c.Self.Incarnation, c.Self.Boot, c.Self.Lineage = identity.Incarnation, identity.Boot, identity.Lineage
	return identity, err
}

// connect sets the store, the logs and the callbacks in the configuration of the node.
func (r *replica) connect(c *cluster.Config) {
	c.Logs, c.Stable, c.Snapshots = r.store.Logs(), r.store.Stable(), r.store.Snapshots()
	c.Logger, c.RaftLogger = r.log, raftstore.Logger(r.log)
	c.StoreRecovery, c.Announced = r.adopt, r.store.NoteAnnounced
	c.Fatal, c.Installed, c.BeginResult = r.die, r.noteInstall, r.noteStuck
}

// noCluster returns the error for a data directory without data. The path is absolute, because a relative data-dir is below dir.
func noCluster(dataDir string) error {
	if path, err := filepath.Abs(dataDir); err == nil {
		dataDir = path
	}
	return fmt.Errorf("data-dir %s has no data of a cluster: set bootstrap to create a cluster or join to join one; if this node was a member before, check data-dir and dir", dataDir)
}

// checkBegun returns an error if a cluster node has no data and neither bootstrap nor join is set. These options may be
// missing only on a restart. Without data, Raft would wait forever for the node to be added to a cluster.
func (r *replica) checkBegun(o *options.Options) error {
	if o.ClusterID == "" || len(o.Bootstrap) > 0 || len(o.Join) > 0 {
		return nil
	}
	known, err := raft.HasExistingState(r.store.Logs(), r.store.Stable(), r.store.Snapshots())
	if err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	if !known {
		return noCluster(o.DataDir)
	}
	return nil
}

// memberConfig returns the configuration of a cluster node.
func memberConfig(o *options.Options) cluster.Config {
	c := cluster.Config{
		Cluster: o.ClusterID, Advertise: o.AdvertisedRaft(), Join: o.Join, Heartbeat: o.RaftHeartbeat,
		Self: cluster.Announcement{
			ID: o.NodeID, Host: o.AnnounceHost, Port: o.Port, ClusterPort: o.ClusterPort, SentinelPort: o.SentinelPort,
			LeaderPort: o.ServedLeaderPort(),
			TLS: topology.Ports{
				Redis: o.TLSPort, Cluster: o.TLSClusterPort, Sentinel: o.TLSSentinelPort, Leader: o.ServedTLSLeaderPort(),
			},
		},
	}
	if c.Self.Host == "" {
		c.Self.Host, _, _ = net.SplitHostPort(o.AdvertisedRaft()) // validated by options
	}
	for _, m := range o.Bootstrap {
		c.Bootstrap = append(c.Bootstrap, topology.Member{ID: m.ID, Raft: m.Addr})
	}
	return c
}

// openTransport opens the port for other nodes. On a standalone node it returns an in-memory transport.
func (r *replica) openTransport(o *options.Options, boot uint64) (cluster.Transport, error) {
	if o.ClusterID == "" {
		_, t := raft.NewInmemTransport(alone)
		return t, nil
	}
	var err error
	r.link, err = transport.Listen(transport.Config{
		Cluster: o.ClusterID, Node: o.NodeID, Boot: boot, Bind: o.RaftAddr, Advertise: o.RaftAdvertise,
		Insecure: o.RaftInsecure, CertFile: o.RaftTLSCert, KeyFile: o.RaftTLSKey, CAFile: o.RaftTLSCA, RevokedFile: o.RaftTLSRevoked,
		MaxPerPeer: maxPerPeer, MaxConns: maxPeers * maxPerPeer, Log: r.log,
	})
	if errors.Is(err, transport.ErrFiles) || errors.Is(err, transport.ErrInsecure) {
		err = &usageError{err}
	}
	if err != nil {
		return nil, err
	}
	r.raft = transport.NewRaftTransport(&raft.NetworkTransportConfig{
		Stream: r.link.Raft(), MaxPool: peerStreams, Timeout: peerTimeout, Logger: raftstore.Logger(r.log),
	})
	return r.raft, nil
}

// recovery returns the recovery id stored in the data directory, and sets it on the link if the node has data. A node
// without data gets its recovery id later, through adopt.
func (r *replica) recovery(i raftstore.Identity) (topology.Recovery, error) {
	known, err := raft.HasExistingState(r.store.Logs(), r.store.Stable(), r.store.Snapshots())
	if err == nil && known && r.link != nil {
		r.link.SetRecovery(i.Recovery)
	}
	return i.Recovery, err
}

// adopt stores the recovery id of a node that started without data, and sets it on the link.
func (r *replica) adopt(recovery topology.Recovery) error {
	if r.link == nil {
		return nil
	}
	err := r.store.SetRecovery(recovery)
	if err == nil {
		r.link.SetRecovery(recovery)
	}
	return err
}

// serve starts to serve requests from other nodes.
func (r *replica) serve() {
	if r.link == nil {
		return
	}
	r.link.SetAllowed(r.node.Allows)
	r.link.SetExpected(r.node.NodeAt)
	r.link.SetCurrent(r.node.Current)
	r.raft.Serve(r.node.Guard()) // no message is read from a stream that the guard rejects
	r.serving.Go(r.recheck)
	r.serving.Go(func() {
		if err := r.node.ServeControl(r.link.Streams(transport.Control)); err != nil {
			r.log.Error("control requests of other nodes are no longer answered", "error", err)
		}
	})
}

// start starts the node.
func (r *replica) start(ctx context.Context) error {
	if err := r.node.Start(ctx); err != nil {
		return err
	}
	r.started.Store(true)
	return nil
}

// recheck closes the streams of removed nodes after each change of the view of the cluster.
func (r *replica) recheck() {
	for {
		select {
		case <-r.closed:
			return
		case <-r.node.View().Changed:
			r.link.Recheck()
		}
	}
}

// die terminates the process immediately. After a fatal error the node cannot safely do anything else, and other nodes
// take over once it stops responding.
func (r *replica) die(err error) {
	if errors.Is(err, raftstore.ErrStale) {
		// A directory marked as stale cannot be used by later starts, even if no node that would reject it is running.
		why := strings.TrimSuffix(err.Error(), ": "+raftstore.ErrStale.Error())
		err = errors.Join(err, r.store.MarkStale(why))
	}
	r.log.Error("fatal error, the node stops", "error", err)
	r.exit(exitFailed)
}

// noteInstall terminates the process if the same snapshot is installed repeatedly, which means that the log does not
// match the leader's log and cannot be repaired. The log is moved aside at the next start and not immediately, because
// Raft writes to it until the process exits. The node can then join under a different id. The node's own snapshot,
// which Raft restores at startup, does not count.
func (r *replica) noteInstall(index uint64) error {
	if !r.started.Load() {
		return nil
	}
	err := r.installs.Note(index, time.Now())
	if err == nil {
		return nil
	}
	markErr := raftstore.RequestSetAside(r.dir, err.Error())
	r.die(errors.Join(fmt.Errorf("%w: its log is set aside at the next start; then set another node-id and join to add the node again", err), markErr))
	return err
}

// noteStuck records err, the result of an attempt to begin a leadership. It terminates the process if all attempts have
// failed for more than 2 s because of a leadership transfer that does not complete.
func (r *replica) noteStuck(err error) {
	if err := r.transfer.Note(err, time.Now()); err != nil {
		r.die(err)
	}
}

// handOver transfers the leadership to another node before this node stops.
func (r *replica) handOver() {
	ctx, cancel := context.WithTimeout(context.Background(), handOverWithin)
	defer cancel()
	err := r.node.HandOver(ctx)
	switch view := r.node.View(); {
	case err == nil:
	case !errors.Is(err, limiter.ErrUncertain) && !errors.Is(err, topology.ErrSilent):
		r.log.Warn("leadership was not handed over", "error", err)
	case view.Leader == "" || view.Leader == view.Self: // for example when all nodes are stopped together
		r.log.Info("leadership was not handed over: a majority of the nodes has stopped or does not respond")
	default:
		r.log.Info("leadership was not handed over: another node leads already", "node", view.Leader)
	}
}

// close closes the link, then the node, then the transport of Raft and the store. The goroutines in r.serving exit when
// r.closed or the link is closed. They use the node, so the node is closed only after they exit.
func (r *replica) close() error {
	close(r.closed)
	var errs []error
	if r.link != nil {
		errs = append(errs, r.link.Close())
	}
	r.serving.Wait()
	if r.node != nil {
		errs = append(errs, r.node.Close())
	}
	if r.raft != nil {
		errs = append(errs, r.raft.Close())
	}
	r.saver.Wait()
	return errors.Join(append(errs, r.store.Close())...)
}

// backup writes the committed state. In a cluster, the position in the log that it must contain has been awaited already.
func (r *replica) backup(w io.Writer) error {
	if r.link == nil {
		if err := r.node.Flush(); err != nil {
			return err
		}
	}
	return r.node.Backup(w)
}

// snapshot makes Raft take a snapshot of the committed state, so that Raft can truncate its log. It does nothing if the
// last snapshot contains all entries.
func (r *replica) snapshot() error {
	err := r.node.Snapshot()
	if errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return nil
	}
	return err
}
