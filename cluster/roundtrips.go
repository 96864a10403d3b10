package cluster

import (
	"log/slog"
	"sync"
	"time"

	"github.com/throttledhq/throttled/topology"
)

// roundTrips measures the round trips of the heartbeats that a node sends while it leads. A node that is short
// of processor time shows here before it loses its leadership for it.
type roundTrips struct {
	log *slog.Logger

	mu     sync.Mutex
	counts topology.RoundTrips
	warned time.Duration // when a slow one was logged last, on the monotonic clock
}

// warnEvery is the least time between two log lines about slow heartbeats.
const warnEvery = time.Minute

// note counts a heartbeat that a node has answered after a round trip. It is slow if that took more than half
// of timeout, the silence after which followers elect another leader. now is on the monotonic clock.
func (r *roundTrips) note(node string, took, timeout, now time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts.Answered++
	r.counts.Longest = max(r.counts.Longest, took)
	if took <= timeout/2 {
		return
	}
	r.counts.Slow++
	if r.warned != 0 && now-r.warned < warnEvery {
		return
	}
	r.warned = now
	r.log.Warn("a heartbeat was slow: this node, the other one or the network between them is overloaded; add processor time, or raise raft-heartbeat before leaders change",
		"node", node, "round trip", took, "raft-heartbeat", timeout)
}

func (r *roundTrips) status() topology.RoundTrips {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts
}
