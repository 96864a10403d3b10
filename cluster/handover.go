package cluster

import (
	"context"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/topology"
)

// HandOver makes another voter lead, if this node leads and there is another. What was decided
// is committed first, and what comes meanwhile is refused, so nobody is left uncertain.
func (n *Node) HandOver(ctx context.Context) error { return n.handOver(ctx, "") }

func (n *Node) handOver(ctx context.Context, id string) error {
	r := n.reign.Load()
	if r == nil || len(n.voters()) < 2 {
		return nil
	}
	next, err := n.successor(r, id)
	if err != nil {
		return err
	}
	if !r.leaving.CompareAndSwap(false, true) {
		return topology.ErrChanging
	}
	n.refresh()
	if err = n.resign(ctx, r, next); err != nil {
		r.leaving.Store(false)
		n.refresh()
	}
	return err
}

// successor returns the voter of an id, or the one that is furthest if id is empty. It has to answer: Raft
// would wait for one that does not, and refuse all entries meanwhile.
func (n *Node) successor(r *reign, id string) (next *topology.Member, err error) {
	furthest := uint64(0)
	for _, f := range n.followers(r.term) {
		m := n.find(f.ID)
		if f.Answers && m != nil && m.Voter && (id == "" || id == m.ID) && (next == nil || f.Last > furthest) {
			next, furthest = m, f.Last
		}
	}
	if next == nil {
		return nil, topology.ErrSilent
	}
	return next, nil
}

// resign makes a voter lead once all that was decided is committed.
func (n *Node) resign(ctx context.Context, r *reign, next *topology.Member) error {
	// Whoever was about to decide has done so by the time that the first is committed.
	for _, generation := range []func() limiter.Ticket{n.table.Mark, n.table.Seen} {
		if err := r.await(generation().Generation); err != nil {
			return err
		}
	}
	r.offered.Store(true)
	f := n.raft.LeadershipTransferToServer(raft.ServerID(next.ID), raft.ServerAddress(next.Raft))
	done := make(chan error, 1)
	go func() { done <- f.Error() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
