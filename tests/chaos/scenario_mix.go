package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// The default duration of mix, and its timeout if a number of faults or decisions is required.
const (
	mixFor  = time.Minute
	mixMost = 30 * time.Minute
)

// mix inflicts random faults, mostly one at a time and sometimes two concurrently. The first fault
// kills the leader.
func mix(ctx context.Context, l *lab) error {
	var t *trial
	done := map[string]int{}
	err := l.withTrial(ctx, plan{args: l.variant()}, func(ctx context.Context, begun *trial) error {
		t = begun
		end := time.Now().Add(l.lasting(l.mixLasts()))
		f := faults[0]
		for time.Now().Before(end) && ctx.Err() == nil && !l.enough(sum(done), int(t.load.decided.Load())) {
			if err := t.inflict(ctx, f, done); err != nil {
				return err
			}
			sleep(ctx, between(l.random, 0, 1500*time.Millisecond))
			f = faults[l.random.IntN(len(faults))]
		}
		return nil
	})
	if t != nil {
		l.showFaults(done)
		l.demand("checked decisions", t.judged.decided, l.ops)
	}
	return err
}

// inflict inflicts a fault, and sometimes a second one concurrently.
func (t *trial) inflict(ctx context.Context, f fault, done map[string]int) error {
	r := t.lab.random
	var wait sync.WaitGroup
	var second error
	if g := faults[r.IntN(len(faults))]; r.IntN(6) == 0 {
		own := rand.New(rand.NewPCG(r.Uint64(), 0))
		done[g.name]++
		wait.Go(func() { second = t.suffer(ctx, g, own) })
	}
	done[f.name]++
	first := t.suffer(ctx, f, r)
	wait.Wait()
	if err := firstOf(first, second); err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	return nil
}

// mixLasts returns the duration of mix if no flag sets it.
func (l *lab) mixLasts() time.Duration {
	if l.faults > 0 || l.ops > 0 {
		return mixMost
	}
	return mixFor
}

// enough reports whether all required counts are reached. It returns false if no count is required:
// mix then stops after its duration.
func (l *lab) enough(faults, decided int) bool {
	// Some decisions are not checked, for example if the linearizability check of a key times out.
	margin := l.ops / 100
	return (l.faults > 0 || l.ops > 0) && faults >= l.faults && decided >= l.ops+margin
}

// demand prints a count. The last argument is the bar that the count must reach; 0 means that there
// is no bar.
func (l *lab) demand(what string, got, least int) {
	if least == 0 {
		l.out.note(what, "%d", got)
		return
	}
	l.out.atLeast(what, float64(got), float64(least), "")
}

// showFaults prints how often each fault was inflicted.
func (l *lab) showFaults(done map[string]int) {
	l.demand("faults", sum(done), l.faults)
	for _, f := range faults {
		if n := done[f.name]; n > 0 {
			l.out.note("  "+f.name, "%d", n)
		}
	}
}

// variant returns the --raft-fsync setting for mix, which depends on the seed.
func (l *lab) variant() []string {
	return []string{"--raft-fsync", []string{"yes", "no"}[l.random.IntN(2)]}
}

// suffer inflicts one fault.
func (t *trial) suffer(ctx context.Context, f fault, r *rand.Rand) error {
	if f.kills {
		t.countKill()
	}
	return f.inflict(ctx, t, r)
}

// awayAfter is the time after which an unreachable leader must have been replaced: the
// followers wait for at most two heartbeats, and one election may fail.
const awayAfter = time.Second

// awayFor counts a kill if the leader is unreachable for at least awayAfter.
func (t *trial) awayFor(d time.Duration) {
	if d >= awayAfter {
		t.countKill()
	}
}

// countKill counts a leader that becomes unavailable. It does not count a leader within awayAfter of the
// last counted one, since both faults may affect the same leader.
func (t *trial) countKill() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); now.Sub(t.killed) >= awayAfter {
		t.kills++
		t.killed = now
	}
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func sum(m map[string]int) (n int) {
	for _, k := range m {
		n += k
	}
	return n
}

// lasting returns the duration of a scenario: the value of the flag -for, or the argument own if
// the flag is not set.
func (l *lab) lasting(own time.Duration) time.Duration {
	if l.last > 0 {
		return l.last
	}
	return own
}

// repeated returns the number of repetitions of a scenario: the value of the flag -times if that is
// set, the argument bar if the flag -bars is set, and otherwise the argument own.
func (l *lab) repeated(own, bar int) int {
	switch {
	case l.times > 0:
		return l.times
	case l.bars:
		return bar
	}
	return own
}
