package limiter

import (
	"math"
	"time"
)

// Share returns a part of the limit, for one of several processes that each admit a part: its units and its rate. The part is
// greater than 0 and at most 1. A limit of at least one unit keeps one unit, so that windows of few units have more than
// the part: a limit of one unit admits one in each of the processes. The rate of limits that restore units continuously,
// and of buckets, is never more than the part.
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

// Refused returns the refusal of a request that no authority has decided. The request may be repeated after the given time,
// unless its quantity exceeds the limit.
func (l Limit) Refused(quantity int64, retry time.Duration) Decision {
	d := Decision{Limited: true, Limit: l.Max, RetryAfter: retry, ResetAfter: retry, Wait: NoRetry}
	if quantity > l.Max {
		d.RetryAfter = NoRetry
	}
	return d
}

// RetryWhole sets the retry time of a refusal by a share if the quantity exceeds the share, but not the whole limit: the
// authority may admit it later.
func (d *Decision) RetryWhole(quantity, whole int64, retry time.Duration) {
	if d.Limited && d.RetryAfter == NoRetry && quantity <= whole {
		d.RetryAfter, d.ResetAfter = retry, max(d.ResetAfter, retry)
	}
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
