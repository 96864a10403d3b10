package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"
)

// fault is a fault of a cluster. The inflict function causes the fault, waits, and repairs it. An
// error of inflict means that the fault could not be caused or repaired, not that the cluster has
// failed.
type fault struct {
	name    string
	kills   bool // the fault always makes the leader unavailable for so long that a new leader must be elected
	inflict func(ctx context.Context, t *trial, r *rand.Rand) error
}

// faults lists the faults that mix selects from.
var faults = []fault{
	{"kill -9 of the leader", true, onLeader(killed)},
	{"kill -9 of a follower", false, onFollower(killed)},
	{"kill -9 of any node", false, onAny(killed)},
	{"kill -9 of all nodes", false, killAll},
	{"a pause of the leader", false, onLeader(leaderPaused)},
	{"a pause of the leader with requests waiting", true, askedWhilePaused},
	{"a pause of a follower", false, onFollower(paused)},
	{"the leader cut off in both directions", false, onLeader(leaderCutOff(true, true))},
	{"the leader cannot send", false, onLeader(leaderCutOff(false, true))},
	{"the leader cannot receive", false, onLeader(leaderCutOff(true, false))},
	{"a follower cut off in both directions", false, onFollower(cutOff(true, true))},
	{"a follower cannot send", false, onFollower(cutOff(false, true))},
	{"a follower cannot receive", false, onFollower(cutOff(true, false))},
	{"one link cut", false, onLeader(linkCut)},
	{"the leader cut off from clients", false, onLeader(clientsCut)},
	{"a slow node", false, onAny(slowed)},
	{"a lossy node", false, onAny(lossy)},
	{"connections of a node reset", false, onAny(reset)},
	{"the leader stopped", true, onLeader(restarted)},
	{"all nodes stopped one after the other", true, rolling},
	{"a hand-over", true, transferred},
	{"a hand-over cut in the middle", false, handOverCut},
	{"a snapshot", false, onAny(saved)},
	{"snapshots while a node is killed", false, savedAndKilled},
	{"a wrong wall clock", false, onAny(wrongClock)},
	{"a wrong wall clock on the leader", false, onLeader(wrongClock)},
}

// onLeader returns a fault that applies f to the leader.
func onLeader(f func(context.Context, *trial, *node, *rand.Rand) error) func(context.Context, *trial, *rand.Rand) error {
	return func(ctx context.Context, t *trial, r *rand.Rand) error {
		n, err := t.awaitLeader(ctx)
		if err != nil {
			return err
		}
		return f(ctx, t, n, r)
	}
}

// onFollower returns a fault that applies f to a random follower.
func onFollower(f func(context.Context, *trial, *node, *rand.Rand) error) func(context.Context, *trial, *rand.Rand) error {
	return func(ctx context.Context, t *trial, r *rand.Rand) error {
		n, err := t.follower(ctx, r)
		if err != nil {
			return err
		}
		return f(ctx, t, n, r)
	}
}

// onAny returns a fault that applies f to a random node.
func onAny(f func(context.Context, *trial, *node, *rand.Rand) error) func(context.Context, *trial, *rand.Rand) error {
	return func(ctx context.Context, t *trial, r *rand.Rand) error {
		return f(ctx, t, t.nodes[r.IntN(len(t.nodes))], r)
	}
}

// between returns a random duration from least to most.
func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)+1))
}

func killed(ctx context.Context, t *trial, n *node, r *rand.Rand) error {
	t.note("kill -9 %s", n.id)
	err := n.kill()
	sleep(ctx, between(r, 100*time.Millisecond, 2*time.Second))
	t.note("start %s", n.id)
	return errors.Join(err, n.start())
}

// killAll kills all processes almost simultaneously.
func killAll(ctx context.Context, t *trial, r *rand.Rand) error {
	t.note("kill -9 of all nodes")
	var errs []error
	for _, n := range t.nodes {
		errs = append(errs, n.signal(syscall.SIGKILL))
	}
	for _, n := range t.nodes {
		errs = append(errs, n.kill()) // waits for the exit
	}
	sleep(ctx, between(r, 0, 300*time.Millisecond))
	t.note("start all nodes")
	for _, n := range t.nodes {
		errs = append(errs, n.start())
	}
	return errors.Join(errs...)
}

