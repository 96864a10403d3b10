package lessee

import (
	"sync/atomic"
	"time"
)

// clock converts the monotonic clock, which is fast to read, to a clock that includes the time in which the machine was
// suspended. A suspension moves the wall clock relative to the monotonic clock, as a step of the wall clock does. After
// either, the clock is set again.
type clock struct {
	start   time.Time
	boot    func() int64 // reads the clock that includes suspensions, which is slow
	setting atomic.Pointer[setting]
}

// setting holds the differences between the clocks.
type setting struct {
	wall int64 // wall time minus monotonic time
	boot int64 // time with suspensions minus monotonic time
}

// slack is the movement of the wall clock that does not cause a new setting. A lease in hand may be used for that long after
// it has ended, which is a quarter of the least margin of a lease (see package comment).
const slack = int64(10 * time.Microsecond)

// processStart is the zero of the monotonic clock.
var processStart = time.Now()

var systemClock = clock{start: processStart, boot: bootTime}

// Now returns the time since the machine was started, in nanoseconds, including the time in which it was suspended. On
// systems without such a clock, steps of the wall clock count as suspensions; a step forward ends leases early.
func Now() int64 { return systemClock.read(time.Now()) }

// read returns the time at the instant t, which must have a monotonic time.
func (c *clock) read(t time.Time) int64 {
	mono := int64(t.Sub(c.start))
	wall := t.UnixNano() - mono
	s := c.setting.Load()
	if s == nil || wall-s.wall > slack || s.wall-wall > slack {
		s = &setting{wall, c.boot() - mono} // late by the time between the two readings, which ends leases early
		c.setting.Store(s)
	}
	return mono + s.boot
}
