package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/topology"
)

// holdPoll is the interval at which a hand-over checks whether commands are still in progress.
const holdPoll = 100 * time.Microsecond

// handOver commits all decisions, and then transfers leadership to the voter with the given id, or to the most
// up-to-date voter if id is empty. It does nothing if this node is not the leader or there is no other voter.
func (d *leader) handOver(ctx context.Context, id string) error {
	l := d.current()
	if l == nil || len(voters(d.view.View())) < 2 {
		return nil
	}
	next, err := d.successor(id)
	if err != nil {
		return err
	}
	if !l.leaving.CompareAndSwap(false, true) {
		return topology.ErrChanging
	}
	d.view.refresh() // from now on the server holds new commands for the next leader
	if err = d.stopDeciding(ctx, l); err == nil {
		err = d.resign(ctx, l, next)
	}
	if err != nil {
		l.stopped.Store(false)
		l.leaving.Store(false)
		d.view.refresh()
	}
	return err
}

// stopDeciding waits until no command is holding the deciding lock, and then makes this node refuse all decisions. It
// polls with TryLock, because a blocked Lock call would block a nested Hold. The view already shows that this node does
// not accept commands, so no new command begins, and the lock is free when the present commands have finished.
func (d *leader) stopDeciding(ctx context.Context, l *leadership) error {
	for !d.deciding.TryLock() {
		if err := d.life.sleep(ctx, holdPoll); err != nil {
			return fmt.Errorf("wait for commands that are being decided: %w", err)
		}
	}
	defer d.deciding.Unlock()
	l.stopped.Store(true)
	return nil
}

// successor returns the voter with the given id, or the most up-to-date voter if id is empty. It considers only voters
// that respond to heartbeats, because Raft would wait for any other voter and reject all entries during the wait. It
// returns topology.ErrSilent if there is no such voter.
func (d *leader) successor(id string) (next *topology.Member, err error) {
	newest := uint64(0)
	for _, f := range d.followers() {
		m := d.view.find(f.ID)
		if f.Answers && m != nil && m.Voter && (id == "" || id == m.ID) && (next == nil || f.Last > newest) {
			next, newest = m, f.Last
		}
	}
	if next == nil {
		return nil, topology.ErrSilent
	}
	return next, nil
}

// resign commits all decisions and transfers leadership.
func (d *leader) resign(ctx context.Context, l *leadership, next *topology.Member) error {
	if err := l.await(d.table.OpenGeneration().Generation); err != nil {
		return err
	}
	l.lease.offered.Store(true)
	f := d.raft.LeadershipTransferToServer(raft.ServerID(next.ID), raft.ServerAddress(next.Raft))
	done := make(chan error, 1)
	go func() { done <- f.Error() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return outcomeError(ctx.Err())
	}
}
