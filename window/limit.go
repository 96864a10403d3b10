package window

import (
	"time"

	"github.com/throttledhq/throttled/limiter"
)

const (
	// MaxParts is the maximum number of sub-windows of a window.
	MaxParts = 1024
	// MaxPeriod is the longest window, 146 years. Two windows of this length fit in an int64 of
	// nanoseconds. In the header of a state, a length of at most MaxPeriod leaves two bits for the
	// counter size.
	MaxPeriod = time.Duration(1<<62 - 1)
)

// NewLimit compiles a limit that admits at most limit units per window of the given period. If
// parts is 1, the result is for Slide, or for Count with fixed windows. If parts is above 1, it is
// for Count with that many sub-windows. The length of a sub-window is rounded up to a whole
// nanosecond, so the window may exceed the period by less than parts nanoseconds.
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
