package main

import (
	"context"
	"fmt"
	"time"
)

// The bars for disk faults.
const (
	fullWithin = 2 * time.Second         // until another node decides after the leader's disk is full
	dieWithin  = time.Second             // until a node exits after a failed sync
	hangWithin = 2500 * time.Millisecond // until another node decides after the leader's disk hangs
	exitFailed = 75                      // the exit code of a node after a fatal error
)

// disk tests full, failing, hanging and slow disks, on leaders and on followers. A node
// that cannot rely on its disk must exit, and the others must continue.
func disk(ctx context.Context, l *lab) error {
	return l.withTrial(ctx, plan{disk: 64}, func(ctx context.Context, t *trial) error {
		p := t.probe(ctx)
		defer p.end()
		for _, do := range []func(context.Context, *probes) error{
			t.fullLeader, t.fullFollower, t.failedLeader, t.failedFollower, t.hungLeader, t.hungFollower, t.slowLeader,
		} {
			if err := do(ctx, p); err != nil {
				return err
			}
		}
		return nil
	})
}

// takesOver waits until a node other than n leads, and a node other than n has returned a decision
// on a request. It considers only requests sent after the time in the argument from. It returns the
// longest gap since that time in the decisions of the nodes other than n.
func (t *trial) takesOver(ctx context.Context, p *probes, from int64, n *node) (time.Duration, error) {
	var first int64
	err := await(ctx, startWithin, func() (bool, error) {
		leader, err := t.leader()
		if err != nil || leader == n {
			return false, err
		}
		first = p.firstAfter(from, n)
		return first > 0, nil
	})
	gap := longestGap(p, from, t.clock.now(), n)
	return gap, err
}

func (t *trial) fullLeader(ctx context.Context, p *probes) error {
	leader, err := t.awaitLeader(ctx)
	if err != nil {
		return err
	}
	t.countKill()
	t.note("the disk of %s, the leader, is full", leader.id)
	from := t.clock.now()
	heal, err := leader.fill()
	if err != nil {
		return err
	}
	gap, err := t.takesOver(ctx, p, from, leader)
	if err != nil {
		return fmt.Errorf("the disk of the leader is full: %w", err)
	}
	t.lab.out.atMost("disk full on the leader: gap", ms(gap), ms(fullWithin), "ms")
	return t.replaced(ctx, leader, heal)
}

func (t *trial) fullFollower(ctx context.Context, p *probes) error {
	n, err := t.follower(ctx, t.lab.random)
	if err != nil {
		return err
	}
	t.note("the disk of %s, a follower, is full", n.id)
	from, before := t.clock.now(), t.watch.changes()
	heal, err := n.fill()
	if err != nil {
		return err
	}
	sleep(ctx, 2*time.Second)
	t.unnoticed(p, "disk full on a follower", from, before, n)
	return t.replaced(ctx, n, heal)
}

// unnoticed checks that a fault of the node n has not affected the other nodes. The argument from is
// the time at which the fault began, and changes is the number of leader changes before it.
func (t *trial) unnoticed(p *probes, what string, from int64, changes int, n *node) {
	gap := longestGap(p, from, t.clock.now(), n)
	t.lab.out.atMost(what+": gap", ms(gap), ms(followerGap), "ms")
	t.lab.out.atMost(what+": failed requests on other nodes", float64(sum(p.failed(from, t.clock.now(), n))), 0, "")
	t.lab.out.atMost(what+": leader changes", float64(t.watch.changes()-changes), 0, "")
}

// replaced repairs the disk of a node, restarts the node if it has exited, and waits until it has
// recovered.
func (t *trial) replaced(ctx context.Context, n *node, heal func() error) error {
	if n.running() == nil {
		t.note("%s has exited: %v", n.id, n.crashes())
	}
	n.forgive()
	if err := heal(); err != nil {
		return err
	}
	begin := time.Now()
	if err := n.start(); err != nil {
		return err
	}
	if err := t.settled(ctx, n); err != nil {
		return err
	}
	t.lab.out.atMost("  until it runs again", time.Since(begin).Seconds(), healWithin.Seconds(), "s")
	return nil
}

func (t *trial) failedLeader(ctx context.Context, p *probes) error {
	leader, err := t.awaitLeader(ctx)
	if err != nil {
		return err
	}
	t.countKill()
	return t.failedSync(ctx, p, leader, "the leader", failoverMost+dieWithin)
}

