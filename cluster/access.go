package cluster

import (
	"github.com/throttledhq/throttled/cluster/transport"
	"github.com/throttledhq/throttled/internal/failpoint"
)

// access determines which nodes may open streams to this node.
type access struct {
	view          *observer
	guard         *guard
	confirmations *confirmations
	rejoin        *rejoinCheck
	records       *nodeRecords
}

// allows reports whether the node id may open streams with purpose p. Forwarded commands are accepted from members
// only: they are sent to the leader, and the configuration of the leader contains all members. Raft messages are also
// accepted from a node that a known member has confirmed. If this node was started with data, it accepts Raft
// messages from another node only after that node has answered that it has no record of newer data (see rejoinCheck).
func (a *access) allows(id string, p transport.Purpose) bool {
	if failpoint.Is(failpoint.AnyStream) && p == transport.Client {
		return true
	}
	if p != transport.Raft {
		return a.view.isMember(id)
	}
	return (a.view.isMember(id) || a.confirmations.confirmed(id) != "") && a.rejoin.allows(id)
}

// isCurrent reports whether boot is at least the highest boot number that the node id has announced. A boot number
// that was reported in a rejoin check, but not announced, does not count: the process that reported it may run with a
// copy that other nodes have rejected.
func (a *access) isCurrent(id string, boot uint64) bool { return boot >= a.records.of(id).Announced }
