package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	"github.com/throttledhq/throttled/tests/chaos/history"
)

const (
	lateAskers = 40
	lateAfter  = 1200 * time.Millisecond // time within which a new leader is elected
	latePause  = 1400 * time.Millisecond
)

// askedWhilePaused pauses the leader for so long that another node becomes the leader. Shortly before
// the old leader resumes, many clients send it requests. The old leader reads them before
// it detects that it is deposed, and must not answer them from its own state.
func askedWhilePaused(ctx context.Context, t *trial, r *rand.Rand) error {
	leader, err := t.awaitLeader(ctx)
	if err != nil {
		return err
	}
	t.countKill()
	t.note("pause %s for %s, with requests waiting", leader.id, latePause)
	var links []*conn
	for range lateAskers {
		c, err := dial(leader.addr())
		if err != nil {
			break // fewer connections are sufficient
		}
		links = append(links, c)
	}
	if err := leader.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	sleep(ctx, lateAfter)
	var asking sync.WaitGroup
	for i, c := range links {
		k := t.load.keys.ledger[i%ledgerKeys]
		if i%2 == 0 {
			k = t.load.keys.hot[r.IntN(hotKeys)]
		}
		asking.Go(func() { t.load.add(t.askLate(c, k, leader)) })
	}
	sleep(ctx, latePause-lateAfter)
	t.note("resume %s", leader.id)
	err = leader.signal(syscall.SIGCONT)
	asking.Wait()
	return err
}

// askLate peeks at a key and returns the recorded requests.
func (t *trial) askLate(c *conn, k *history.Key, n *node) []history.Op {
	defer func() { _ = c.Close() }()
	asker := client{id: -1, addrs: []string{n.addr()}, clock: t.clock, conn: c, refused: map[string]int{}, lost: map[string]int{}}
	asker.throttle(k, 0)
	for i := range asker.ops {
		asker.ops[i].Node = t.place(n)
	}
	return asker.ops
}

// place returns the index of a node in the cluster, or -1 if the node is not in it.
func (c *cluster) place(n *node) int {
	for i := range c.nodes {
		if c.nodes[i] == n {
			return i
		}
	}
	return -1
}
