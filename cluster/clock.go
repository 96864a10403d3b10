package cluster

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/internal/failpoint"
)

// Clock shows the log time, by which all nodes of a cluster measure limits. Each entry with changes contains the log
// time of the leader. On a follower, the clock shows the log time of the last applied entry. The clock of a new leader
// continues from that log time plus the time since the entry arrived, at the speed of its monotonic clock.
//
// A change of leaders therefore never advances log time by more than the elapsed time, even if wall clocks are wrong,
// so no units are restored early. At a change of leaders, log time may fall behind by the time for which the last entry
// was in flight.
//
// A Clock is safe for concurrent use.
type Clock struct {
	start time.Time // zero of the monotonic clock
	shown atomic.Pointer[reading]

	mu   sync.Mutex
	last reading // reading for the last applied entry; its running field is always false
}

// reading pairs a log time with a time on the monotonic clock.
type reading struct {
	time    uint64
	at      time.Duration
	running bool // log time has been advancing since the time in the field at; if false, log time is stopped
}

// NewClock returns a clock that is stopped at 0.
func NewClock() *Clock {
	c := &Clock{start: time.Now()}
	c.shown.Store(&reading{})
	return c
}

// Now returns the log time in nanoseconds.
func (c *Clock) Now() uint64 {
	r := c.shown.Load()
	if !r.running {
		return r.time
	}
	if failpoint.Is(failpoint.WallClock) {
		return uint64(Wall().UnixNano())
	}
	return r.time + uint64(c.monotonic()-r.at)
}

// monotonic returns the time since NewClock.
func (c *Clock) monotonic() time.Duration { return time.Since(c.start) }

// applied records that an entry with log time t was applied. If this node has submitted the entry, readAt is the time
// at which t was read, and otherwise the time at which the entry arrived.
func (c *Clock) applied(t uint64, readAt time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t < c.last.time {
		return
	}
	c.last = reading{time: t, at: readAt}
	if !c.shown.Load().running {
		r := c.last
		c.shown.Store(&r)
	}
}

// restored sets the clock to the log time of a snapshot, which may be earlier than the current log time.
func (c *Clock) restored(t uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = reading{time: t, at: c.monotonic()}
	r := c.last
	c.shown.Store(&r)
}

// estimate returns an estimate of the current log time: the log time of the last applied entry plus the time since the
// entry arrived. If this node has submitted the entry, estimate adds the time since the log time of the entry was read
// instead. The estimate is exact if the entry is the newest one of the cluster and arrived without delay.
func (c *Clock) estimate() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last.time + uint64(c.monotonic()-c.last.at)
}

// run starts the clock. The clock continues from the log time that estimate returns, or from the log time in the
// argument if that is later.
func (c *Clock) run(from uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.last
	r.running = true
	if now := r.time + uint64(c.monotonic()-r.at); from > now {
		r.time += from - now
	}
	switch {
	case failpoint.Is(failpoint.LeapingClock):
		r.time += uint64(time.Second)
	case failpoint.Is(failpoint.TimeTwice):
		r.time += uint64(c.monotonic() - r.at)
	case failpoint.Is(failpoint.TimeLate):
		late := &reading{time: c.last.time, at: c.monotonic(), running: true}
		c.shown.Store(late)
		time.AfterFunc(time.Second/2, func() { c.shown.CompareAndSwap(late, &r) })
		return
	}
	c.shown.Store(&r)
}

// stop stops the clock at the log time of the last applied entry.
func (c *Clock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.last
	c.shown.Store(&r)
}

// lastApplied returns the log time of the last applied entry.
func (c *Clock) lastApplied() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last.time
}
