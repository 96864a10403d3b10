package main

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/tests/chaos/check"
	"github.com/throttledhq/throttled/tests/chaos/history"
)

// The load of shares: demand in requests per second, sent in a pipeline every shareEvery.
const (
	shareRate   = 1000 // units per second that the limit restores
	shareBurst  = 2 * shareRate
	heavyDemand = 2000
	lightDemand = heavyDemand / 10
	shareEvery  = 10 * time.Millisecond
)

// The course of shares: a time until the burst is spent, and the same time before and after the swap.
const (
	shareWarm   = 4 * time.Second
	shareFor    = 4 * time.Second
	shareWindow = 500 * time.Millisecond // the shares are averages of this time
)

// The bars of shares.
const (
	followWithin = 2 * time.Second
	leastTotal   = 0.9 // of the units that the limit restores
	sameShare    = 0.9 // of the earlier share of the larger demand; the shares have then followed
)

// shares measures how the shares of two sidecars in one limit follow their demand, which is 10 to 1 and is then swapped, and
// how much of the limit they admit together.
func shares(ctx context.Context, l *lab) error {
	return l.withFleet(ctx, fleetPlan{count: 2}, func(ctx context.Context, f *fleet) error {
		for i := range l.repeated(1, 5) {
			k := &history.Key{Name: "shared:" + itoa(int64(i)), MaxBurst: shareBurst, Count: shareRate, Period: time.Second}
			c := f.compete(ctx, k)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			c.judge(l.out)
		}
		f.countAll()
		f.showLeases()
		return nil
	})
}

// competition is the record of two clients of different sidecars that request the same limit.
type competition struct {
	key     *history.Key
	ops     [2][]history.Op // of each client
	swapped int64           // time at which the demand was swapped; the first client had the larger one before
	begun   int64           // time at which the burst was spent
	ended   int64
}

// compete runs a client on each of two sidecars, and swaps their demand.
func (f *fleet) compete(ctx context.Context, k *history.Key) (c competition) {
	c.key = k
	ctx, stop := context.WithCancel(ctx)
	var demand [2]atomic.Int64
	demand[0].Store(heavyDemand)
	demand[1].Store(lightDemand)
	var clients [2]*client
	var running sync.WaitGroup
	for i, s := range f.sidecars {
		w := newLoyal(i, s.addr(), f.clock, f.lab.seed)
		clients[i] = w
		running.Go(func() {
			sent, begun := int64(0), f.clock.now()
			w.repeat(ctx, shareEvery, func() {
				var reqs []request
				due := (f.clock.now() - begun) / int64(shareEvery) // a late tick sends the requests of those that it replaces
				for range (due - sent) * demand[i].Load() / int64(time.Second/shareEvery) {
					reqs = append(reqs, ofKey(k, 1))
				}
				if sent = due; len(reqs) > 0 {
					w.decide(reqs...)
				}
			})
		})
	}
	sleep(ctx, shareWarm) // the duration of the load, here and below
	c.begun = f.clock.now()
	sleep(ctx, shareFor)
	c.swapped = f.clock.now()
	demand[0].Store(lightDemand)
	demand[1].Store(heavyDemand)
	sleep(ctx, shareFor)
	c.ended = f.clock.now()
	stop()
	running.Wait()
	for i, w := range clients {
		c.ops[i] = w.ops
	}
	return c
}

// admitted returns the number of units that a client was granted in an interval.
func (c *competition) admitted(client int, from, to int64) (units int64) {
	for i := range c.ops[client] {
		if o := &c.ops[client][i]; o.Charges() && o.Return >= from && o.Return < to {
			units += o.Quantity
		}
	}
	return units
}

// share returns the part of all granted units of an interval that a client was granted.
func (c *competition) share(client int, from, to int64) float64 {
	own, all := c.admitted(client, from, to), c.admitted(0, from, to)+c.admitted(1, from, to)
	return float64(own) / float64(max(1, all))
}

// followed returns the time from the swap to the end of the first window in which the second client has nearly the share that
// the first client had before. It returns the whole time after the swap if there is no such window.
func (c *competition) followed() time.Duration {
	const step = int64(50 * time.Millisecond)
	want := sameShare * c.share(0, c.begun, c.swapped)
	for from := c.swapped; from+int64(shareWindow) <= c.ended; from += step {
		if to := from + int64(shareWindow); c.share(1, from, to) >= want {
			return time.Duration(to - c.swapped)
		}
	}
	return time.Duration(c.ended - c.swapped)
}

// judge prints the shares and the admitted units, and checks that the limit was not exceeded.
func (c *competition) judge(out *report) {
	seconds := float64(c.ended-c.begun) / 1e9
	total := float64(c.admitted(0, c.begun, c.ended)+c.admitted(1, c.begun, c.ended)) / (shareRate * seconds)
	out.note("share of the larger demand before the swap", "%.1f %%", 100*c.share(0, c.begun, c.swapped))
	for from := c.swapped; from+int64(shareWindow) <= c.ended; from += int64(shareWindow) {
		to := from + int64(shareWindow)
		out.note("  until "+time.Duration(to-c.swapped).Round(shareWindow/10).String()+" after the swap", "%.1f %%", 100*c.share(1, from, to))
	}
	out.atMost("time until the shares follow the demand", c.followed().Seconds(), followWithin.Seconds(), "s")
	out.atLeast("units admitted, of those that are restored", total, leastTotal, "x")
	s := check.Interval(c.key, slices.Concat(c.ops[0], c.ops[1]), check.Slack{})
	if s.Violated {
		out.found([]finding{{"interval", describe(c.key) + ": " + s.String()}})
	}
}
