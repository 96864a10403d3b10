package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// mixedHeartbeats returns the plan of a cluster whose first node has a much longer heartbeat than
// the others.
func mixedHeartbeats() plan {
	return plan{own: map[string][]string{"n1": {"--raft-heartbeat", "2000"}}}
}

// heartbeats starts one node with a longer heartbeat than the others, makes it the leader, and
// disconnects it under load. Then the scenario changes the heartbeat while leaders change. The
// checkers of replies and charges detect a node that applies its own heartbeat instead of the
// heartbeat of the cluster. Finally, asyncHeartbeats disconnects a leader with the longer heartbeat in
// async mode.
func heartbeats(ctx context.Context, l *lab) error {
	if err := l.withTrial(ctx, mixedHeartbeats(), func(ctx context.Context, t *trial) error {
		for range l.repeated(3, 10) {
			if err := longLeaderCut(ctx, t, l.random); err != nil {
				return err
			}
		}
		changed := 0
		for _, ms := range []int{250, 1000, 100, 400, 250} {
			if err := t.setHeartbeat(ctx, ms); err != nil {
				return err
			}
			leader, err := t.awaitLeader(ctx)
			if err != nil {
				return err
			}
			t.countKill()
			if err := killed(ctx, t, leader, l.random); err != nil {
				return err
			}
			if err := t.heartbeatSettled(ctx, ms); err != nil {
				return err
			}
			changed++
		}
		l.out.note("heartbeat changes while a leader was killed", "%d", changed)
		return nil
	}); err != nil {
		return err
	}
	return l.asyncHeartbeats(ctx)
}

// longLeaderCut transfers the leadership to the node with the long heartbeat, and disconnects it
// under load.
func longLeaderCut(ctx context.Context, t *trial, _ *rand.Rand) error {
	n, err := t.leadBy(ctx, "n1")
	if err != nil {
		return err
	}
	t.countKill()
	others := t.otherAddrs(n)
	return t.whileCut(ctx, n, "cut off", rule{in: others, out: others, percent: 100}, 6*time.Second)
}

// leadBy transfers the leadership to a node.
func (t *trial) leadBy(ctx context.Context, id string) (n *node, err error) {
	err = await(ctx, startWithin, func() (bool, error) {
		leader, err := t.leader()
		if err != nil {
			return false, err
		}
		if n = leader; n.id == id {
			return true, nil
		}
		if _, err = askOnce(leader.addr(), patience, "CL.CLUSTER", "TRANSFER", id); err == nil {
			t.countKill()
		}
		return false, errors.Join(err, errors.New(leader.id+" leads"))
	})
	return n, err
}

// setHeartbeat changes the heartbeat of the cluster.
func (t *trial) setHeartbeat(ctx context.Context, ms int) error {
	t.note("set the heartbeat to %d ms", ms)
	node := 0
	return await(ctx, startWithin, func() (bool, error) {
		node++
		_, err := askOnce(t.nodes[node%len(t.nodes)].addr(), patience, "CL.CLUSTER", "SET", "raft-heartbeat", fmt.Sprint(ms))
		return err == nil, err
	})
}

// heartbeatSettled waits until the leader reports that all voters use the given heartbeat.
func (t *trial) heartbeatSettled(ctx context.Context, ms int) error {
	return await(ctx, startWithin, func() (bool, error) {
		leader, err := t.leader()
		if err != nil {
			return false, err
		}
		info, err := leader.info(patience)
		got := info["raft_heartbeat_usec"] + " " + info["raft_heartbeat_settled"]
		if want := fmt.Sprintf("%d yes", ms*1000); err == nil && got != want {
			err = fmt.Errorf("the heartbeat is %s", got)
		}
		return err == nil, err
	})
}

// asyncHeartbeats disconnects the node with the long heartbeat in async mode. It measures
// for how long this node admits requests after another node has begun to admit requests.
func (l *lab) asyncHeartbeats(ctx context.Context) (err error) {
	p := mixedHeartbeats()
	p.args = []string{"--replication", "async"}
	c, err := l.start(ctx, p)
	defer func() { err = errors.Join(err, c.close()) }()
	if err != nil {
		return err
	}
	t := &trial{cluster: c}
	n, err := t.leadBy(ctx, "n1")
	if err != nil {
		return err
	}
	all := c.probe(ctx)
	defer all.end()
	sleep(ctx, time.Second)
	others := c.otherAddrs(n)
	heal, err := n.host.cut(rule{in: others, out: others, percent: 100})
	if err != nil {
		return err
	}
	cut := c.clock.now() // the disconnected node decides later requests without the other nodes
	sleep(ctx, 6*time.Second)
	healed := c.clock.now()
	if err := heal(); err != nil {
		return err
	}
	first := all.firstAfter(cut, n)
	last := all.lastBefore(n, healed)
	l.out.note("async: after the cut", "the isolated node admits requests for %.0f ms, another node from %.0f ms on", float64(last-cut)/1e6, float64(first-cut)/1e6)
	if first == 0 {
		return errors.New("no other node decides")
	}
	l.out.atMost("  time in which both nodes admit requests", max(0, float64(last-first)/1e6), 0, "ms")
	return nil
}

// lastBefore considers the requests that node n decided before the given moment. It returns the
// time at which the last of them was sent.
func (p *probes) lastBefore(n *node, moment int64) (last int64) {
	for _, one := range p.all {
		one.mu.Lock()
		for _, o := range one.oks {
			if one.node == n && o.Return < moment {
				last = o.Call
			}
		}
		one.mu.Unlock()
	}
	return last
}
