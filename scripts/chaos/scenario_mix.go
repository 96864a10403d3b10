package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// mix inflicts faults at random, mostly one after the other, sometimes two at once.
func mix(ctx context.Context, l *lab) error {
	return l.withTrial(ctx, plan{args: l.variant()}, func(ctx context.Context, t *trial) error {
		done := map[string]int{}
		defer l.showFaults(done)
		end := time.Now().Add(l.lasting(60 * time.Second))
		for n := 0; time.Now().Before(end) && (l.faults == 0 || n < l.faults); n++ {
			both := l.random.IntN(6) == 0
			f, g := faults[l.random.IntN(len(faults))], faults[l.random.IntN(len(faults))]
			var wait sync.WaitGroup
			var second error
			if both {
				r := rand.New(rand.NewPCG(l.random.Uint64(), 0))
				done[g.name]++
				wait.Go(func() { second = t.suffer(ctx, g, r) })
			}
			done[f.name]++
			first := t.suffer(ctx, f, l.random)
			wait.Wait()
			if first != nil || second != nil {
				return fmt.Errorf("%s: %w", f.name, firstOf(first, second))
			}
			rest(ctx, between(l.random, 0, 1500*time.Millisecond))
		}
		return nil
	})
}

// showFaults says what was inflicted, and how often.
func (l *lab) showFaults(done map[string]int) {
	l.out.note("faults", "%d", sum(done))
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

// kill counts a leader that is taken away.
func (t *trial) kill() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kills++
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

// repeated is how often a scenario does what it counts.
func (l *lab) repeated(own int) int {
	if l.times > 0 {
		return l.times
	}
	return own
}
