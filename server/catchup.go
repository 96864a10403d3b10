package server

import (
	"sync/atomic"

	"github.com/throttledhq/throttled/topology"
)

// catchUp reports when a node has applied the log that it had when it first had a leader. Before, a restarted node may
// have no rules, or rules that are older than its own log.
type catchUp struct {
	target atomic.Uint64 // index of an entry; 0 until the cluster has a leader
	done   atomic.Bool
}

// reached reports whether the node has caught up. It is called when a leader is known. Once true, it stays true.
func (c *catchUp) reached(status func() topology.Status) bool {
	if c.done.Load() {
		return true
	}
	s := status()
	if s.Last == 0 { // a new node, to which the leader has not sent anything yet
		return false
	}
	c.target.CompareAndSwap(0, max(s.Last, s.Committed))
	if s.Applied < min(c.target.Load(), s.Last) { // the leader may have removed uncommitted entries at the end of the log
		return false
	}
	c.done.Store(true)
	return true
}
