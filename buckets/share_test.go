package buckets

import (
	"math"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// TestUsedShare checks the share of each kind after charges, against the decisions.
func TestUsedShare(t *testing.T) {
	for kind := limiter.Throttle; kind < limiter.Ban; kind++ {
		clock := newFakeClock()
		table := New(Config{Clock: clock.read})
		limit := limiter.Limit{Max: 100, Interval: time.Hour, Amount: 1}
		switch kind {
		case limiter.WindowLog:
			limit.Amount = 100
		case limiter.Calendar:
			limit.Amount = int64(clock.read() + uint64(time.Hour))
		}
		for _, quantity := range []int64{1, 9, 30, 60} {
			var out [1]limiter.Decision
			table.Decide([]limiter.Request{{Kind: kind, Key: []byte("k"), Limit: limit, Quantity: quantity}}, out[:])
			want := float64(out[0].Limit-out[0].Remaining) / 100
			for rec := range table.Records() {
				share, known := UsedShare(&rec, clock.read())
				if !known || math.Abs(share-want) > want/8 {
					t.Errorf("%v (%s): share %v, known %t after a charge of %d; want %v", kind, kind.Encoding(), share, known, quantity, want)
				}
				rec.Gauge = 0
				if share, known := UsedShare(&rec, clock.read()); known {
					t.Errorf("%v: share %v without a gauge, want none", kind, share)
				}
			}
		}
	}
}

// TestUsedShare_Classes checks that the share of a class is in this class.
func TestUsedShare_Classes(t *testing.T) {
	for class := 1; class < shareClasses; class++ {
		share, _ := UsedShare(&limiter.Record{Kind: limiter.FixedWindow, Gauge: byte(class)}, 0)
		if got := shareClass(share, 1); got != class {
			t.Errorf("class %d: share %v, which has class %d", class, share, got)
		}
	}
}
