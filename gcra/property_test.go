package gcra

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// A decision with what it was asked and what it made of the state.
type decided struct {
	*testing.T
	l        limiter.Limit
	tat, now uint64
	quantity int64
	newTAT   uint64
	d        limiter.Decision
}

func decide(t *testing.T, l limiter.Limit, tat, now uint64, quantity int64) decided {
	newTAT, d := Decide(l, tat, now, quantity)
	return decided{t, l, tat, now, quantity, newTAT, d}
}

// expect fails the test, with the decision, unless ok.
func (c decided) expect(ok bool, what string) {
	c.Helper()
	if !ok {
		c.Fatalf("%s: Decide(%+v, %d, %d, %d) = %d, %+v", what, c.l, c.tat, c.now, c.quantity, c.newTAT, c.d)
	}
}

// check holds a decision to everything that is true of all of them.
func (c decided) check() {
	c.Helper()
	c.ranges()
	c.state()
	c.remaining()
	c.waits()
	if c.quantity == 1 {
		// The classical test: the old TAT against a tolerance of T * max_burst.
		tau := uint64(c.l.Interval) * uint64(c.l.Max-1)
		c.expect(c.d.Limited == (c.tat > c.now+tau), "classical GCRA decides otherwise")
	}
}

func (c decided) ranges() {
	c.Helper()
	d := c.d
	c.expect(d.Limit == c.l.Max && d.Err == nil, "limit and error")
	c.expect(0 <= d.Remaining && d.Remaining <= d.Limit, "remaining out of range")
	c.expect(d.ResetAfter >= 0, "negative reset after")
	c.expect(d.RetryAfter == limiter.NoRetry || d.Limited && d.RetryAfter > 0, "retry after out of range")
	c.expect(!d.Limited || (d.RetryAfter == limiter.NoRetry) == (c.quantity > c.l.Max), "retry after does not fit the quantity")
}

// state checks what becomes of the TAT.
func (c decided) state() {
	c.Helper()
	base := max(c.tat, c.now)
	switch {
	case c.d.Limited || c.quantity == 0:
		c.expect(c.newTAT == c.tat, "refused or peeked, but changed")
	case c.quantity < 0:
		c.expect(c.now <= c.newTAT && c.newTAT <= base, "refund beyond a full bucket")
	default:
		cost := uint64(c.l.Interval) * uint64(c.quantity)
		c.expect(c.newTAT == base+cost && c.newTAT > c.now, "charged another cost")
		c.expect(c.newTAT-c.now <= uint64(c.l.Interval)*uint64(c.l.Max), "charged beyond the tolerance")
		back := decide(c.T, c.l, c.newTAT, c.now, -c.quantity)
		back.expect(back.newTAT == base, "a refund does not undo the charge")
		part := decide(c.T, c.l, c.tat, c.now, c.quantity-c.quantity/2)
		rest := decide(c.T, c.l, part.newTAT, c.now, c.quantity/2)
		rest.expect(!part.d.Limited && !rest.d.Limited && rest.newTAT == c.newTAT, "two halves differ from the whole")
	}
	peek := decide(c.T, c.l, c.newTAT, c.now, 0)
	peek.expect(peek.d.Remaining == c.d.Remaining && peek.d.ResetAfter == c.d.ResetAfter, "a peek tells otherwise")
}

// remaining checks that what is said to remain is there, and no more.
func (c decided) remaining() {
	c.Helper()
	r := c.d.Remaining
	if r > 0 {
		all := decide(c.T, c.l, c.newTAT, c.now, r)
		all.expect(!all.d.Limited && all.d.Remaining == 0, "what remained is refused")
	}
	if r < c.l.Max {
		more := decide(c.T, c.l, c.newTAT, c.now, r+1)
		more.expect(more.d.Limited, "more than remained is admitted")
	}
}

