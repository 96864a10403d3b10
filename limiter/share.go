package limiter

import (
	"math"
	"time"
)

// Share returns a part of the limit, for one of several processes that each admit a part: its units and its rate. The part is
// greater than 0 and at most 1. A limit of at least one unit keeps one unit, but never more than the part of its rate.
func (l Limit) Share(k Kind, part float64) Limit {
	if part >= 1 {
		return l
	}
	whole := l
	l.Max = portion(whole.Max, part)
	switch k {
	case Throttle, LeakyBucket, ScaledThrottle, ScaledLeaky:
		l.Interval = stretch(whole.Interval, 1/part, l.Max)
	case TokenBucket, ScaledBucket:
		l.Amount = portion(whole.Amount, part)
		l.Interval = stretch(whole.Interval, float64(l.Amount)/(float64(whole.Amount)*part), (l.Max-1)/l.Amount+1)
	}
	return l
}

// portion returns a part of n units: at least 1, unless n is 0.
func portion(n int64, part float64) int64 {
	return max(min(1, n), int64(float64(n)*part))
}

// stretch multiplies an interval by a factor of at least about 1, and rounds it up. The result times n fits in an int64.
func stretch(interval time.Duration, factor float64, n int64) time.Duration {
	const longest = float64(1 << 62)
	return time.Duration(max(1, min(math.Ceil(float64(interval)*max(1, factor)), longest/float64(max(1, n)))))
}
