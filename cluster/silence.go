package cluster

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/hashicorp/raft"
)

// listen has Raft look whether the leader is silent, where another node has asked for a pre-vote. By itself
// Raft looks again only after another one to two heartbeats, and until then this node refuses
// the other, which then waits as long.
//
// Of many nodes each waits a little, so that not all of them want to lead at once.
func (n *Node) listen() {
	if voters := len(n.voters()); voters <= 3 {
		n.look()
		return
	}
	n.running.Go(func() {
		if n.wait(context.Background(), rand.N(n.heartbeat()/2)) == nil {
			n.look()
		}
	})
}

// look makes Raft look, if it has followed a leader and has heard nothing for as long as it takes.
//
// Raft looks when it is told of a shorter timeout, so it is told of one that is a nanosecond shorter, and
// of the old one before that.
func (n *Node) look() {
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
