package gcra

import (
	"math"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
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
	{"refuse-part", t0 + 90e9, 50},
	{"oversize", t0 + 7e9, 101},
	{"peek", t0 + 7e9, 0},
	{"refund", t0 + 7e9, -3},
	{"refund-clamped", t0 + 7e9, math.MinInt64},
}

var branchLimit = limiter.Limit{Max: 100, Interval: time.Second}

// Results are stored here so that the compiler does not optimize the calls away.
var (
	outTAT   uint64
	out      limiter.Decision
	outLimit limiter.Limit
	outErr   error
)

func BenchmarkDecide(b *testing.B) {
	for _, br := range branches {
		b.Run(br.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				outTAT, out = Decide(branchLimit, br.tat, t0, br.quantity)
			}
		})
	}
	// One key is charged at twice its rate. Each decision depends on the TAT from the
	// previous decision, and every second request is refused.
	b.Run("sequence", func(b *testing.B) {
		b.ReportAllocs()
		now := t0
		outTAT = 0
		for b.Loop() {
			outTAT, out = Decide(branchLimit, outTAT, now, 1)
			now += uint64(branchLimit.Interval) / 2
		}
	})
}

func BenchmarkNewLimit(b *testing.B) {
	b.ReportAllocs()
	count := int64(0)
	for b.Loop() {
		count = count%1000 + 1
		outLimit, outErr = NewLimit(15, count, limiter.Seconds(60))
	}
}
