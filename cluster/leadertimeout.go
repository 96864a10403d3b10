package cluster

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/hashicorp/raft"
)

// checkLeaderSoon makes Raft check whether the leader has timed out, after another node has asked for a pre-vote. By
// itself Raft would check again only after another one to two heartbeats. Until then this node rejects the other one,
// which then waits as long.
//
// With more than three voters each delays the check by a random time, so that not all of them become candidates at once.
func (n *Node) checkLeaderSoon() {
	if voters := len(n.voters()); voters <= 3 {
		n.checkLeader()
		return
	}
	n.running.Go(func() {
		if n.wait(context.Background(), rand.N(n.heartbeat()/2)) == nil {
			n.checkLeader()
		}
	})
}

// checkLeader makes Raft check whether the leader has timed out, if this node has followed one and has received nothing
// for a heartbeat.
//
// Raft checks when its timeout is reloaded with a shorter one, so the present timeout is reloaded, and then one that is
// shorter by a nanosecond.
func (n *Node) checkLeader() {
	leader, _ := n.raft.LeaderWithID()
	if leader == "" || n.raft.State() != raft.Follower || time.Since(n.raft.LastContact()) < n.heartbeat() {
		return
	}
	n.pulse.reloading.Lock()
	defer n.pulse.reloading.Unlock()
	for _, timeout := range []time.Duration{n.heartbeat(), n.heartbeat() - 1} {
		if err := n.reloadLocked(func(s *raft.ReloadableConfig) { s.HeartbeatTimeout = timeout }); err != nil {
			n.log.Warn("Raft does not look for the leader", "error", err)
			return
		}
	}
}
