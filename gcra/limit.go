package gcra

import (
	"errors"
	"math"
	"math/bits"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// ErrRange is returned by NewLimit for parameters that describe no limit, or one whose
// times do not fit an int64 of nanoseconds.
var ErrRange = errors.New("rate limit parameters out of range")

// NewLimit compiles a limit that admits maxBurst+1 units at once and count units in
// every period seconds. The emission interval is rounded up, to at least 1 ns, so a
// rate above one unit a nanosecond is cut to that.
//
// The error is ErrRange if maxBurst is negative, if count or period is not positive,
// or if the emission interval times maxBurst+1 is more than an int64 of nanoseconds.
func NewLimit(maxBurst, count, period int64) (limiter.Limit, error) {
	if maxBurst < 0 || count <= 0 || period <= 0 {
		return limiter.Limit{}, ErrRange
	}
	limit := uint64(maxBurst) + 1
	interval, ok := ceilDiv(uint64(period), uint64(time.Second), uint64(count))
	if !ok {
		return limiter.Limit{}, ErrRange
	}
	// Both are at least 1, so either one being out of range by itself is caught here too.
	if hi, tolerance := bits.Mul64(interval, limit); hi != 0 || tolerance > math.MaxInt64 {
		return limiter.Limit{}, ErrRange
	}
	return limiter.Limit{Max: int64(limit), Interval: time.Duration(interval)}, nil
}

// ceilDiv returns a*b/c rounded up, and whether it fits. The sum of a*b and c must be
// below 1<<128.
func ceilDiv(a, b, c uint64) (uint64, bool) {
	hi, lo := bits.Mul64(a, b)
	// Rounding before the division, not after it, leaves no increment that could wrap.
	lo, carry := bits.Add64(lo, c-1, 0)
	hi += carry
	if hi >= c {
		return 0, false
	}
	q, _ := bits.Div64(hi, lo, c)
	return q, true
}

// CeilSeconds returns d in whole seconds, rounded up, which is how replies state a time
// to wait: whoever waits that long has waited long enough, and a wait is never 0.
// [limiter.NoRetry] stays -1.
func CeilSeconds(d time.Duration) int64 {
	if d == limiter.NoRetry {
		return -1
	}
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return s
}
