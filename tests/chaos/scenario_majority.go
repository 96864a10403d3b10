package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

const (
	majorityDown = 12 * time.Second
	// majorityLost is the log time that may be lost in an outage. It covers the delay of
	// reading the clock, and the elections before and after the outage.
	majorityLost = 2 * time.Second
)

// majorityLoss kills both followers repeatedly, and checks that limits are restored during
// the outage. The checkers at the end verify that at most the units of the
// outage are restored.
func majorityLoss(ctx context.Context, l *lab) error {
	return l.withTrial(ctx, plan{}, func(ctx context.Context, t *trial) error {
		t.least = 5 // nothing is decided for most of the time
		worst := time.Duration(0)
		for i := range l.repeated(2, 5) {
			lost, err := t.loseMajority(ctx, majorityDown, i)
			if err != nil {
				return err
			}
			worst = max(worst, lost)
		}
		l.out.atMost("log time lost in an outage of "+majorityDown.String(), ms(worst), ms(majorityLost), "ms")
		return nil
	})
}

// followersKilled runs loseMajority once, for a random time. The scenario mutants calls followersKilled
// repeatedly.
func followersKilled(ctx context.Context, t *trial, r *rand.Rand) error {
	_, err := t.loseMajority(ctx, between(r, 2*time.Second, 4*time.Second), r.Int())
	return err
}

// loseMajority exhausts a key and keeps all nodes except the leader down for the duration d. It
// returns the time by which log time fell behind the clients' clock. It reports a finding if too few
// units of the key were restored. The round number makes the name of the key unique.
func (t *trial) loseMajority(ctx context.Context, d time.Duration, round int) (lost time.Duration, err error) {
	leader, err := t.awaitLeader(ctx)
	if err != nil {
		return 0, err
	}
	key := fmt.Sprintf("refill%d", round)
	for range 10 {
		if _, err := askOnce(leader.addr(), patience, "CL.THROTTLE", key, "9", "10", "10"); err != nil {
			return 0, err
		}
	}
	before, err := t.logTime(ctx)
	if err != nil {
		return 0, err
	}
	begun := t.clock.now()
	t.note("kill -9 of all nodes except %s, for %s", leader.id, d)
	var errs []error
	for _, n := range t.nodes {
		if n != leader {
			errs = append(errs, n.kill())
		}
	}
	sleep(ctx, d)
	t.note("start the killed nodes")
	for _, n := range t.nodes {
		errs = append(errs, n.start())
	}
	if err := errors.Join(append(errs, t.healthy(ctx, startWithin))...); err != nil {
		return 0, err
	}
	r, err := t.askAny(ctx, "CL.THROTTLE", key, "9", "10", "10", "0")
	if err != nil {
		return 0, err
	}
	after, err := t.logTime(ctx)
	if err != nil {
		return 0, err
	}
	passed := time.Duration(t.clock.now() - begun)
	lost = passed - time.Duration(after-before)
	t.note("after %s, log time is %s behind, and %d of 10 units are restored", passed, lost, r.list[2].n)
	if least := min(10, int64((d-majorityLost)/time.Second)); r.list[2].n < least {
		t.lab.out.found([]finding{{"refill", fmt.Sprintf("%d of 10 units are restored after %s without a majority; want at least %d", r.list[2].n, d, least)}})
	}
	return lost, nil
}

// askAny asks the nodes in turn until one of them returns a decision.
func (t *trial) askAny(ctx context.Context, words ...string) (r reply, err error) {
	node := 0
	err = await(ctx, healWithin, func() (bool, error) {
		node++
		var err error
		r, err = askOnce(t.nodes[node%len(t.nodes)].addr(), patience, words...)
		if err == nil && len(r.integers()) != 5 {
			err = errors.New("not a decision")
		}
		return err == nil, err
	})
	return r, err
}

// logTime returns the log time of the leader.
func (t *trial) logTime(ctx context.Context) (now uint64, err error) {
	err = await(ctx, healWithin, func() (bool, error) {
		leader, err := t.leader()
		if err != nil {
			return false, err
		}
		r, err := askOnce(leader.addr(), patience, "CL.CLUSTER", "STATUS")
		if err != nil {
			return false, err
		}
		for i := 0; i+1 < len(r.list); i += 2 {
			if r.list[i].text == "log-time" {
				now, err = strconv.ParseUint(r.list[i+1].text, 10, 64)
				return err == nil, err
			}
		}
		return false, errors.New("CL.CLUSTER STATUS lacks the log time")
	})
	return now, err
}
