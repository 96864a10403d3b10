package buckets

import "time"

// Clock returns the limiter time in nanoseconds, below 1<<63. It must never decrease, and must be
// safe for concurrent use.
type Clock func() uint64

// NewClock returns a Clock that starts at base and follows the monotonic clock of the machine.
// Later changes of the wall clock have no effect on it. A base before 1970 counts as 1970.
func NewClock(base time.Time) Clock {
	start := time.Now()
	offset := uint64(max(base.UnixNano(), 0))
	return func() uint64 { return offset + uint64(time.Since(start)) }
}
