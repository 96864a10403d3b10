package windowlog

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/limiter/limitertest"
)

// Benchmarks store their results here, as a caller would, to prevent the compiler from optimizing
// the calls away.
var (
	outChange limiter.Change
	out       limiter.Decision
	outLimit  limiter.Limit
	outErr    error
)

// fill returns the state of a key after n requests that are at most gap nanoseconds apart, and a time
// after the last request.
func fill(l *limiter.Limit, n int, gap, quantity int64) (limiter.State, uint64) {
	r := rand.New(rand.NewPCG(1, 2))
	s, now := limiter.State{}, t0
	for range n {
		c, d := Decide(l, s, now, quantity, nil)
		if d.Limited {
			panic("request refused while filling a log")
		}
		s = limitertest.After(s, c)
		now += uint64(1 + r.Int64N(gap))
	}
	return s, now
}

// BenchmarkDecide repeats decisions on one log of 1000 entries.
func BenchmarkDecide(b *testing.B) {
	l := limiter.Limit{Max: 1010, Interval: time.Hour, Amount: MaxEntries}
	state, now := fill(&l, 1000, int64(time.Millisecond), 1)
	room := make([]byte, 1<<20)
	for _, br := range []struct {
		name     string
		quantity int64
	}{
		{"charge", 1}, {"charge-3", 3}, {"refuse-11", 11}, {"refuse-500", 500}, {"refuse-1010", 1010},
		{"oversize", 1011}, {"peek", 0}, {"refund", -1}, {"refund-500", -500}, {"refund-all", -1000},
	} {
		b.Run(br.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				outChange, out = Decide(&l, state, now, br.quantity, room)
			}
		})
	}
	b.Run("charge-fresh", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			outChange, out = Decide(&l, limiter.State{}, now, 1, room)
		}
	})
}

// BenchmarkSteady charges a log in a steady state, in which about as many entries expire as are
// added, and stores the changes. It reports the bytes written per charge.
func BenchmarkSteady(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 8192, 65000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			const gap = int64(time.Millisecond)
			l := limiter.Limit{Max: 1 << 40, Interval: time.Duration(n) * time.Duration(gap) / 2, Amount: MaxEntries}
			m := meter{l: l, room: make([]byte, 1<<20)}
			m.state, m.now = fill(&l, n, gap, 1)
			m.state.Data = append(make([]byte, 0, 1<<20), m.state.Data...)
			r := rand.New(rand.NewPCG(3, 4))
			var gaps [4096]uint64
			for i := range gaps {
				gaps[i] = 1 + r.Uint64N(uint64(gap))
			}
			for b.Loop() {
				outChange, out = Decide(&l, m.state, m.now, 1, m.room)
				m.store(outChange)
				m.now += gaps[m.charges%len(gaps)]
			}
			b.ReportMetric(float64(m.written)/float64(m.charges), "written/op")
		})
	}
}

// BenchmarkWalk peeks at a log in which all entries except one have expired. Each peek visits all
// expired entries.
func BenchmarkWalk(b *testing.B) {
	for _, quantity := range []int64{1, 1000} {
		b.Run(fmt.Sprintf("quantity-%d", quantity), func(b *testing.B) {
			const n = 1000
			l := limiter.Limit{Max: 1 << 40, Interval: time.Hour, Amount: MaxEntries}
			s, now := fill(&l, n, int64(time.Millisecond), quantity)
			var g log
			g.open(s, uint64(l.Interval), now)
			now = g.last + uint64(l.Interval) - 1
			for b.Loop() {
				outChange, out = Decide(&l, s, now, 0, nil)
			}
			if out.Remaining != l.Max-quantity {
				b.Fatalf("the last peek returned %+v, want all units except the units of one entry", out)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/entry")
		})
	}
}
