package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

const (
	// copyError is the error of a node that starts with an old copy of its data.
	copyError = "is an old copy"
	// copyCharges is the number of charges that a copy lacks.
	copyCharges = 920
	// watchWithoutMajority is the time for which a cluster without a majority is watched.
	watchWithoutMajority = 2 * time.Second
)

// oldCopy replaces the data directory of a node with an old copy. The copy lacks charges
// that only this node and the leader have acknowledged. The node must exit, even if no
// node with the newer entries is running, and no unit may be granted twice.
func oldCopy(ctx context.Context, l *lab) error {
	for range l.repeated(2, 10) {
		if err := l.copies(ctx, (*trial).runOldCopy); err != nil {
			return err
		}
	}
	return nil
}

// copies runs a scenario about data directories in its own cluster. There is no load,
// since only the data of the nodes matters.
func (l *lab) copies(ctx context.Context, happen func(*trial, context.Context) error) error {
	c, err := l.start(ctx, plan{args: []string{"--raft-heartbeat", "1000"}}) // long, since nodes are paused while their data is copied
	if err == nil {
		err = happen(&trial{cluster: c}, ctx)
	}
	return errors.Join(err, c.close())
}

func (t *trial) runOldCopy(ctx context.Context) error {
	leader, err := t.awaitLeader(ctx)
	if err != nil {
		return err
	}
	others := t.nodesExcept(leader)
	stale, lags := others[0], others[1]
	if err := stale.copyData(); err != nil {
		return err
	}
	if err := lags.kill(); err != nil {
		return err
	}
	t.note("the data of %s is copied while %s is down", stale.id, lags.id)
	if err := t.charge(ctx, leader, "copied", copyCharges); err != nil {
		return err
	}
	if err := errors.Join(stale.kill(), stale.putBack(), stale.start()); err != nil {
		return err
	}
	t.note("start %s with the copy", stale.id)
	if err := t.endsAs(stale, "a node with an old copy exits", copyError); err != nil {
		return err
	}
	if err := errors.Join(leader.kill(), lags.start(), stale.start()); err != nil {
		return err
	}
	t.note("stop %s, which has the newer state", leader.id)
	if err := t.endsAs(stale, "  it also exits while the leader is down", copyError); err != nil {
		return err
	}
	sleep(ctx, watchWithoutMajority)
	if r, err := askOnce(lags.addr(), patience, append([]string{"CL.THROTTLE", "copied"}, slow()...)...); err == nil && len(r.integers()) == 5 {
		t.lab.out.found([]finding{{"old-copy", fmt.Sprintf("%s decides without a majority: %v", lags.id, r.integers())}})
	}
	if err := leader.start(); err != nil {
		return err
	}
	return t.expectUsed(ctx, lags, "copied", copyCharges)
}

// nodesExcept returns all nodes except one.
func (c *cluster) nodesExcept(except *node) (others []*node) {
	for _, n := range c.nodes {
		if n != except {
			others = append(others, n)
		}
	}
	return others
}

// charge sends the given number of charges on a key to a node.
func (t *trial) charge(ctx context.Context, n *node, key string, times int) error {
	link, err := dial(n.addr())
	if err != nil {
		return err
	}
	defer func() { _ = link.Close() }()
	for range times {
		r, err := link.ask(patience, append([]string{"CL.THROTTLE", key}, slow()...)...)
		if f, _ := fateOf(&r, err); f != decided || ctx.Err() != nil {
			return fmt.Errorf("charge %s through %s: %v: %w", key, n.id, r, errors.Join(err, ctx.Err()))
		}
	}
	return nil
}

