package gcra

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/limiter/limitertest"
)

// common adapts Decide to the signature of the other algorithms, so that the rules that hold for
// all algorithms can be checked.
var common limitertest.Decide = func(l *limiter.Limit, old limiter.State, now uint64, quantity int64, _ []byte) (limiter.Change, limiter.Decision) {
	tat, d := Decide(*l, old.Expires, now, quantity)
	return limiter.Change{Set: tat != old.Expires, Expires: tat}, d
}

// check tests a decision against the rules that hold for all algorithms, and against the
// expected TAT.
func check(t *testing.T, l limiter.Limit, tat, now uint64, quantity int64) {
	c := common.Run(t, l, limiter.State{Expires: tat}, now, quantity)
	newTAT, base := c.After().Expires, max(tat, now)
	if newTAT > now && newTAT-now > math.MaxInt64 {
		c.CheckNow() // ResetAfter is capped, so rules about later times do not hold
	} else {
		c.Check()
	}
	switch {
	case c.Got.Limited || quantity == 0:
		c.Expect(newTAT == tat, "a refused request or a peek changed the TAT")
	case quantity < 0:
		c.Expect(now <= newTAT && newTAT <= base, "the TAT after a refund is not between now and the TAT before it")
	default:
		cost := uint64(l.Interval) * uint64(quantity)
		c.Expect(newTAT == base+cost && newTAT > now, "a charge did not move the TAT by T * quantity")
		c.Expect(newTAT-now <= uint64(l.Interval)*uint64(l.Max), "the TAT after a charge is further ahead than the burst tolerance")
		back := c.Then(0, -quantity)
		back.Expect(back.After().Expires == base, "a refund of the whole charge does not restore the TAT")
		part := common.Run(t, l, c.Old, now, quantity-quantity/2)
		rest := part.Then(0, quantity/2)
		rest.Expect(!part.Got.Limited && !rest.Got.Limited && rest.After().Expires == newTAT, "two partial charges differ from one charge")
	}
	if quantity == 1 {
		// The classical condition compares the old TAT with a tolerance of T * max_burst.
		tau := uint64(l.Interval) * uint64(l.Max-1)
		c.Expect(c.Got.Limited == (tat > now+tau), "classical GCRA decides differently")
	}
}

func TestProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 300_000 {
		l := anyLimit(r)
		now := uint64(limitertest.AnyInt(r)) & math.MaxInt64
		tat := uint64(limitertest.AnyInt(r))
		// A quarter of the states are within the burst tolerance. Another quarter are near its end,
		// where decisions change.
		switch size := uint64(l.Interval) * uint64(l.Max); r.UintN(4) {
		case 0:
			tat = now + r.Uint64N(size+1)
		case 1:
			tat = now + size - min(size, uint64(l.Interval)*r.Uint64N(3)) + r.Uint64N(3) - 1
		}
		check(t, l, tat, now, limitertest.AnyQuantity(r, l))
	}
}

func FuzzDecide(f *testing.F) {
	const now = 1_700_000_000_000_000_000
	f.Add(int64(4), int64(1e9-1), uint64(0), uint64(now), int64(1))
	f.Add(int64(4), int64(1e9-1), uint64(now+4e9), uint64(now), int64(1))
	f.Add(int64(4), int64(1e9-1), uint64(now+4e9+1), uint64(now), int64(1))
	f.Add(int64(4), int64(1e9-1), uint64(now+5e9), uint64(now), int64(0))
	f.Add(int64(4), int64(1e9-1), uint64(now+6e9), uint64(now), int64(0))
	f.Add(int64(4), int64(1e9-1), uint64(now-1), uint64(now), int64(6))
	f.Add(int64(4), int64(1e9-1), uint64(now+3e9), uint64(now), int64(-1))
	f.Add(int64(4), int64(1e9-1), uint64(now+3e9), uint64(now), int64(math.MinInt64))
	f.Add(int64(math.MaxInt64-1), int64(0), uint64(math.MaxUint64), uint64(math.MaxInt64), int64(math.MaxInt64))
	f.Add(int64(0), int64(math.MaxInt64-1), uint64(math.MaxUint64), uint64(0), int64(1))
	f.Fuzz(func(t *testing.T, limit, interval int64, tat, now uint64, quantity int64) {
		l := fold(limit, interval)
		now &= math.MaxInt64
		newWalk(t, tat, now).step(l, quantity)
		check(t, l, tat, now, quantity)
	})
}

