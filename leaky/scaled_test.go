package leaky

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/throttledhq/throttled/gcra"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/limiter/limitertest"
)

var scaled = limitertest.Decide(DecideScaled)

// under returns a state that was charged under an emission interval.
func under(interval time.Duration, tat uint64) limiter.State {
	return limiter.State{Expires: tat, Data: binary.LittleEndian.AppendUint64(nil, uint64(interval))}
}

// checkScaled compares a decision with that of gcra, and checks the wait. If the interval is unchanged, it also compares
// the decision with that of Decide.
func checkScaled(t *testing.T, l limiter.Limit, old limiter.State, now uint64, quantity int64) {
	c := scaled.Run(t, l, old, now, quantity)
	want := limitertest.Decide(gcra.DecideScaled).Run(t, l, old, now, quantity)
	plain := c.Got
	plain.Wait = 0
	c.Expect(plain == want.Got && c.Change.Set == want.Change.Set && c.After().Expires == want.After().Expires, "gcra has another result", want)
	tat, stored := gcra.Rescale(&old, l.Interval, now)
	switch {
	case c.Got.Limited:
		c.Expect(c.Got.Wait == limiter.NoRetry, "a refused request has a wait")
	case quantity < 0:
		c.Expect(c.Got.Wait == 0, "a refund has a wait")
	default:
		c.Expect(c.Got.Wait == time.Duration(max(tat, now)-now), "the wait is not the used time before the charge", tat)
	}
	if stored == l.Interval {
		same := decide.Run(t, l, limiter.State{Expires: old.Expires}, now, quantity)
		c.Expect(same.Got == c.Got && same.After().Expires == c.After().Expires, "Decide has another result", same)
	}
}

func TestScaled_Properties(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 15))
	for range limitertest.Steps(100_000) {
		l, from := anyLimit(r), anyLimit(r)
		if r.UintN(2) == 0 {
			from = l
		}
		now := uint64(limitertest.AnyInt(r)) & math.MaxInt64
		old := under(from.Interval, now+r.Uint64N(uint64(from.Interval)*uint64(from.Max)+1))
		checkScaled(t, l, old, now, limitertest.AnyQuantity(r, l))
	}
}

// TestScaled_Changes checks the waits of requests after a change of the limit.
func TestScaled_Changes(t *testing.T) {
	slow, fast := fold(4, 12e9-1), fold(7, 75e8-1) // 5 and 8 a minute
	s := scaled.Run(t, slow, limiter.State{}, t0, 5).After()
	for i, wait := range []time.Duration{375e8, 45e9, 525e8, limiter.NoRetry} {
		c := scaled.Run(t, fast, s, t0, 1)
		c.Expect(c.Got.Wait == wait && c.Got.Limited == (wait < 0), "request has another wait", i, wait)
		s = c.After()
	}
}

func FuzzDecideScaled(f *testing.F) {
	for _, quantity := range []int64{1, 3, 4, 0, -1, 9, math.MinInt64} {
		f.Add(int64(7), int64(75e8-1), int64(12e9), t0+60e9, t0, quantity)
		f.Add(int64(4), int64(12e9-1), int64(75e8), t0+45e9, t0, quantity)
		f.Add(int64(4), int64(12e9-1), int64(12e9), t0+48e9, t0, quantity)
	}
	f.Add(int64(math.MaxInt64-1), int64(0), int64(math.MaxInt64), uint64(math.MaxInt64), uint64(0), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, capacity, interval, stored int64, expires, now uint64, quantity int64) {
		now &= math.MaxInt64
		expires = now + min(max(expires, now)-now, math.MaxInt64) // the wait of a longer queue is capped
		checkScaled(t, fold(capacity, interval), under(time.Duration(stored), expires), now, quantity)
	})
}

func TestScaled_AllocatesNothing(t *testing.T) {
	room := make([]byte, 0, 8)
	l := fold(99, 1e9-1)
	for _, interval := range []time.Duration{l.Interval, 3 * l.Interval} {
		for _, quantity := range []int64{1, 0, -1, 100, 200} {
			s := under(interval, t0+7e9)
			limitertest.NoAllocs(t, "DecideScaled", func() { DecideScaled(&l, s, t0, quantity, room) })
		}
	}
}

func BenchmarkDecideScaled(b *testing.B) {
	room := make([]byte, 0, 8)
	l := fold(99, 1e9-1)
	b.ReportAllocs()
	s := under(l.Interval, t0+7e9)
	for b.Loop() {
		DecideScaled(&l, s, t0, 3, room)
	}
}
