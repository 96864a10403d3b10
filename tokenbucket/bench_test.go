package tokenbucket

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
	state    limiter.State
	quantity int64
}{
	{"admit-fresh", limiter.State{}, 1},
	{"admit-used", encode(t0+70e9, 70, t0-5e8), 3},
	{"admit-refilled", encode(t0+40e9, 70, t0-29e9), 3},
	{"refuse", encode(t0+100e9, 100, t0-5e8), 1},
	{"refuse-part", encode(t0+90e9, 90, t0-5e8), 50},
	{"oversize", encode(t0+70e9, 70, t0-5e8), 101},
	{"peek", encode(t0+70e9, 70, t0-5e8), 0},
	{"refund", encode(t0+70e9, 70, t0-5e8), -3},
	{"refund-clamped", encode(t0+70e9, 70, t0-5e8), math.MinInt64},
}

var branchLimit = limiter.Limit{Max: 100, Amount: 1, Interval: time.Second}

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
				outChange, out = Decide(&branchLimit, br.state, t0, br.quantity, room)
			}
		})
	}
	// One key is charged at twice its rate. Each decision depends on the state from the
	// previous decision, and every second request is refused.
	b.Run("sequence", func(b *testing.B) {
		b.ReportAllocs()
		now, s := t0, limiter.State{Data: make([]byte, 0, dataSize)}
		for b.Loop() {
			if outChange, out = Decide(&branchLimit, s, now, 1, room); outChange.Set {
				s = limiter.State{Expires: outChange.Expires, Data: append(s.Data[:0], outChange.Tail...)}
			}
			now += uint64(branchLimit.Interval) / 2
		}
	})
}

func BenchmarkNewLimit(b *testing.B) {
	b.ReportAllocs()
	amount := int64(0)
	for b.Loop() {
		amount = amount%1000 + 1
		outLimit, outErr = NewLimit(1000, amount, limiter.Seconds(60))
	}
}
