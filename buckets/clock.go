package buckets

import "time"

// Clock tells limiter time in nanoseconds, below 1<<63. It must never go back, and may
// be called from many goroutines at once.
type Clock func() uint64

// NewClock returns a Clock that starts at base and follows the machine's monotonic
// clock, whatever happens to the wall clock meanwhile. A base before 1970 counts as 1970.
func NewClock(base time.Time) Clock {
	start := time.Now()
	offset := uint64(max(base.UnixNano(), 0))
	return func() uint64 { return offset + uint64(time.Since(start)) }
}
