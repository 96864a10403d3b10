package window

import (
	"time"

	"github.com/throttledhq/throttled/limiter"
)

const (
	// MaxParts is how many sub-windows a window can have.
	MaxParts = 1024
	// MaxPeriod is the longest window, 146 years. So two windows fit an int64 of nanoseconds,
	// and a state has two bits to spare beside the length.
	MaxPeriod = time.Duration(1<<62 - 1)
)

// NewLimit compiles a limit that admits limit units in a window of the given period, for
// Slide and for a Count of fixed windows with parts 1, and for a Count of several
// sub-windows with as many parts. A sub-window is rounded up to a whole nanosecond, so the
// window may be longer than the period by less than parts nanoseconds.
//
// The error is limiter.ErrRange if limit or period is not positive, if parts is not within
// 1..MaxParts, or if the window is longer than MaxPeriod.
func NewLimit(limit int64, period limiter.Period, parts int64) (limiter.Limit, error) {
	whole, ok := period.Duration()
	if !ok || limit < 1 || parts < 1 || parts > MaxParts || whole > MaxPeriod {
		return limiter.Limit{}, limiter.ErrRange
	}
	width := (int64(whole) + parts - 1) / parts
	if width > int64(MaxPeriod)/parts {
		return limiter.Limit{}, limiter.ErrRange
	}
	return limiter.Limit{Max: limit, Interval: time.Duration(width), Amount: parts}, nil
}
