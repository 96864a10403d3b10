//go:build !linux

package lessee

import (
	"sync/atomic"
	"time"
)

// lastTime is the latest result of bootTime.
var lastTime atomic.Int64

// bootTime returns the time since the start of the process by the monotonic clock or by the wall clock, whichever is more.
// It never decreases.
func bootTime() int64 {
	now := time.Now()
	t := int64(max(now.Sub(processStart), now.Round(0).Sub(processStart.Round(0))))
	for last := lastTime.Load(); t > last; last = lastTime.Load() {
		if lastTime.CompareAndSwap(last, t) {
			return t
		}
	}
	return lastTime.Load()
}
