package cluster

import (
	"github.com/throttledhq/throttled/cluster/transport"
	"github.com/throttledhq/throttled/internal/failpoint"
)

// access decides which nodes get streams.
type access struct {
	view          *observer
	guard         *guard
	confirmations *confirmations
	rejoin        *rejoinCheck
	records       *nodeRecords
}

// allows reports whether a node may have streams of a purpose. Forwarded commands are accepted from members only: the
// leader, which runs them, knows all members. Raft messages are also accepted from a node that a known member has
// confirmed. If this node has started with data, it accepts Raft messages only from nodes that have answered whether they
// remember newer data.
func (a *access) allows(id string, p transport.Purpose) bool {
	if failpoint.Is(failpoint.AnyStream) && p == transport.Client {
		return true
	}
	if p != transport.Raft {
		return a.view.isMember(id)
	}
	return (a.view.isMember(id) || a.confirmations.confirmed(id) != "") && a.rejoin.allows(id)
}

// isCurrent reports whether the boot number of a node is not lower than the highest announced one. A higher one that was
// only recorded when the node returned does not count: it may be that of a copy which other nodes have rejected.
func (a *access) isCurrent(id string, boot uint64) bool { return boot >= a.records.of(id).Announced }
