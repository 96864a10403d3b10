package gcra

import (
	"math"
	"math/bits"
	"time"

	"github.com/throttledhq/throttled/internal/muldiv"
	"github.com/throttledhq/throttled/limiter"
)

// NewLimit compiles a limit that admits bursts of maxBurst+1 units and count units in
// every period. The emission interval is rounded up, to at least 1 ns, so a rate above one
// unit a nanosecond is reduced to one unit a nanosecond.
//
// It returns limiter.ErrRange if maxBurst is negative, if count or period is not positive,
// or if the emission interval times maxBurst+1 is more than an int64 of nanoseconds.
func NewLimit(maxBurst, count int64, period limiter.Period) (limiter.Limit, error) {
	if maxBurst < 0 || count <= 0 || period.N <= 0 {
		return limiter.Limit{}, limiter.ErrRange
	}
	limit := uint64(maxBurst) + 1
	interval, ok := muldiv.Ceil(uint64(period.N), uint64(period.Unit), uint64(count))
	if !ok {
		return limiter.Limit{}, limiter.ErrRange
	}
	// Both factors are at least 1. If one of them does not fit an int64, the product does not fit either.
	if hi, tolerance := bits.Mul64(interval, limit); hi != 0 || tolerance > math.MaxInt64 {
		return limiter.Limit{}, limiter.ErrRange
	}
	return limiter.Limit{Max: int64(limit), Interval: time.Duration(interval)}, nil
}
