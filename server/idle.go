package server

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/resp"
)

// After a deep pipeline, a connection keeps its large buffers for the next deep pipeline. If the connection becomes
// idle, the buffers are freed: when there are many connections, most are idle, and all of them must fit in
// maxmemory-clients.

const (
	idleTicks = int64(time.Second / tick) // ticks without a read after which a connection is idle
	keepIdle  = 4 << 10                   // bytes of buffers that an idle connection may keep
)

// ownership passes the buffers of a client between the goroutine of its connection and the reaper. The goroutine waits
// only while the reaper frees the buffers, and the reaper never waits. The goroutine is the initial owner.
type ownership struct {
	free   atomic.Bool // the buffers have no owner; changing free to false takes ownership
	parked bool        // the goroutine has released the buffers; used only by the goroutine
}

// park releases the buffers before a potentially long wait.
func (o *ownership) park() {
	o.parked = true
	o.free.Store(true)
}

// unpark takes ownership of the buffers if they were released.
func (o *ownership) unpark() {
	for o.parked {
		if o.free.CompareAndSwap(true, false) {
			o.parked = false
			return
		}
		runtime.Gosched()
	}
}

// trimIdle frees the buffers of an idle connection, unless they contain an incomplete command or an unwritten reply.
// Only the reaper calls it. The parameter now is the current tick.
func (c *connection) trimIdle(now int64) {
	if now-c.activity.lastRead.Load() < idleTicks || c.usage.query.Load()+c.usage.replies.Load() <= keepIdle ||
		!c.buffers.free.CompareAndSwap(true, false) {
		return
	}
	defer c.buffers.free.Store(true)
	if c.in.Pending() == 0 {
		c.in = resp.NewReader(readLimits(c.appliedOptions, c.session.authenticated))
	}
	if c.output.out.Len() == 0 {
		c.output.out.Truncate(0, 0)
	}
	c.updateUsage()
}
