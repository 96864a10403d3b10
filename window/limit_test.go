package window

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

func TestNewLimit(t *testing.T) {
	const most = int64(MaxPeriod)
	for _, tt := range []struct {
		limit  int64
		period limiter.Period
		parts  int64
		width  time.Duration
	}{
		{100, limiter.Seconds(3600), 1, time.Hour},
		{100, limiter.Seconds(3600), 3, 20 * time.Minute},
		{1, limiter.Seconds(1), MaxParts, 976_563},
		{math.MaxInt64, limiter.Period{N: 250, Unit: time.Millisecond}, 1, 250 * time.Millisecond},
		// Sub-windows are rounded up, to at least 1 ns.
		{1, limiter.Period{N: 10, Unit: 1}, 3, 4},
		{1, limiter.Period{N: 1, Unit: 1}, MaxParts, 1},
		// The largest valid values.
		{1, limiter.Seconds(4_611_686_018), 1, 4_611_686_018 * time.Second},
		{1, limiter.Period{N: most, Unit: 1}, 1, MaxPeriod},
		{1, limiter.Period{N: most, Unit: 1}, 3, MaxPeriod / 3},
		{1, limiter.Period{N: most - MaxParts + 1, Unit: 1}, MaxParts, MaxPeriod / MaxParts},
	} {
		want := limiter.Limit{Max: tt.limit, Interval: tt.width, Amount: tt.parts}
		got, err := NewLimit(tt.limit, tt.period, tt.parts)
		if got != want || err != nil {
			t.Errorf("NewLimit(%d, %+v, %d) = %+v, %v, want %+v", tt.limit, tt.period, tt.parts, got, err, want)
		}
	}
}

func TestNewLimitRange(t *testing.T) {
	const most, minInt = int64(MaxPeriod), math.MinInt64
	hour := limiter.Seconds(3600)
	for _, tt := range []struct {
		limit  int64
		period limiter.Period
		parts  int64
	}{
		{0, hour, 1},
		{-1, hour, 1},
		{minInt, hour, 1},
		{1, hour, 0},
		{1, hour, -1},
		{1, hour, minInt},
		{1, hour, MaxParts + 1},
		{1, hour, math.MaxInt64},
		{1, limiter.Seconds(0), 1},
		{1, limiter.Seconds(-1), 1},
		{1, limiter.Seconds(minInt), 1},
		{1, limiter.Seconds(4_611_686_019), 1},
		{1, limiter.Seconds(math.MaxInt64), 1},
		{1, limiter.Period{N: most + 1, Unit: 1}, 1},
		{1, limiter.Period{N: most, Unit: 1}, 2}, // the rounded sub-windows exceed the maximum
		{1, limiter.Period{N: most, Unit: 1}, MaxParts},
	} {
		got, err := NewLimit(tt.limit, tt.period, tt.parts)
		if got != (limiter.Limit{}) || !errors.Is(err, limiter.ErrRange) {
			t.Errorf("NewLimit(%d, %+v, %d) = %+v, %v, want ErrRange", tt.limit, tt.period, tt.parts, got, err)
		}
	}
}

// TestNewLimitOracle compares NewLimit with the same computation in arbitrary-precision
// arithmetic.
func TestNewLimitOracle(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const steps = 100_000
	fit := 0
	for range steps {
		limit, period, parts := anyInt(r)-2, anyInt(r)-2, anyInt(r)-2
		if r.UintN(2) == 0 {
			parts = r.Int64N(MaxParts + 2)
		}
		width := new(big.Int).Add(big.NewInt(period), big.NewInt(parts))
		if width.Sub(width, big.NewInt(1)); parts > 0 {
			width.Div(width, big.NewInt(parts))
		}
		window := new(big.Int).Mul(width, big.NewInt(parts))
		var want limiter.Limit
		wantErr := limiter.ErrRange
		if limit >= 1 && period >= 1 && parts >= 1 && parts <= MaxParts && window.Cmp(big.NewInt(1<<62-1)) <= 0 {
			want = limiter.Limit{Max: limit, Interval: time.Duration(width.Int64()), Amount: parts}
			wantErr = nil
			fit++
		}
		if got, err := NewLimit(limit, limiter.Period{N: period, Unit: 1}, parts); got != want || err != wantErr {
			t.Fatalf("NewLimit(%d, %d ns, %d) = %+v, %v, want %+v, %v", limit, period, parts, got, err, want, wantErr)
		}
	}
	// Parameters in range and out of range must be frequent for the test to be meaningful.
	if fit < steps/10 || fit > steps*9/10 {
		t.Errorf("%d of %d sets of parameters are in range: too few or too many for a meaningful test", fit, steps)
	}
}
