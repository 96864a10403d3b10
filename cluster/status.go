package cluster

import (
	"time"

	"github.com/throttledhq/throttled/topology"
)

// Status returns the replication counters of the node.
func (n *Node) Status() topology.Status {
	s := topology.Status{Mode: "sync"}
	if n.async {
		s.Mode = "async"
	}
	if !n.raft.started() {
		return s
	}
	s.Last, s.Committed, s.Applied = n.raft.LastIndex(), n.raft.CommitIndex(), n.raft.AppliedIndex()
	s.LogTime = n.clock.Now()
	s.Behind = time.Duration(n.config.Wall().UnixNano() - int64(s.LogTime))
	s.Entries, s.Changes = n.leaderships.submitted.entries.Load(), n.leaderships.submitted.bytes.Load()
	s.Rollbacks = n.leaderships.rollbacks.Load()
	s.Snapshot = n.fsm.snapshotIndex.Load()
	s.RoundTrips = n.leader.tracker.roundTrips.status()
	s.Heartbeat = n.setting.shown()
	s.Settled = n.standalone || n.setting.replicated().settled()
	l := n.leaderships.current()
	if n.async && !n.standalone && (l == nil || !l.lease.offered.Load()) {
		s.MayLose = n.setting.leaseTime()
	}
	if l != nil {
		s.Waiting, s.Unflushed = l.flights.oldest(n.clock.monotonic())
		s.Followers = n.leader.followers()
	} else if last := n.raft.LastContact(); !last.IsZero() {
		s.Contact = time.Since(last)
	}
	return s
}

// CommitStats returns the statistics of the entries that this node has submitted as the leader.
func (n *Node) CommitStats() CommitStats { return n.leaderships.submitted.stats() }

// Fingerprint returns the fingerprint of the state. It blocks the application of entries for about 50 ms per million
// keys.
func (n *Node) Fingerprint() topology.Fingerprint { return n.fsm.fingerprint() }

// View returns the current view of the cluster.
func (n *Node) View() *topology.View { return n.observer.View() }

// NodeAt returns the id of the member with the raft address addr, or "" if there is none.
func (n *Node) NodeAt(addr string) string { return idAt(n.View(), addr) }