// TestNeverOverAdmits runs random traces, refunds included. Between any two requests, the units
// charged minus the units refunded must be at most limit + rate * time. The rate is the
// requested rate, not the rounded one.
func TestNeverOverAdmits(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for range 100 {
		burst, count, period := r.Int64N(50), 1+r.Int64N(1+limitertest.AnyInt(r)&(1<<30-1)), 1+r.Int64N(100)
		l, err := NewLimit(burst, count, limiter.Seconds(period))
		if err != nil {
			t.Fatal(err)
		}
		trace := randomTrace(r, l)
		for i := range trace {
			net := int64(0)
			for j := i; j < len(trace); j++ {
				net += trace[j].charged
				// Only intervals that end with a charge are checked. A refund at the end makes the
				// sum smaller, so the check would be weaker.
				if trace[j].charged > 0 && limitertest.Exceeds(net-l.Max, trace[j].at-trace[i].at, count, period) {
					t.Fatalf("limit %d, rate %d per %d s: %d units were charged in %d ns, more than limit + rate * time", l.Max, count, period, net, trace[j].at-trace[i].at)
				}
			}
		}
	}
}

type event struct {
	at      uint64
	charged int64 // below 0 if refunded, 0 if refused
}

func randomTrace(r *rand.Rand, l limiter.Limit) []event {
	var trace []event
	tat, now := uint64(0), uint64(1e18)
	for range 300 {
		quantity := 1 + r.Int64N(l.Max)
		if r.UintN(4) == 0 {
			quantity = 1
		}
		if r.UintN(10) == 0 {
			quantity = -quantity
		}
		newTAT, d := Decide(l, tat, now, quantity)
		tat = newTAT
		if d.Limited {
			quantity = 0
		}
		trace = append(trace, event{now, quantity})
		switch {
		case d.Limited && r.UintN(2) == 0:
			now += uint64(d.RetryAfter)
		case r.UintN(3) == 0:
			now += r.Uint64N(uint64(2*l.Interval) + 1)
		case r.UintN(20) == 0:
			now += uint64(d.ResetAfter)
		}
	}
	return trace
}

// TestSaturated counts the units admitted if a client repeats its request after each RetryAfter.
// The client must get all units that the rate allows, even if the whole bucket is restored in less
// than a millisecond.
func TestSaturated(t *testing.T) {
	for _, tt := range []struct {
		burst, count, period int64
		want                 int64 // units admitted in one second, including both ends
	}{
		{0, 1, 1, 2},
		{4, 10, 1, 15},
		{4, 10_000, 1, 10_005},
		{0, 1500, 1, 1500}, // T = 666667 ns, so the 1501st unit is admitted 500 ns after the end of the second
		{0, 100_000, 1, 100_001},
		{6000, 6000, 1, 12_000}, // T = 166667 ns, so the 12001st unit is admitted 2 us after the end of the second
		{99, 6000, 60, 200},
	} {
		l, err := NewLimit(tt.burst, tt.count, limiter.Seconds(tt.period))
		if err != nil {
			t.Fatal(err)
		}
		const start = uint64(1e18)
		tat, now, got := uint64(0), start, int64(0)
		for now <= start+1e9 {
			newTAT, d := Decide(l, tat, now, 1)
			tat = newTAT
			if !d.Limited {
				got++
				continue
			}
			if d.RetryAfter <= 0 {
				t.Fatalf("burst %d, count %d, period %d: a request is refused, but RetryAfter is not above 0: %+v", tt.burst, tt.count, tt.period, d)
			}
			now += uint64(d.RetryAfter)
		}
		if got != tt.want {
			t.Errorf("burst %d, count %d, period %d: %d units were admitted in a second, want %d", tt.burst, tt.count, tt.period, got, tt.want)
		}
	}
}
