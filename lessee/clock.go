package lessee

import (
	"math"
	"sync/atomic"
	"time"
)

// clock converts the monotonic clock, which is fast to read, to a clock that includes the time in which the machine was
// suspended. A suspension moves the wall clock relative to the monotonic clock, as a step of the wall clock does. After
// either, the clock is set again.
type clock struct {
	start   time.Time
	lead    func() int64 // measures the time with suspensions minus monotonic time, which is slow
	setting atomic.Pointer[setting]
}

// setting holds the differences between the clocks.
type setting struct {
	wall int64 // wall time minus monotonic time
	lead int64 // time with suspensions minus monotonic time
}

// slack is the movement of the wall clock that does not cause a new setting. A lease in hand may be used for that long after
// it has ended, which is a quarter of the least margin of a lease (see package comment).
const slack = int64(10 * time.Microsecond)

// processStart is the zero of the monotonic clock.
var processStart = time.Now()

var systemClock = clock{start: processStart, lead: measureLead}

// leadReadings is the number of readings of both clocks for one measurement.
const leadReadings = 5

// measureLead returns the time with suspensions minus monotonic time. The result is too large by the time between two
// readings, so the least of several results is used: the thread can be preempted between two readings.
func measureLead() int64 {
	lead := int64(math.MaxInt64)
	for range leadReadings {
		mono := int64(time.Since(processStart))
		lead = min(lead, bootTime()-mono)
	}
	return lead
}

// Now returns the time since the machine was started, in nanoseconds, including the time in which it was suspended. On
// systems without such a clock, steps of the wall clock count as suspensions; a step forward ends leases early.
func Now() int64 { return systemClock.read(time.Now()) }

// read returns the time at the instant t, which must have a monotonic time.
func (c *clock) read(t time.Time) int64 {
	mono := int64(t.Sub(c.start))
	wall := t.UnixNano() - mono
	s := c.setting.Load()
	if s == nil || wall-s.wall > slack || s.wall-wall > slack {
		s = c.set(s, wall)
	}
	return mono + s.lead
}

// set replaces a setting. The lead never decreases, so a smaller result is an error of the previous one. A lease that was drawn
// with a larger lead would be used after its end.
func (c *clock) set(old *setting, wall int64) *setting {
	s := &setting{wall, c.lead()}
	if old != nil {
		s.lead = max(s.lead, old.lead)
	}
	if !c.setting.CompareAndSwap(old, s) {
		return c.setting.Load() // another goroutine has replaced it
	}
	return s
}