func (t *trial) failedFollower(ctx context.Context, p *probes) error {
	n, err := t.follower(ctx, t.lab.random)
	if err != nil {
		return err
	}
	return t.failedSync(ctx, p, n, "a follower", followerGap)
}

// failedSync makes the syncs of a node fail. The node must exit. The last argument is the longest
// permitted gap in the decisions of the other nodes.
func (t *trial) failedSync(ctx context.Context, p *probes, n *node, what string, most time.Duration) error {
	t.note("syncs of %s fail", n.id)
	boot := n.running()
	from := t.clock.now()
	heal, err := n.inject("error=EIO")
	if err != nil {
		return err
	}
	begin := time.Now()
	select {
	case <-boot.ended:
	case <-time.After(startWithin):
		return fmt.Errorf("%s keeps running after its syncs failed", n.id)
	}
	t.lab.out.atMost("sync fails on "+what+": until it exits", ms(time.Since(begin)), ms(dieWithin), "ms")
	t.lab.out.atMost("  exit code", float64(boot.code), exitFailed, "")
	t.lab.out.atLeast("  exit code", float64(boot.code), exitFailed, "")
	sleep(ctx, 2*time.Second)
	gap := longestGap(p, from, t.clock.now(), n)
	t.lab.out.atMost("  gap at the other nodes", ms(gap), ms(most), "ms")
	return t.replaced(ctx, n, heal)
}

func (t *trial) hungLeader(ctx context.Context, p *probes) error {
	leader, err := t.awaitLeader(ctx)
	if err != nil {
		return err
	}
	t.countKill()
	t.note("the disk of %s, the leader, hangs", leader.id)
	from := t.clock.now()
	heal, err := leader.inject("delay_enter=60000000")
	if err != nil {
		return err
	}
	gap, err := t.takesOver(ctx, p, from, leader)
	if err != nil {
		return fmt.Errorf("the disk of the leader hangs: %w", err)
	}
	t.lab.out.atMost("disk hangs on the leader: gap", ms(gap), ms(hangWithin), "ms")
	return t.replaced(ctx, leader, t.andEnds(leader, heal))
}

func (t *trial) hungFollower(ctx context.Context, p *probes) error {
	n, err := t.follower(ctx, t.lab.random)
	if err != nil {
		return err
	}
	t.note("the disk of %s, a follower, hangs", n.id)
	from, before := t.clock.now(), t.watch.changes()
	heal, err := n.inject("delay_enter=60000000")
	if err != nil {
		return err
	}
	sleep(ctx, 2*time.Second)
	t.unnoticed(p, "disk hangs on a follower", from, before, n)
	return t.replaced(ctx, n, t.andEnds(n, heal))
}

// andEnds returns a function that repairs the disk of a node, and then waits for the exit of the
// node. A node whose disk hangs stops itself, but its process can exit only after strace detaches.
func (t *trial) andEnds(n *node, heal func() error) func() error {
	boot := n.running()
	return func() error {
		if err := heal(); err != nil || boot == nil {
			return err
		}
		select {
		case <-boot.ended:
			t.lab.out.atMost("  exit code", float64(boot.code), exitFailed, "")
			return nil
		case <-time.After(startWithin):
			return fmt.Errorf("%s keeps running although its disk hangs", n.id)
		}
	}
}

// slowLeader delays each sync on the leader. The delay must not cause an election.
func (t *trial) slowLeader(ctx context.Context, p *probes) error {
	leader, err := t.awaitLeader(ctx)
	if err != nil {
		return err
	}
	for _, delay := range []time.Duration{20 * time.Millisecond, 100 * time.Millisecond} {
		t.note("each sync of %s takes %s longer", leader.id, delay)
		from, before := t.clock.now(), t.watch.changes()
		heal, err := leader.inject(fmt.Sprintf("delay_enter=%d", delay.Microseconds()))
		if err != nil {
			return err
		}
		sleep(ctx, 3*time.Second)
		what := fmt.Sprintf("syncs of the leader take %s: ", delay)
		gap := longestGap(p, from, t.clock.now(), nil)
		t.lab.out.note(what+"longest gap", "%.0f ms", ms(gap))
		t.lab.out.atMost(what+"leader changes", float64(t.watch.changes()-before), 0, "")
		if err := heal(); err != nil {
			return err
		}
	}
	return t.settled(ctx, leader)
}
