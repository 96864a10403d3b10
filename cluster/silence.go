package cluster

import (
	"time"

	"github.com/hashicorp/raft"
)

// listen has Raft look at once whether the leader is silent, where another node has asked for a pre-vote and
// this one has heard nothing either for as long as it takes. By itself Raft looks again only after
// another one to two heartbeats, and until then this node refuses the other, which then waits as long.
//
// Raft looks when it is told of a shorter timeout, so it is told of one that is a nanosecond shorter, and
// of the old one before that.
func (n *Node) listen() {
	if n.raft.State() != raft.Follower || time.Since(n.raft.LastContact()) < n.config.Heartbeat {
		return
	}
	settings := n.raft.ReloadableConfig()
	for _, timeout := range []time.Duration{n.config.Heartbeat, n.config.Heartbeat - 1} {
		settings.HeartbeatTimeout = timeout
		if err := n.raft.ReloadConfig(settings); err != nil {
			n.log.Warn("Raft does not look for the leader", "error", err)
			return
		}
	}
}
