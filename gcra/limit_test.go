package gcra

import (
	"errors"
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/limiter/limitertest"
)

func TestNewLimit(t *testing.T) {
	const maxInt = math.MaxInt64
	for _, tt := range []struct {
		maxBurst, count, period int64
		want                    limiter.Limit
	}{
		{15, 30, 60, limiter.Limit{Max: 16, Interval: 2 * time.Second}},
		{0, 1, 1, limiter.Limit{Max: 1, Interval: time.Second}},
		{6000, 6000, 1, limiter.Limit{Max: 6001, Interval: 166_667}},
		{0, 8000, 1, limiter.Limit{Max: 1, Interval: 125 * time.Microsecond}},
		{0, 1_000_000, 1, limiter.Limit{Max: 1, Interval: time.Microsecond}},
		// Intervals are rounded up, by less than 1 ns and never to 0.
		{0, 3, 1, limiter.Limit{Max: 1, Interval: 333_333_334}},
		{0, 999_999_999, 1, limiter.Limit{Max: 1, Interval: 2}},
		{0, 1_000_000_000, 1, limiter.Limit{Max: 1, Interval: 1}},
		{0, 1_000_000_001, 1, limiter.Limit{Max: 1, Interval: 1}},
		{0, maxInt, 1, limiter.Limit{Max: 1, Interval: 1}},
		// The period in nanoseconds overflows 64 bits, but the interval fits.
		{0, maxInt, maxInt, limiter.Limit{Max: 1, Interval: time.Second}},
		{0, maxInt - 1, maxInt, limiter.Limit{Max: 1, Interval: time.Second + 1}},
		// The largest value of each parameter that fits.
		{maxInt - 1, 1_000_000_000, 1, limiter.Limit{Max: maxInt, Interval: 1}},
		{0, 1, 9_223_372_036, limiter.Limit{Max: 1, Interval: 9_223_372_036 * time.Second}},
		{4_611_686_017, 30, 60, limiter.Limit{Max: 4_611_686_018, Interval: 2 * time.Second}},
		{6, 7, 9_223_372_036, limiter.Limit{Max: 7, Interval: 1_317_624_576_571_428_572}},
	} {
		got, err := NewLimit(tt.maxBurst, tt.count, limiter.Seconds(tt.period))
		if got != tt.want || err != nil {
			t.Errorf("NewLimit(%d, %d, %d) = %+v, %v, want %+v", tt.maxBurst, tt.count, tt.period, got, err, tt.want)
		}
	}
}

func TestNewLimitRange(t *testing.T) {
	const maxInt, minInt = math.MaxInt64, math.MinInt64
	for _, tt := range []struct{ maxBurst, count, period int64 }{
		{-1, 1, 1},
		{minInt, 1, 1},
		{maxInt, 1_000_000_000, 1}, // the limit is maxBurst+1
		{0, 0, 1},
		{0, -1, 1},
		{0, minInt, 1},
		{0, 1, 0},
		{0, 1, -1},
		{0, 1, minInt},
		{0, -1, -1},
		{0, 1, 9_223_372_037}, // the interval does not fit
		{0, 1, maxInt},
		{0, 2, maxInt},
		{4_611_686_018, 30, 60}, // the tolerance does not fit
		{maxInt - 1, 999_999_999, 1},
		{maxInt - 1, 1, maxInt},
		// The interval is 1<<64 - 1 ns and a fraction, and must not wrap to 0 when it is rounded up.
		{0, 36_001_388, 664_108_390_734_318_167},
	} {
		got, err := NewLimit(tt.maxBurst, tt.count, limiter.Seconds(tt.period))
		if got != (limiter.Limit{}) || !errors.Is(err, limiter.ErrRange) {
			t.Errorf("NewLimit(%d, %d, %d) = %+v, %v, want ErrRange", tt.maxBurst, tt.count, tt.period, got, err)
		}
	}
}

// bigNewLimit is NewLimit on big integers.
func bigNewLimit(maxBurst, count, period int64) (limiter.Limit, error) {
	if maxBurst < 0 || count <= 0 || period <= 0 {
		return limiter.Limit{}, limiter.ErrRange
	}
	c := big.NewInt(count)
	interval := new(big.Int).Mul(big.NewInt(period), big.NewInt(1_000_000_000))
	interval.Add(interval, c).Sub(interval, big.NewInt(1)).Quo(interval, c)
	limit := new(big.Int).Add(big.NewInt(maxBurst), big.NewInt(1))
	if !limit.IsInt64() || !new(big.Int).Mul(interval, limit).IsInt64() {
		return limiter.Limit{}, limiter.ErrRange
	}
	return limiter.Limit{Max: limit.Int64(), Interval: time.Duration(interval.Int64())}, nil
}

func checkNewLimit(t *testing.T, maxBurst, count, period int64) (ok bool) {
	t.Helper()
	got, err := NewLimit(maxBurst, count, limiter.Seconds(period))
	want, wantErr := bigNewLimit(maxBurst, count, period)
	if got != want || err != wantErr {
		t.Fatalf("NewLimit(%d, %d, %d) = %+v, %v, want %+v, %v", maxBurst, count, period, got, err, want, wantErr)
	}
	return err == nil
}

func TestNewLimitOracle(t *testing.T) {
	limitertest.EachParameters(t, 300_000, func(a, b, c int64) bool { return checkNewLimit(t, a, b, c) })
}

func FuzzNewLimit(f *testing.F) {
	f.Add(int64(15), int64(30), int64(60))
	f.Add(int64(0), int64(1), int64(9_223_372_036))
	f.Add(int64(4_611_686_018), int64(30), int64(60))
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64))
	f.Add(int64(0), int64(36_001_388), int64(664_108_390_734_318_167))
	f.Add(int64(-1), int64(0), int64(math.MinInt64))
	f.Fuzz(func(t *testing.T, maxBurst, count, period int64) {
		checkNewLimit(t, maxBurst, count, period)
	})
}
