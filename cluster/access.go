package cluster

import (
	"github.com/throttledhq/throttled/cluster/transport"
	"github.com/throttledhq/throttled/internal/failpoint"
)

// access determines with which nodes this node may have streams.
type access struct {
	view          *observer
	guard         *guard
	confirmations *confirmations
	rejoin        *rejoinCheck
	records       *nodeRecords
}

// allows reports whether streams with purpose p between this node and the node with the given id are permitted. Streams
// for forwarded commands are permitted with members only: commands are forwarded to the leader, and the configuration
// of the leader contains all members. Raft streams are also permitted with a node that a known member has confirmed as
// a member. If this node was started with data, a Raft stream with another node is permitted only after that node has
// answered that it has no record of newer data (see rejoinCheck).
func (a *access) allows(id string, p transport.Purpose) bool {
	if failpoint.Is(failpoint.AnyStream) && p == transport.Client {
		return true
	}
	if p != transport.Raft {
		return a.view.isMember(id)
	}
	return (a.view.isMember(id) || a.confirmations.confirmed(id) != "") && a.rejoin.allows(id)
}

// isCurrent reports whether boot is at least the highest boot number that the node with the given id has announced. A
// boot number that was reported in a rejoin check, but not announced, does not count: the process that reported it may
// run with a copy of the data directory that other nodes have rejected.
func (a *access) isCurrent(id string, boot uint64) bool { return boot >= a.records.of(id).Announced }
