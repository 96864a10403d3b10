package windowlog

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

func TestNewLimit(t *testing.T) {
	const maxInt, minInt = math.MaxInt64, math.MinInt64
	ns := func(n int64) limiter.Period { return limiter.Period{N: n, Unit: 1} }
	for _, tt := range []struct {
		limit   int64
		period  limiter.Period
		entries int64
		want    limiter.Limit // the zero Limit means out of range
	}{
		{100, limiter.Seconds(3600), 100, limiter.Limit{Max: 100, Interval: time.Hour, Amount: 100}},
		{1, ns(1), 1, limiter.Limit{Max: 1, Interval: 1, Amount: 1}},
		{maxInt, ns(MaxPeriod), MaxEntries, limiter.Limit{Max: maxInt, Interval: MaxPeriod, Amount: 65536}},
		{1, limiter.Seconds(4_611_686_018), 1, limiter.Limit{Max: 1, Interval: 4_611_686_018 * time.Second, Amount: 1}},
		{1, ns(MaxPeriod + 1), 1, limiter.Limit{}},
		{1, limiter.Seconds(4_611_686_019), 1, limiter.Limit{}},
		{1, limiter.Seconds(maxInt), 1, limiter.Limit{}},
		{1, limiter.Seconds(1), MaxEntries + 1, limiter.Limit{}},
		{1, limiter.Seconds(1), maxInt, limiter.Limit{}},
		{0, limiter.Seconds(1), 1, limiter.Limit{}},
		{1, limiter.Seconds(0), 1, limiter.Limit{}},
		{1, limiter.Seconds(1), 0, limiter.Limit{}},
		{-1, limiter.Seconds(1), 1, limiter.Limit{}},
		{1, limiter.Seconds(-1), 1, limiter.Limit{}},
		{1, limiter.Seconds(1), -1, limiter.Limit{}},
		{minInt, ns(minInt), minInt, limiter.Limit{}},
	} {
		got, err := NewLimit(tt.limit, tt.period, tt.entries)
		if got != tt.want || errors.Is(err, limiter.ErrRange) != (tt.want == limiter.Limit{}) {
			t.Errorf("NewLimit(%d, %v, %d) = %+v, %v, want %+v", tt.limit, tt.period, tt.entries, got, err, tt.want)
		}
	}
}