func paused(ctx context.Context, t *trial, n *node, r *rand.Rand) error {
	return t.pause(ctx, n, between(r, 200*time.Millisecond, 3*time.Second))
}

// leaderPaused pauses the leader. A pause of at least awayAfter counts as a kill of the leader.
func leaderPaused(ctx context.Context, t *trial, n *node, r *rand.Rand) error {
	d := between(r, 200*time.Millisecond, 3*time.Second)
	t.awayFor(d)
	return t.pause(ctx, n, d)
}

func (t *trial) pause(ctx context.Context, n *node, d time.Duration) error {
	t.note("pause %s for %s", n.id, d)
	err := n.signal(syscall.SIGSTOP)
	sleep(ctx, d)
	t.note("resume %s", n.id)
	return errors.Join(err, n.signal(syscall.SIGCONT))
}

// hold returns a random duration for a network fault.
func hold(r *rand.Rand) time.Duration { return between(r, 300*time.Millisecond, 3*time.Second) }

// whileCut applies a rule to the host of a node for the duration d.
func (t *trial) whileCut(ctx context.Context, n *node, what string, rule rule, d time.Duration) error {
	t.note("%s: %s for %s", n.id, what, d)
	heal, err := n.host.cut(rule)
	if err != nil {
		return err
	}
	sleep(ctx, d)
	t.note("%s: end of %s", n.id, what)
	return heal()
}

// cutOff disconnects a node from the other nodes, but not from its clients.
func cutOff(in, out bool) func(context.Context, *trial, *node, *rand.Rand) error {
	return func(ctx context.Context, t *trial, n *node, r *rand.Rand) error {
		return t.cutOffFor(ctx, n, in, out, hold(r))
	}
}

// leaderCutOff disconnects the leader from the other nodes. A cut of at least awayAfter counts as a
// kill of the leader.
func leaderCutOff(in, out bool) func(context.Context, *trial, *node, *rand.Rand) error {
	return func(ctx context.Context, t *trial, n *node, r *rand.Rand) error {
		d := hold(r)
		t.awayFor(d)
		return t.cutOffFor(ctx, n, in, out, d)
	}
}

func (t *trial) cutOffFor(ctx context.Context, n *node, in, out bool, d time.Duration) error {
	cut := rule{percent: 100}
	if in {
		cut.in = t.otherAddrs(n)
	}
	if out {
		cut.out = t.otherAddrs(n)
	}
	return t.whileCut(ctx, n, fmt.Sprintf("cut off (receiving %t, sending %t)", in, out), cut, d)
}

func linkCut(ctx context.Context, t *trial, n *node, r *rand.Rand) error {
	others := t.otherAddrs(n)
	one := others[r.IntN(len(others)):][:1]
	return t.whileCut(ctx, n, "one link cut", rule{in: one, out: one, percent: 100}, hold(r))
}

func clientsCut(ctx context.Context, t *trial, n *node, r *rand.Rand) error {
	clients := []string{fmt.Sprintf("%s.%d", t.net.subnet, routerPlace)}
	return t.whileCut(ctx, n, "clients cut off", rule{in: clients, out: clients, percent: 100}, hold(r))
}

func lossy(ctx context.Context, t *trial, n *node, r *rand.Rand) error {
	percent := []int{1, 5, 20}[r.IntN(3)]
	others := t.otherAddrs(n)
	return t.whileCut(ctx, n, fmt.Sprintf("%d %% of packets lost", percent), rule{in: others, out: others, percent: percent}, hold(r))
}

func reset(ctx context.Context, t *trial, n *node, r *rand.Rand) error {
	others := t.otherAddrs(n)
	return t.whileCut(ctx, n, "connections reset", rule{in: others, percent: 100, reset: true}, between(r, 50*time.Millisecond, time.Second))
}

func slowed(ctx context.Context, t *trial, n *node, r *rand.Rand) error {
	kbit, d := 1000<<r.IntN(4), hold(r)
	t.note("%s sends at most %d kbit/s for %s", n.id, kbit, d)
	heal, err := n.host.slow(kbit)
	if err != nil {
		return err
	}
	sleep(ctx, d)
	return heal()
}