// expectUsed waits until a node returns a decision on a key, and compares the used units of
// the key with the expected number.
func (t *trial) expectUsed(ctx context.Context, n *node, key string, want int64) error {
	var used int64
	err := await(ctx, startWithin, func() (bool, error) {
		r, err := askOnce(n.addr(), patience, append(append([]string{"CL.THROTTLE", key}, slow()...), "0")...)
		if err != nil || len(r.integers()) != 5 {
			return false, err
		}
		used = slowBurst + 1 - r.integers()[2]
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("%s does not decide: %w", n.id, err)
	}
	t.lab.out.atMost("charges in use that were never made", float64(used-want), 0, "")
	t.lab.out.atLeast("charges in use", float64(used), float64(want), "")
	return nil
}

// endsAs waits until a node exits without being sent a signal. The log of the node must contain the
// expected text.
func (t *trial) endsAs(n *node, what, says string) error {
	if err := t.endsByItself(n, what); err != nil {
		return err
	}
	if !strings.Contains(n.tail(20), says) {
		t.lab.out.found([]finding{{"old-copy", fmt.Sprintf("the log of %s lacks %q:\n%s", n.id, says, n.tail(5))}})
	}
	return nil
}

func (n *node) copyDir() string { return n.dataDir() + ".copy" }

// copyData copies the data directory of a node while the node is paused.
func (n *node) copyData() error {
	if err := errors.Join(os.RemoveAll(n.copyDir()), n.signal(syscall.SIGSTOP)); err != nil {
		return err
	}
	return errors.Join(os.CopyFS(n.copyDir(), os.DirFS(n.dataDir())), n.signal(syscall.SIGCONT))
}

// putBack replaces the data directory of a node with its copy.
func (n *node) putBack() error {
	return errors.Join(os.RemoveAll(n.dataDir()), os.CopyFS(n.dataDir(), os.DirFS(n.copyDir())))
}

// fence recovers a cluster on its remaining node, and restarts the two lost nodes as a
// second cluster. No node of one cluster may follow a node of the other.
func fence(ctx context.Context, l *lab) error {
	for range l.repeated(1, 5) {
		if err := l.copies(ctx, (*trial).runFence); err != nil {
			return err
		}
	}
	return nil
}

// recoverWith runs "throttled recover" on the host of a node.
func (n *node) recoverWith(nodes ...*node) error {
	words := []string{n.bin, "recover", "--yes", "--data-dir", n.dataDir()}
	for _, other := range nodes {
		words = append(words, other.id+"="+other.raftAddr())
	}
	return run(n.host.command(words...))
}

func (t *trial) runFence(ctx context.Context) error {
	leader, err := t.awaitLeader(ctx)
	if err != nil {
		return err
	}
	lost := t.nodesExcept(leader)
	if err := errors.Join(t.charge(ctx, leader, "before", 100), leader.kill()); err != nil {
		return err
	}
	if err := leader.recoverWith(leader); err == nil {
		t.lab.out.found([]finding{{"fence", "recover proceeds although other nodes answer"}})
	}
	if err := errors.Join(lost[0].kill(), lost[1].kill(), leader.recoverWith(leader), leader.start()); err != nil {
		return err
	}
	t.note("%s was recovered; start %s and %s", leader.id, lost[0].id, lost[1].id)
	if err := t.expectUsed(ctx, leader, "before", 100); err != nil {
		return err
	}
	if err := errors.Join(lost[0].start(), lost[1].start()); err != nil {
		return err
	}
	if err := errors.Join(t.expectUsed(ctx, lost[0], "before", 100), t.charge(ctx, leader, "new", 10)); err != nil {
		return err
	}
	return t.staysFenced(ctx, leader, lost)
}

// staysFenced checks that two clusters with the same name remain separate. Then it stops
// the old cluster and adds a new node to the recovered one.
func (t *trial) staysFenced(ctx context.Context, leader *node, lost []*node) error {
	mixed := 0
	for range 25 {
		sleep(ctx, 200*time.Millisecond)
		for _, n := range t.nodes {
			info, err := n.info(patience)
			if err == nil && info["leader"] != "" && (info["leader"] == leader.id) != (n == leader) {
				mixed++
			}
		}
	}
	t.lab.out.atMost("nodes that follow a node of another recovery", float64(mixed), 0, "")
	if err := t.expectUsed(ctx, lost[0], "new", 0); err != nil {
		return err
	}
	if err := lost[0].kill(); err != nil {
		return err
	}
	if err := t.endsAs(lost[1], "a lost node alone exits", "recovered by throttled recover"); err != nil {
		return err
	}
	t.nodes = []*node{leader}
	t.formerMembers = append(t.formerMembers, lost...)
	added, err := t.prepare(leader.raftAddr())
	if err != nil {
		return err
	}
	if err := added.start(); err != nil {
		return err
	}
	if err := await(ctx, startWithin, func() (bool, error) { return t.isVoter(added.id) }); err != nil {
		return fmt.Errorf("%s does not become a voter: %w\n%s", added.id, err, added.tail(5))
	}
	return t.expectUsed(ctx, added, "new", 10)
}
