package tokenbucket

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
	const maxInt, minInt = math.MaxInt64, math.MinInt64
	for _, tt := range []struct {
		capacity, amount int64
		interval         limiter.Period
		want             limiter.Limit // the zero Limit means out of range
	}{
		{4, 2, limiter.Seconds(1), limiter.Limit{Max: 4, Amount: 2, Interval: time.Second}},
		{10, 1, limiter.Seconds(3600), limiter.Limit{Max: 10, Amount: 1, Interval: time.Hour}},
		{1, 1, limiter.Period{N: 1, Unit: 1}, limiter.Limit{Max: 1, Amount: 1, Interval: 1}},
		// A refill amount above the capacity is valid: each refill fills the bucket.
		{1, maxInt, limiter.Period{N: maxInt, Unit: 1}, limiter.Limit{Max: 1, Amount: maxInt, Interval: maxInt}},
		{maxInt, maxInt, limiter.Period{N: maxInt, Unit: 1}, limiter.Limit{Max: maxInt, Amount: maxInt, Interval: maxInt}},
		{maxInt, 1, limiter.Period{N: 1, Unit: 1}, limiter.Limit{Max: maxInt, Amount: 1, Interval: 1}},
		// Adding 7 tokens, 2 per refill, takes 4 intervals. 4 * 2 305 843 009 s fits in an int64 of nanoseconds,
		// 4 * 2 305 843 010 s does not.
		{7, 2, limiter.Seconds(2_305_843_009), limiter.Limit{Max: 7, Amount: 2, Interval: 2_305_843_009 * time.Second}},
		{7, 2, limiter.Seconds(2_305_843_010), limiter.Limit{}},
		{maxInt, maxInt - 1, limiter.Period{N: maxInt, Unit: 1}, limiter.Limit{}},
		{maxInt, 1, limiter.Period{N: 2, Unit: 1}, limiter.Limit{}},
		{maxInt, 1, limiter.Period{N: maxInt, Unit: 1}, limiter.Limit{}},
		{1, 1, limiter.Seconds(9_223_372_037), limiter.Limit{}},
		{0, 1, limiter.Seconds(1), limiter.Limit{}},
		{1, 0, limiter.Seconds(1), limiter.Limit{}},
		{1, 1, limiter.Seconds(0), limiter.Limit{}},
		{-1, 1, limiter.Seconds(1), limiter.Limit{}},
		{1, -1, limiter.Seconds(1), limiter.Limit{}},
		{1, 1, limiter.Seconds(-1), limiter.Limit{}},
		{minInt, minInt, limiter.Seconds(minInt), limiter.Limit{}},
	} {
		got, err := NewLimit(tt.capacity, tt.amount, tt.interval)
		if got != tt.want || errors.Is(err, limiter.ErrRange) != (tt.want == limiter.Limit{}) {
			t.Errorf("NewLimit(%d, %d, %v) = %+v, %v, want %+v", tt.capacity, tt.amount, tt.interval, got, err, tt.want)
		}
	}
}

// checkNewLimit compares NewLimit with the same computation on big integers.
func checkNewLimit(t *testing.T, capacity, amount, interval int64) (ok bool) {
	t.Helper()
	l, err := NewLimit(capacity, amount, limiter.Period{N: interval, Unit: 1})
	fits := capacity > 0 && amount > 0 && interval > 0
	if fits {
		refills, rest := new(big.Int).QuoRem(big.NewInt(capacity), big.NewInt(amount), new(big.Int))
		if rest.Sign() > 0 {
			refills.Add(refills, big.NewInt(1))
		}
		fits = refills.Mul(refills, big.NewInt(interval)).IsInt64()
	}
	want, wantErr := limiter.Limit{}, limiter.ErrRange
	if fits {
		want, wantErr = limiter.Limit{Max: capacity, Amount: amount, Interval: time.Duration(interval)}, nil
	}
	if l != want || err != wantErr {
		t.Fatalf("NewLimit(%d, %d, %d) = %+v, %v, want %+v, %v", capacity, amount, interval, l, err, want, wantErr)
	}
	return fits
}

func TestNewLimitOracle(t *testing.T) {
	limitertest.EachParameters(t, 200_000, func(a, b, c int64) bool { return checkNewLimit(t, a, b, c) })
}

func FuzzNewLimit(f *testing.F) {
	f.Add(int64(4), int64(2), int64(time.Second))
	f.Add(int64(7), int64(2), int64(2_305_843_010)*int64(time.Second))
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64-1), int64(math.MaxInt64))
	f.Add(int64(-1), int64(0), int64(math.MinInt64))
	f.Fuzz(func(t *testing.T, capacity, amount, interval int64) {
		checkNewLimit(t, capacity, amount, interval)
	})
}