// waits checks the two durations against what happens after them and 1 ns before. It
// leaves out waits that end outside the clock, and a TAT that is taken for nearer than
// it is.
func (c decided) waits() {
	c.Helper()
	if c.newTAT > c.now && c.newTAT-c.now > math.MaxInt64 {
		return
	}
	after := func(wait time.Duration, tat uint64, quantity int64) (decided, bool) {
		at := c.now + uint64(wait)
		return decide(c.T, c.l, tat, at, quantity), at <= math.MaxInt64
	}
	if retry := c.d.RetryAfter; retry != limiter.NoRetry {
		if again, ok := after(retry, c.tat, c.quantity); ok {
			again.expect(!again.d.Limited, "refused after its retry after")
			again, _ = after(retry-1, c.tat, c.quantity)
			again.expect(again.d.Limited && again.d.RetryAfter == 1, "admitted before its retry after")
		}
	}
	if reset := c.d.ResetAfter; reset > 0 {
		if full, ok := after(reset, c.newTAT, c.l.Max); ok {
			full.expect(!full.d.Limited, "not full after its reset after")
			full, _ = after(reset-1, c.newTAT, 0)
			full.expect(full.d.Remaining < c.l.Max && full.d.ResetAfter == 1, "full before its reset after")
		}
	}
}

func TestProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 300_000 {
		l := anyLimit(r)
		now := uint64(anyInt(r)) & math.MaxInt64
		tat := uint64(anyInt(r))
		// Most states are near the tolerance, where decisions change.
		switch size := uint64(l.Interval) * uint64(l.Max); r.UintN(4) {
		case 0:
			tat = now + r.Uint64N(size+1)
		case 1:
			tat = now + size - min(size, uint64(l.Interval)*r.Uint64N(3)) + r.Uint64N(3) - 1
		}
		decide(t, l, tat, now, anyQuantity(r, l)).check()
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
		decide(t, l, tat, now, quantity).check()
	})
}

// TestNeverOverAdmits runs random traces, refunds included, and checks over the stretch
// between any two requests that what was charged, less what was given back, is at most
// limit + rate * time, with the rate as it was asked for and not as it was rounded.
func TestNeverOverAdmits(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for range 100 {
		burst, count, period := r.Int64N(50), 1+r.Int64N(1+anyInt(r)&(1<<30-1)), 1+r.Int64N(100)
		l, err := NewLimit(burst, count, limiter.Seconds(period))
		if err != nil {
			t.Fatal(err)
		}
		trace := randomTrace(r, l)
		for i := range trace {
			net := int64(0)
			for j := i; j < len(trace); j++ {
				net += trace[j].charged
				// A stretch that ends in a refund starts with less and so proves less;
				// it is checked when the next charge comes.
				if trace[j].charged > 0 && exceeds(net-l.Max, trace[j].at-trace[i].at, count, period) {
					t.Fatalf("limit %d, %d per %d s: %d charged in %d ns", l.Max, count, period, net, trace[j].at-trace[i].at)
				}
			}
		}
	}
}

type event struct {
	at      uint64
	charged int64 // below 0: given back; 0: refused
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

// exceeds tells whether units come at more than count per period seconds in elapsed
// nanoseconds, by exact arithmetic.
func exceeds(units int64, elapsed uint64, count, period int64) bool {
	if units <= 0 {
		return false
	}
	hi, lo := bits.Mul64(uint64(units), uint64(period)*1e9)
	maxHi, maxLo := bits.Mul64(uint64(count), elapsed)
	return hi > maxHi || hi == maxHi && lo > maxLo
}

// TestSaturated counts what a client gets that asks again at every retry after: all that
// the rate allows, also where a whole bucket is shorter than a millisecond.
func TestSaturated(t *testing.T) {
	for _, tt := range []struct {
		burst, count, period int64
		want                 int64 // in one second, both ends included
	}{
		{0, 1, 1, 2},
		{4, 10, 1, 15},
		{4, 10_000, 1, 10_005},
		{0, 1500, 1, 1500}, // T = 666667 ns, so the 1501st comes 500 ns late
		{0, 100_000, 1, 100_001},
		{6000, 6000, 1, 12_000}, // T = 166667 ns, so the 12001st comes 2 us late
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
				t.Fatalf("%d %d %d: refused with %+v", tt.burst, tt.count, tt.period, d)
			}
			now += uint64(d.RetryAfter)
		}
		if got != tt.want {
			t.Errorf("%d %d %d: %d admitted in a second, want %d", tt.burst, tt.count, tt.period, got, tt.want)
		}
	}
}
