package cluster

import (
	"log/slog"
	"sync"
	"time"

	"github.com/throttledhq/throttled/topology"
)

// roundTrips measures the round trips of heartbeats that this node sends as the leader. Slow round trips indicate a
// shortage of processor time before the node loses leadership.
type roundTrips struct {
	log *slog.Logger

	mu     sync.Mutex
	counts topology.RoundTrips
	warned time.Duration // time of the last log line, on the monotonic clock; 0 if there was none
}

// warnEvery is the minimum time between two log lines about slow heartbeats.
const warnEvery = time.Minute

// record counts a heartbeat that a node has answered. The heartbeat is slow if its round trip took longer than
// timeout/2, where timeout is the time after which followers start an election. now is a time on the monotonic clock.
func (r *roundTrips) record(node string, took, timeout, now time.Duration) {
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
		"node", node, "round_trip", took, "raft-heartbeat", timeout)
}

func (r *roundTrips) status() topology.RoundTrips {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts
}
