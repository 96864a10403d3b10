package leaky

import (
	"math"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/limiter/limitertest"
)

// branches has a case for each path through Decide, for the benchmark and the allocation
// test. Each case is decided at t0 with branchLimit.
var branches = []struct {
	name     string
	tat      uint64
	quantity int64
}{
	{"admit-fresh", 0, 1},
	{"admit-used", t0 + 7e9, 3},
	{"refuse", t0 + 100e9, 1},
	{"oversize", t0 + 7e9, 101},
	{"peek", t0 + 7e9, 0},
	{"refund", t0 + 7e9, -3},
	{"refund-clamped", t0 + 7e9, math.MinInt64},
}

var branchLimit = limiter.Limit{Max: 100, Interval: time.Second}

// Results are stored here so that the compiler does not optimize the calls away.
var (
	outChange limiter.Change
	out       limiter.Decision
	outLimit  limiter.Limit
	outErr    error
)

func BenchmarkDecide(b *testing.B) {
	room := make([]byte, 64)
	for _, br := range branches {
		b.Run(br.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				outChange, out = Decide(&branchLimit, limiter.State{Expires: br.tat}, t0, br.quantity, room)
			}
		})
	}
	// One key is charged at twice its rate. Each decision depends on the TAT from the
	// previous decision, and every second request is refused.
	b.Run("sequence", func(b *testing.B) {
		b.ReportAllocs()
		now, s := t0, limiter.State{}
		for b.Loop() {
			if outChange, out = Decide(&branchLimit, s, now, 1, room); outChange.Set {
				s.Expires = outChange.Expires
			}
			now += uint64(branchLimit.Interval) / 2
		}
	})
}

// TestAllocs checks that no branch of Decide allocates memory, and that NewLimit allocates none,
// whether or not it returns an error.
func TestAllocs(t *testing.T) {
	room := make([]byte, 64)
	for _, br := range branches {
		limitertest.NoAllocs(t, "Decide "+br.name, func() {
			outChange, out = Decide(&branchLimit, limiter.State{Expires: br.tat}, t0, br.quantity, room)
		})
	}
	limitertest.NoAllocs(t, "NewLimit", func() { outLimit, outErr = NewLimit(15, 30, limiter.Seconds(60)) })
	limitertest.NoAllocs(t, "NewLimit out of range", func() { outLimit, outErr = NewLimit(0, 30, limiter.Seconds(60)) })
}
