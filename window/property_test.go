package window

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/limiter/limitertest"
)

// check checks the invariants that hold for all algorithms. It also checks that Change.Set is set for
// each admitted charge or refund, even for a refund that has no effect.
func check(c limitertest.Decided) {
	c.Check()
	c.Expect(c.Change.Set == (!c.Got.Limited && c.Quantity != 0), "Change.Set must be true exactly for admitted requests with a quantity other than 0")
}

// anyState draws a state. Decisions may be unable to produce it, but it is usually well formed, with its newest
// sub-window near now.
func anyState(r *rand.Rand, l *limiter.Limit, n int, now uint64) limiter.State {
	width := uint64(l.Interval)
	if r.UintN(2) == 0 {
		width, n = uint64(anyInt(r))>>1+1, 1+r.IntN(2+n)
	}
	begin := now - now%width + width*r.Uint64N(4) - width
	counts := make([]uint64, n)
	for i := range counts {
		switch counts[i] = r.Uint64() >> r.UintN(64); r.UintN(8) {
		case 0:
			counts[i] = 0
		case 1, 2, 3:
			counts[i] = r.Uint64N(uint64(l.Max) + 1)
		}
	}
	s := state(time.Duration(width), begin, 1<<r.UintN(4), counts...)
	switch r.UintN(32) {
	case 0:
		s.Expires += r.Uint64() >> r.UintN(64)
	case 1:
		s.Data = s.Data[:r.IntN(len(s.Data)+1)]
	case 2:
		s.Data[r.IntN(8)] ^= 1 << r.UintN(8)
	}
	return s
}

// TestProperties makes single decisions on arbitrary states.
func TestProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for i := range 100_000 {
		f, n, l := limitertest.Decide(Slide), 2, fold(anyInt(r), anyInt(r), 1)
		if i%2 == 0 {
			f, l = Count, fold(anyInt(r), anyInt(r), 1+r.Int64N(5))
			n = int(l.Amount)
		}
		now := uint64(anyInt(r) - 1)
		quantity := anyQuantity(r, &l, limiter.Decision{Remaining: 1 + r.Int64N(l.Max)})
		check(f.Run(t, l, anyState(r, &l, n, now), now, quantity))
	}
}

func FuzzDecide(f *testing.F) {
	const hour = int64(time.Hour)
	add := func(sliding bool, limit, period, parts int64, s limiter.State, now uint64, quantity int64) {
		f.Add(sliding, limit, period, parts, s.Expires, s.Data, now, quantity)
	}
	now := t0 + uint64(20*time.Minute)
	add(true, 100, hour, 1, limiter.State{}, now, 1)
	add(true, 100, hour, 1, state(h, t0, 1, 84, 36), now, 30)
	add(true, 100, hour, 1, state(h, t0-uint64(h), 2, 84, 36), now, 70)
	add(true, 100, hour/2, 1, state(h, t0, 4, 84, 36), now, 70)
	add(true, 100, 3*hour/2, 1, state(20*m, t0+uint64(h), 1, 40, 30), t0+uint64(70*m), 40)
	add(true, 100, hour, 1, state(h, t0+uint64(h), 8, math.MaxUint64, 1), now, 0)
	add(false, 100, hour, 1, state(h, t0, 1, 84), now, 17)
	add(false, 100, hour, 3, state(20*m, t0, 1, 50, 30, 20), now, 60)
	add(false, 100, hour, 3, state(20*m, t0, 1, 50, 30, 20), now, -60)
	add(false, 100, hour, 7, state(20*m, t0, 8, 50, 30, 20), now, 60)
	add(false, 100, hour, 1, state(1, now, 1, 50, 30, 20), now, 60)
	add(false, math.MaxInt64, int64(MaxPeriod), MaxParts, state(MaxPeriod, 0, 8, 1<<63), endOfTime, math.MinInt64)
	f.Fuzz(func(t *testing.T, sliding bool, limit, period, parts int64, expires uint64, data []byte, now uint64, quantity int64) {
		d := limitertest.Decide(Count)
		if sliding {
			d, parts = Slide, 1
		}
		l := fold(limit, period, parts)
		check(d.Run(t, l, limiter.State{Expires: expires, Data: data}, now&endOfTime, quantity))
	})
}

// TestNeverOverAdmits sums the admitted units of random traffic over each interval in which the
// limit must hold: a clock-aligned window, and for BUCKETS any n consecutive sub-windows.
func TestNeverOverAdmits(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	full := 0
	for i := range 600 {
		f, parts := limitertest.Decide(Count), 1+r.Int64N(12)
		switch i % 3 {
		case 0:
			f, parts = Slide, 1
		case 1:
			parts = 1
		}
		l := fold(1+r.Int64N(500), anyInt(r), parts)
		admitted := map[uint64]int64{} // by sub-window
		s, now := limiter.State{}, uint64(anyInt(r)-1)
		for range 300 {
			quantity := 1 + r.Int64N(1+r.Int64N(l.Max))
			ch, d := f(&l, s, now, quantity, nil)
			s = limitertest.After(s, ch)
			current := now / uint64(l.Interval)
			if !d.Limited {
				admitted[current] += quantity
			}
			sum := int64(0)
			for n := range min(uint64(parts), current+1) {
				sum += admitted[current-n]
			}
			if sum > l.Max {
				t.Fatalf("limit %+v: %d units, more than the limit, are admitted in the window that ends with the sub-window at time %d", l, sum, now)
			}
			if sum == l.Max {
				full++
			}
			if d.Limited && r.UintN(2) == 0 {
				now += uint64(max(d.RetryAfter, 0))
			} else {
				now += r.Uint64N(1 + uint64(l.Interval)/(1+r.Uint64N(8)))
			}
			if now > endOfTime {
				break
			}
		}
	}
	if full < 2_000 {
		t.Errorf("the limit was reached %d times, want at least 2000", full)
	}
}

// TestStretches checks the bounds of BUCKETS over unaligned intervals. The limit holds in every interval of length
// period * (n-1)/n, but not in every interval of length period.
func TestStretches(t *testing.T) {
	l := mustLimit(t, 100, time.Hour, 3)
	s, now := limiter.State{}, t0
	type event struct {
		at       uint64
		quantity int64
	}
	var events []event
	r := rand.New(rand.NewPCG(11, 12))
	for range 3000 {
		quantity := 1 + r.Int64N(20)
		ch, d := Count(l, s, now, quantity, nil)
		if s = limitertest.After(s, ch); !d.Limited {
			events = append(events, event{now, quantity})
		}
		now += r.Uint64N(uint64(5 * time.Minute))
	}
	most := func(stretch time.Duration) int64 {
		most := int64(0)
		for i, first := range events {
			sum := int64(0)
			for _, e := range events[i:] {
				if e.at-first.at >= uint64(stretch) {
					break
				}
				sum += e.quantity
			}
			most = max(most, sum)
		}
		return most
	}
	if got := most(40 * time.Minute); got > 100 || got < 95 {
		t.Errorf("the maximum in 40 minutes is %d units, want 95 to 100", got)
	}
	if got := most(time.Hour); got <= 100 || got > 200 {
		t.Errorf("the maximum in an hour is %d units, want 101 to 200", got)
	}
}
