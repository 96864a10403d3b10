package main

import (
	"context"
	"fmt"
	"time"
)

// clockScenario gives each node a different wrong wall clock, and replaces the leader by
// kills and transfers. Each new leader has a different wall time, which must not cause it
// to admit more than the limits.
func clockScenario(ctx context.Context, l *lab) error {
	return l.withTrial(ctx, plan{}, func(ctx context.Context, t *trial) error {
		end := time.Now().Add(l.lasting(45 * time.Second))
		rounds := 0
		for ; time.Now().Before(end); rounds++ {
			if err := t.skew(rounds); err != nil {
				return err
			}
			sleep(ctx, between(l.random, 200*time.Millisecond, time.Second))
			leader, err := t.awaitLeader(ctx)
			if err != nil {
				return err
			}
			t.countKill()
			if rounds%2 == 0 {
				err = killed(ctx, t, leader, l.random)
			} else {
				err = t.transfer(ctx, leader)
			}
			if err != nil {
				return err
			}
			// In addition, change the wall clock of a random node.
			if err := wrongClock(ctx, t, t.nodes[l.random.IntN(len(t.nodes))], l.random); err != nil {
				return err
			}
		}
		for _, n := range t.nodes {
			if err := n.setWall(0); err != nil {
				return err
			}
		}
		l.out.note("leaders made unavailable while clocks are wrong", "%d", rounds)
		return nil
	})
}

// skew gives each node a different wall clock.
func (t *trial) skew(round int) error {
	moves := []time.Duration{time.Hour, -time.Hour, 5 * time.Second, -5 * time.Second, 0, 24 * time.Hour}
	for i, n := range t.nodes {
		by := moves[(round+i*2)%len(moves)]
		t.note("the wall clock of %s is wrong by %s", n.id, by)
		if err := n.setWall(by); err != nil {
			return fmt.Errorf("wall clock of %s: %w", n.id, err)
		}
	}
	return nil
}
