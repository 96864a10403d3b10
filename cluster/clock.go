package cluster

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/internal/failpoint"
)

// Clock tells log time: the one time by which a cluster decides. Each entry of the log carries
// the leader's. A node that follows stands at the time of the last entry that it has applied. A
// node that begins to lead goes on from there at the speed of its monotonic clock, with the
// time added that has passed since it applied that entry. So no change of leaders ever makes
// time jump forward, which would hand out what nobody has waited for, whatever the wall
// clocks say. It may lose as much as an entry was under way.
//
// Its methods may be called from many goroutines at once.
type Clock struct {
	start time.Time        // of the monotonic readings
	wall  func() time.Time // the wall clock, by which Now goes in a deliberate bug only
	shown atomic.Pointer[reading]

	mu   sync.Mutex
	last reading // the newest entry applied; it stands
}

// reading is a log time, and when it was true.
type reading struct {
	time    uint64
	at      time.Duration // on the monotonic clock
	running bool
}

// NewClock returns a clock that stands at 0.
func NewClock() *Clock {
	c := &Clock{start: time.Now(), wall: Wall}
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
		return uint64(c.wall().UnixNano())
	}
	return r.time + uint64(c.monotonic()-r.at)
}

func (c *Clock) monotonic() time.Duration { return time.Since(c.start) }

// applied notes that an entry has been applied. taken is when its time was read, for an entry of this
// node's own, and otherwise when it came in.
func (c *Clock) applied(t uint64, taken time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t < c.last.time {
		return
	}
	c.last = reading{time: t, at: taken}
	if !c.shown.Load().running {
		r := c.last
		c.shown.Store(&r)
	}
}

// restored notes the time of a snapshot, which may be before that of what was there.
func (c *Clock) restored(t uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = reading{time: t, at: c.monotonic()}
	r := c.last
	c.shown.Store(&r)
}

// estimate returns what the log time is now, if the node has followed the log closely.
func (c *Clock) estimate() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last.time + uint64(c.monotonic()-c.last.at)
}

// run makes the clock go on from the last entry. It begins at from instead if that is later.
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

// stand makes the clock stand at the last entry.
func (c *Clock) stand() {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.last
	c.shown.Store(&r)
}

// standing returns the time of the newest entry applied.
func (c *Clock) standing() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last.time
}
