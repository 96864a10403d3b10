package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/topology"
)

// holdPoll is how often a hand-over looks whether commands still hold it up.
const holdPoll = 100 * time.Microsecond

// HandOver transfers leadership to another voter if this node leads. All decisions are committed first, and the server
// holds later commands for the next leader, so that none fails and none is uncertain.
func (n *Node) HandOver(ctx context.Context) error { return n.handOver(ctx, "") }

func (n *Node) handOver(ctx context.Context, id string) error {
	l := n.leaderships.current()
	if l == nil || len(n.voters()) < 2 {
		return nil
	}
	next, err := n.successor(l, id)
	if err != nil {
		return err
	}
	if !l.leaving.CompareAndSwap(false, true) {
		return topology.ErrChanging
	}
	n.refresh() // from here on the server keeps new commands for the next leader
	if err = n.stopDeciding(ctx, l); err == nil {
		err = n.resign(ctx, l, next)
	}
	if err != nil {
		l.stopped.Store(false)
		l.leaving.Store(false)
		n.refresh()
	}
	return err
}

// Hold keeps this node deciding until Release, and reports whether it decides: a hand-over waits for a command that
// takes several steps, so that none of them is refused. Calls may be nested.
func (n *Node) Hold() bool { return n.leaderships.hold() }

// Release ends what a successful Hold has begun.
func (n *Node) Release() { n.leaderships.release() }

// stopDeciding makes this node refuse all decisions, at a moment at which none is being made. It never queues for the
// lock: that would block a nested Hold. Few begin to decide once the view tells that this node leaves, so the moment
// comes soon.
func (n *Node) stopDeciding(ctx context.Context, l *leadership) error {
	for !n.leaderships.deciding.TryLock() {
		if err := n.wait(ctx, holdPoll); err != nil {
			return fmt.Errorf("wait for commands that are being decided: %w", err)
		}
	}
	defer n.leaderships.deciding.Unlock()
	l.stopped.Store(true)
	return nil
}

// successor returns the voter of an id, or the one that is furthest if id is empty. It has to answer: Raft
// would wait for one that does not, and refuse all entries meanwhile.
func (n *Node) successor(l *leadership, id string) (next *topology.Member, err error) {
	furthest := uint64(0)
	for _, f := range n.followers(l.term) {
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
func (n *Node) resign(ctx context.Context, l *leadership, next *topology.Member) error {
	if err := l.await(n.table.Mark().Generation); err != nil {
		return err
	}
	l.lease.offered.Store(true)
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
