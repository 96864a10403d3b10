package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// voteWithin is the timeout for a joined node to become a voter.
const voteWithin = 10 * time.Second

const (
	// removedWithin is the timeout for a removed node to exit.
	removedWithin = 10 * time.Second
	// wipedError is the error of a member that starts without its data.
	wipedError = "this id was used with a different data directory"
)

// membership adds nodes, removes followers and the leader, and starts nodes that must not
// rejoin: a removed node, and a member that has lost its data.
func membership(ctx context.Context, l *lab) error {
	return l.withTrial(ctx, plan{}, func(ctx context.Context, t *trial) error {
		p := t.probe(ctx)
		defer p.end()
		for range l.repeated(2, 2) {
			if err := t.growAndShrink(ctx, p); err != nil {
				return err
			}
		}
		return t.startWiped(ctx, p)
	})
}

// startWiped kills a member, removes its data and starts it under its old id. Any
// votes and committed entries that the node had stored are lost. The node must exit, and the
// others must continue.
func (t *trial) startWiped(ctx context.Context, p *probes) error {
	n, err := t.follower(ctx, t.lab.random)
	if err != nil {
		return err
	}
	if err := n.kill(); err != nil {
		return err
	}
	t.note("wipe the data of %s", n.id)
	if err := n.wipe(t.otherAddrs(n)[0]); err != nil {
		return err
	}
	before := t.watch.changes()
	asking, end := t.probeOne(ctx, n)
	defer end()
	if err := t.withoutGap(ctx, p, "a member without its data starts", n, func() error {
		if err := n.start(); err != nil {
			return err
		}
		return t.endsByItself(n, "  until it exits")
	}); err != nil {
		return err
	}
	if !strings.Contains(n.tail(20), wipedError) {
		t.lab.out.found([]finding{{"membership", fmt.Sprintf("the log of %s lacks %q:\n%s", n.id, wipedError, n.tail(5))}})
	}
	end()
	t.lab.out.atMost("  decisions of the wiped node", float64(len(asking.oks)), 0, "")
	t.lab.out.atMost("  leader changes", float64(t.watch.changes()-before), 0, "")
	if err := t.remove(ctx, n); err != nil {
		return err
	}
	_, err = t.join(ctx)
	return err
}

// endsByItself waits until a node exits without being sent a signal. The node must exit with an error
// within removedWithin.
func (t *trial) endsByItself(n *node, what string) error {
	boot, begin := n.expectExit(), time.Now()
	if boot == nil {
		return fmt.Errorf("%s was never started", n.id)
	}
	select {
	case <-boot.ended:
	case <-time.After(removedWithin):
		t.lab.out.found([]finding{{"membership", fmt.Sprintf("%s keeps running, but must exit; the end of its log:\n%s", n.id, n.tail(3))}})
		return n.kill()
	}
	t.lab.out.atMost(what, time.Since(begin).Seconds(), removedWithin.Seconds(), "s")
	t.lab.out.atLeast("  exit code", float64(boot.code), 1, "")
	return nil
}

func (t *trial) growAndShrink(ctx context.Context, p *probes) error {
	var added *node
	if err := t.withoutGap(ctx, p, "a node joins", nil, func() (err error) {
		added, err = t.join(ctx)
		return err
	}); err != nil {
		return err
	}
	leader, err := t.awaitLeader(ctx)
	if err != nil {
		return err
	}
	t.countKill()
	if err := t.withoutGap(ctx, p, "the leader is removed", leader, func() error { return t.remove(ctx, leader) }); err != nil {
		return err
	}
	return t.startRemoved(ctx, p, leader, added)
}

