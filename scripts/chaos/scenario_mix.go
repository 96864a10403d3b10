package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// How long mix goes on by itself: to see what happens, and at the most to reach what is demanded.
const (
	mixFor  = time.Minute
	mixMost = 30 * time.Minute
)

// mix inflicts faults at random, mostly one after the other, sometimes two at once. The first takes
// the leader away.
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
			rest(ctx, between(l.random, 0, 1500*time.Millisecond))
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

// inflict inflicts a fault, and now and then another one at the same time.
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

// mixLasts is how long mix goes on if no flag says so.
func (l *lab) mixLasts() time.Duration {
	if l.faults > 0 || l.ops > 0 {
		return mixMost
	}
	return mixFor
}

// enough reports whether all that is demanded is reached. Where nothing is, time alone counts.
func (l *lab) enough(faults, decided int) bool {
	// Some of what is decided is not checked, as when the search of a key takes too long.
	margin := l.ops / 100
	return (l.faults > 0 || l.ops > 0) && faults >= l.faults && decided >= l.ops+margin
}

// demand prints a count, beside the least that is asked for if any is.
func (l *lab) demand(what string, got, least int) {
	if least == 0 {
		l.out.note(what, "%d", got)
		return
	}
	l.out.atLeast(what, float64(got), float64(least), "")
}

// showFaults says what was inflicted, and how often.
func (l *lab) showFaults(done map[string]int) {
	l.demand("faults", sum(done), l.faults)
	for _, f := range faults {
		if n := done[f.name]; n > 0 {
			l.out.note("  "+f.name, "%d", n)
		}
	}
}

// variant is how the nodes of mix are told to write to disk, by the seed.
func (l *lab) variant() []string {
	return []string{"--raft-fsync", []string{"yes", "no"}[l.random.IntN(2)]}
}

// suffer inflicts one fault.
func (t *trial) suffer(ctx context.Context, f fault, r *rand.Rand) error {
	if f.kills {
		t.kill()
	}
	return f.inflict(ctx, t, r)
}

// awayAfter is for how long a leader has to be out of reach so that another one is due: the rest wait
// for twice the time between heartbeats at the most, and may fail to agree once.
const awayAfter = time.Second

// awayFor counts a leader that is out of reach for some time, if that takes it away.
func (t *trial) awayFor(d time.Duration) {
	if d >= awayAfter {
		t.kill()
	}
}

// kill counts a leader that is taken away. What happens to it twice at the same time counts once.
func (t *trial) kill() {
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

// lasting is how long a scenario goes on: as the flag says, or its own time.
func (l *lab) lasting(own time.Duration) time.Duration {
	if l.last > 0 {
		return l.last
	}
	return own
}

// repeated is how often a scenario does what it counts: as the flag says, at the size of its bar, or
// in short.
func (l *lab) repeated(own, bar int) int {
	switch {
	case l.times > 0:
		return l.times
	case l.bars:
		return bar
	}
	return own
}
