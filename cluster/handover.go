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
	if !r.leaving.CompareAndSwap(false, true) {
		return topology.ErrChanging
	}
	n.refresh()
	err := n.resign(ctx, r, id)
	if err != nil {
		r.leaving.Store(false)
		n.refresh()
	}
	return err
}

// resign makes a voter lead, any if id is empty, once all that was decided is committed.
func (n *Node) resign(ctx context.Context, r *reign, id string) error {
	// Whoever was about to decide has done so by the time that the first is committed.
	for _, generation := range []func() limiter.Ticket{n.table.Mark, n.table.Seen} {
		if err := r.await(generation().Generation); err != nil {
			return err
		}
	}
	r.offered.Store(true)
	var f raft.Future
	if m := n.find(id); m != nil {
		f = n.raft.LeadershipTransferToServer(raft.ServerID(m.ID), raft.ServerAddress(m.Raft))
	} else {
		f = n.raft.LeadershipTransfer()
	}
	done := make(chan error, 1)
	go func() { done <- f.Error() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