// startRemoved starts a removed node, which must not affect the others. Then it removes a follower and
// adds a node, so that the number of nodes is the same as before.
func (t *trial) startRemoved(ctx context.Context, p *probes, removed, added *node) error {
	before := t.watch.changes()
	if err := t.withoutGap(ctx, p, "a removed node starts", removed, func() error {
		if err := removed.start(); err != nil {
			return err
		}
		return t.endsByItself(removed, "  until it exits")
	}); err != nil {
		return err
	}
	t.lab.out.atMost("  leader changes", float64(t.watch.changes()-before), 0, "")
	follower := added
	if leader, err := t.awaitLeader(ctx); err != nil {
		return err
	} else if leader == added {
		follower = t.nodes[0]
	}
	if err := t.withoutGap(ctx, p, "a follower is removed", follower, func() error { return t.remove(ctx, follower) }); err != nil {
		return err
	}
	return t.withoutGap(ctx, p, "an empty node joins", nil, func() error { _, err := t.join(ctx); return err })
}

// withoutGap runs the function do, and checks the longest gap between decisions. It ignores
// decisions of one node (except).
func (t *trial) withoutGap(ctx context.Context, p *probes, what string, except *node, do func() error) error {
	p.cover(t.cluster)
	t.note("%s", what)
	from := t.clock.now()
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	sleep(ctx, 500*time.Millisecond)
	gap := longestGap(p, from, t.clock.now(), except)
	t.lab.out.atMost(what+": gap", ms(gap), ms(followerGap), "ms")
	return nil
}

// join adds a node, and waits until it is a voter.
func (t *trial) join(ctx context.Context) (*node, error) {
	n, err := t.prepare(t.nodes[0].raftAddr())
	if err != nil {
		return nil, err
	}
	if err := t.administer(ctx, "ADD", n.id, n.raftAddr()); err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := n.start(); err != nil {
		return nil, err
	}
	t.watch.cover(t.cluster)
	t.load.cover(t.cluster)
	err = await(ctx, voteWithin, func() (bool, error) {
		voter, err := t.isVoter(n.id)
		return voter, err
	})
	if err != nil {
		return nil, fmt.Errorf("%s does not become a voter: %w\n%s", n.id, err, n.tail(5))
	}
	t.note("%s is a voter after %.0f ms", n.id, ms(time.Since(begin)))
	return n, nil
}

var errNoMember = errors.New("not a member of the cluster")

// isVoter reports whether a node is a voter according to the leader.
func (c *cluster) isVoter(id string) (bool, error) {
	leader, err := c.leader()
	if err != nil {
		return false, err
	}
	r, err := askOnce(leader.addr(), patience, "CL.CLUSTER", "NODES")
	if err != nil {
		return false, err
	}
	for _, line := range r.list {
		if name, rest, _ := strings.Cut(line.text, " "); name == id {
			return !strings.Contains(rest, "role=learner"), nil
		}
	}
	return false, fmt.Errorf("%s: %w", id, errNoMember)
}

// remove removes a node from the cluster. If its process is running, the process must exit
// without being sent a signal.
func (t *trial) remove(ctx context.Context, n *node) error {
	if err := t.administer(ctx, "REMOVE", n.id); err != nil {
		return err
	}
	t.nodes = slices.DeleteFunc(t.nodes, func(m *node) bool { return m == n })
	t.formerMembers = append(t.formerMembers, n)
	if _, err := t.awaitLeader(ctx); err != nil {
		return err
	}
	if n.running() == nil {
		n.forgive()
		return nil
	}
	return t.endsByItself(n, "  until its process exits")
}

// administer retries a membership change until it is made.
func (t *trial) administer(ctx context.Context, words ...string) error {
	t.note("CL.CLUSTER %s", strings.Join(words, " "))
	return await(ctx, startWithin, func() (bool, error) {
		leader, err := t.leader()
		if err != nil {
			return false, err
		}
		_, err = askOnce(leader.addr(), 5*time.Second, append([]string{"CL.CLUSTER"}, words...)...)
		if err != nil && t.isDone(words) {
			return true, nil // the reply was lost, as when the leader removes itself
		}
		return err == nil, err
	})
}

// isDone reports whether a membership change has been made.
func (t *trial) isDone(words []string) bool {
	_, err := t.isVoter(words[1])
	member := err == nil
	return words[0] == "ADD" && member || words[0] == "REMOVE" && errors.Is(err, errNoMember)
}
