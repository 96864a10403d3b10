package lessee_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/throttledhq/throttled/gcra"
	"github.com/throttledhq/throttled/lease"
	"github.com/throttledhq/throttled/lease/leasetest"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/tokenbucket"
	"github.com/throttledhq/throttled/window"
	"github.com/throttledhq/throttled/windowlog"
)

// simulatedLimit is the limit of a simulation.
type simulatedLimit struct {
	base   limiter.Kind // of the limit
	limit  limiter.Limit
	decide lease.Algorithm
	unit   int64          // time in which one unit is restored on average
	rule   leasetest.Rule // nil: the limit restores units evenly, see evenly

	full    uint64 // time at which the bucket is full, by the state after the last decision
	since   uint64 // time of this decision
	refills []uint64
}

// algorithms are the kinds of the simulations.
var algorithms = map[limiter.Kind]lease.Algorithm{
	limiter.Throttle:      gcra.DecideState,
	limiter.FixedWindow:   window.Count,
	limiter.WindowBuckets: window.Count,
	limiter.SlidingWindow: window.Slide,
	limiter.WindowLog:     windowlog.Decide,
	limiter.TokenBucket:   tokenbucket.Decide,
}

// simulated lists the keys of algorithms.
var simulated = []limiter.Kind{
	limiter.Throttle, limiter.FixedWindow, limiter.WindowBuckets, limiter.SlidingWindow, limiter.WindowLog, limiter.TokenBucket,
}

// newSimulatedLimit returns a random limit of a kind.
func newSimulatedLimit(kind limiter.Kind, rng *rand.Rand) simulatedLimit {
	s := simulatedLimit{base: kind, decide: algorithms[kind]}
	if kind == limiter.Throttle {
		s.limit = limiter.Limit{Max: 500 + rng.Int64N(1000), Interval: time.Duration(5+rng.Int64N(20)) * time.Millisecond / 10}
		s.unit = int64(s.limit.Interval)
		return s
	}
	l := limiter.Limit{Max: 200 + rng.Int64N(200), Interval: time.Duration(300+rng.Int64N(500)) * time.Millisecond, Amount: 1}
	width := uint64(l.Interval)
	s.unit = int64(l.Interval) / l.Max
	switch kind {
	case limiter.FixedWindow:
		s.rule = leasetest.Windows{Width: width, Parts: 1, Limit: l.Max}
	case limiter.SlidingWindow:
		s.rule = leasetest.Sliding{Width: width, Limit: l.Max}
	case limiter.WindowBuckets:
		l.Amount = 2 + rng.Int64N(3)
		s.unit *= l.Amount
		s.rule = leasetest.Windows{Width: width, Parts: uint64(l.Amount), Limit: l.Max}
	case limiter.WindowLog:
		l.Amount = 4096
		s.rule = leasetest.ChangedWindows{Kind: kind}
	case limiter.TokenBucket:
		l.Amount = 50 + rng.Int64N(50)
		s.unit = int64(l.Interval) / l.Amount
		s.rule = leasetest.Refills{}
	}
	s.limit = l
	return s
}

// used returns the used units of the key, or for a Throttle the used time.
func (w *world) used() int64 {
	if w.base == limiter.Throttle {
		tat := w.state.Expires
		if w.kind.Leased() {
			tat = lease.Inner(w.state).Expires
		}
		return max(0, int64(tat-min(tat, start))-w.now)
	}
	peek := w.plain(0)
	peek.Limit.Max = 1 << 30
	if w.base == limiter.WindowLog {
		peek.Limit.Amount = 1 << 16 // a full log has no remaining units
	}
	return peek.Limit.Max - w.authority(&peek).Remaining
}

// units converts a difference of used into units, rounded up.
func (w *world) units(used int64) int64 {
	switch w.base {
	case limiter.Throttle:
		return (used + w.unit - 1) / w.unit
	case limiter.SlidingWindow:
		return used + 1 // the part of the previous window is rounded
	}
	return used
}

// excess returns an error if the spent units exceed the limit.
func (w *world) excess() error {
	if w.rule == nil {
		return w.evenly()
	}
	h := &leasetest.History{}
	h.Charge(start, w.limit)
	for _, at := range w.refills {
		h.Refill(at, w.limit.Amount)
	}
	for _, s := range w.spent {
		if at := start + uint64(s.at); s.units > 0 {
			h.Spend(at, s.units)
		} else {
			h.Refund(at, -s.units)
		}
	}
	return h.Check(w.rule, w.rng)
}

// countRefills records the refills of a bucket since the last decision, and the time at which it is full now.
func (w *world) countRefills(now uint64) {
	if w.base != limiter.TokenBucket {
		return
	}
	interval := uint64(w.limit.Interval)
	if w.full > w.since {
		for at := w.full - (w.full-w.since-1)/interval*interval; at <= min(now, w.full); at += interval {
			w.refills = append(w.refills, at)
		}
	}
	peek := w.plain(0)
	_, _, d := w.decided(&peek, now)
	w.full, w.since = now+uint64(d.ResetAfter), now
}

// evenly checks that the units spent in an interval are at most those of the limit and those that are restored evenly.
func (w *world) evenly() error {
	charged, least := int64(0), int64(0)
	for i, s := range w.spent {
		if before := charged - s.at; i == 0 || before < least {
			least = before
		}
		charged += s.units * w.unit
		if excess := charged - s.at - least - w.unit*w.limit.Max; excess > 0 {
			return fmt.Errorf("at %v, by %v", time.Duration(s.at), time.Duration(excess))
		}
	}
	return nil
}