// saved starts a snapshot on a node. The node loads this snapshot at its next start.
func saved(ctx context.Context, t *trial, n *node, _ *rand.Rand) error {
	r, err := askOnce(n.addr(), patience, "BGSAVE")
	if err != nil {
		r.text = err.Error() // the node is down, or a snapshot is in progress
	}
	t.note("BGSAVE of %s: %s", n.id, r.text)
	return nil
}

// savedAndKilled starts snapshots on all nodes and kills a random node shortly afterwards. At that
// time, the snapshot file of the node may be missing, incomplete or complete.
func savedAndKilled(ctx context.Context, t *trial, r *rand.Rand) error {
	for _, n := range t.nodes {
		if err := saved(ctx, t, n, r); err != nil {
			return err
		}
	}
	sleep(ctx, between(r, 0, 50*time.Millisecond))
	return onAny(killed)(ctx, t, r)
}

// stopWithin is the timeout for a node to exit after SIGTERM.
const stopWithin = 5 * time.Second

func restarted(ctx context.Context, t *trial, n *node, r *rand.Rand) error {
	t.note("stop %s", n.id)
	code, err := n.stop(stopWithin)
	if err == nil && code != 0 && code != 128+int(syscall.SIGKILL) { // another fault may have killed it
		err = fmt.Errorf("%s exits with code %d after SIGTERM:\n%s", n.id, code, n.tail(3))
	}
	sleep(ctx, between(r, 0, time.Second))
	t.note("start %s", n.id)
	return errors.Join(err, n.start())
}

func rolling(ctx context.Context, t *trial, r *rand.Rand) error {
	for _, n := range t.nodes {
		if err := restarted(ctx, t, n, r); err != nil {
			return err
		}
		if err := n.ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

// transferred transfers the leadership to any of the other nodes.
func transferred(ctx context.Context, t *trial, r *rand.Rand) error {
	leader, err := t.awaitLeader(ctx)
	if err != nil {
		return err
	}
	t.note("hand over from %s", leader.id)
	if _, err := askOnce(leader.addr(), 5*time.Second, "CL.CLUSTER", "TRANSFER"); err != nil {
		t.note("the hand-over fails: %v", err) // another fault may prevent it
	}
	return nil
}

// handOverCut disconnects the leader during a transfer of the leadership.
func handOverCut(ctx context.Context, t *trial, r *rand.Rand) error {
	leader, err := t.awaitLeader(ctx)
	if err != nil {
		return err
	}
	var asking sync.WaitGroup
	asking.Go(func() { _ = transferred(ctx, t, r) })
	sleep(ctx, between(r, 0, 50*time.Millisecond))
	others := t.otherAddrs(leader)
	err = t.whileCut(ctx, leader, "cut off during a hand-over", rule{in: others, out: others, percent: 100}, between(r, 50*time.Millisecond, 600*time.Millisecond))
	asking.Wait()
	return err
}

// wrongClock makes the wall clock of a node wrong: the clock jumps by an hour or by
// seconds, stops, or alternates between two offsets.
func wrongClock(ctx context.Context, t *trial, n *node, r *rand.Rand) error {
	jumps := []time.Duration{time.Hour, -time.Hour, 5 * time.Second, -5 * time.Second, 200 * time.Millisecond, -200 * time.Millisecond}
	d := hold(r)
	end := time.Now().Add(d)
	switch how := r.IntN(len(jumps) + 2); how {
	default:
		t.note("the wall clock of %s is wrong by %s for %s", n.id, jumps[how], d)
		if err := n.setWall(jumps[how]); err != nil {
			return err
		}
		sleep(ctx, d)
	case len(jumps):
		t.note("the wall clock of %s is stopped for %s", n.id, d)
		begin := time.Now()
		for time.Now().Before(end) && sleep(ctx, 10*time.Millisecond) {
			if err := n.setWall(-time.Since(begin)); err != nil {
				return err
			}
		}
	case len(jumps) + 1:
		t.note("the wall clock of %s jitters for %s", n.id, d)
		for i := time.Duration(0); time.Now().Before(end) && sleep(ctx, 50*time.Millisecond); i++ {
			if err := n.setWall(100 * time.Millisecond * (1 - 2*(i%2))); err != nil {
				return err
			}
		}
	}
	return n.setWall(0)
}
