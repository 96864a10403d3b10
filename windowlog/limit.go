package windowlog

import "github.com/throttledhq/throttled/limiter"

// Limits of the parameters of NewLimit.
const (
	// MaxPeriod is the longest period in nanoseconds, 146 years.
	MaxPeriod = 1<<62 - 1
	// MaxEntries is the maximum number of requests in a log.
	MaxEntries = 1 << 16
)

// NewLimit compiles a limit that admits at most limit units in any window of length period. The
// entries parameter is the maximum number of requests in the log.
//
// The error is limiter.ErrRange if a parameter is not positive, if period is more than
// MaxPeriod, or if entries is more than MaxEntries.
func NewLimit(limit int64, period limiter.Period, entries int64) (limiter.Limit, error) {
	length, ok := period.Duration()
	if limit <= 0 || !ok || length > MaxPeriod || entries <= 0 || entries > MaxEntries {
		return limiter.Limit{}, limiter.ErrRange
	}
	return limiter.Limit{Max: limit, Interval: length, Amount: entries}, nil
}
