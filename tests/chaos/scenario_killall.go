package main

import (
	"context"
	"fmt"
)

// killall kills all nodes simultaneously and repeatedly. No acknowledged charge may be lost. One key
// is checked after every kill, and the ledger keys of the load are checked at the end.
func killall(ctx context.Context, l *lab) error {
	return l.withTrial(ctx, plan{args: []string{"--raft-fsync", "yes"}}, func(ctx context.Context, t *trial) error {
		cycles := l.repeated(20, 50)
		acknowledged := int64(0)
		for i := range cycles {
			n, err := t.chargeUntilKilled(ctx, i, acknowledged)
			if err != nil {
				return err
			}
			acknowledged = n
		}
		l.out.note("kills of all nodes", "%d, after %d charges of one client", cycles, acknowledged)
		return nil
	})
}

// chargeUntilKilled charges a key until all nodes are killed. The argument before is the number
// of units in use at its start. After the restart, the used units must equal before plus the
// acknowledged charges, or exceed this sum by one, for the charge whose reply was lost.
// chargeUntilKilled returns the used units, or the sum if the used units are wrong.
func (t *trial) chargeUntilKilled(ctx context.Context, cycle int, before int64) (acknowledged int64, err error) {
	const key = "cycle"
	leader, err := t.awaitLeader(ctx)
	if err != nil {
		return 0, err
	}
	link, err := dial(leader.addr())
	if err != nil {
		return 0, err
	}
	defer func() { _ = link.Close() }()
	acknowledged = before
	killed := make(chan error, 1)
	go func() {
		sleep(ctx, between(t.lab.random, 0, 1e9))
		killed <- killAll(ctx, t, t.lab.random)
	}()
	for {
		r, err := link.ask(patience, append([]string{"CL.THROTTLE", key}, slow()...)...)
		if f, _ := fateOf(&r, err); f != decided {
			break
		}
		acknowledged++
	}
	if err := <-killed; err != nil {
		return 0, err
	}
	if err := t.healthy(ctx, startWithin); err != nil {
		return 0, err
	}
	left, err := t.remaining(ctx, key)
	if err != nil {
		return 0, err
	}
	if used := slowBurst + 1 - left; used < acknowledged || used > acknowledged+1 {
		t.lab.out.found([]finding{{"ledger", fmt.Sprintf("cycle %d: %d units are in use after %d acknowledged charges", cycle, used, acknowledged)}})
	} else {
		acknowledged = used
	}
	return acknowledged, nil
}
