package main

import (
	"context"
	"math/rand/v2"
	"time"
)

// short inflicts one fault of most kinds, in less than a minute.
func short(ctx context.Context, l *lab) error {
	return l.withTrial(ctx, plan{}, func(ctx context.Context, t *trial) error {
		p := t.probe(ctx)
		defer p.end()
		took, _, err := t.killLeader(ctx, p)
		if err != nil {
			return err
		}
		l.out.atMost("kill -9 of the leader to a decision", ms(took), ms(failoverMost), "ms")
		for _, f := range []func(context.Context, *trial, *rand.Rand) error{
			onLeader(pausedLong),
			onLeader(leaderCutOff(true, true)),
			onLeader(leaderCutOff(true, false)),
			onAny(lossy),
			onLeader(wrongClock),
			transferred,
			onFollower(killed),
			savedAndKilled,
			killAll,
		} {
			if err := f(ctx, t, l.random); err != nil {
				return err
			}
			if err := t.healthy(ctx, startWithin); err != nil {
				return err
			}
		}
		return nil
	})
}

// pausedLong pauses a leader for so long that a new one must be elected.
func pausedLong(ctx context.Context, t *trial, n *node, _ *rand.Rand) error {
	const long = 1500 * time.Millisecond
	t.awayFor(long)
	return t.pause(ctx, n, long)
}
