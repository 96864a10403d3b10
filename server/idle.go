package server

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/resp"
)

// A connection keeps the buffers of a deep pipeline for the next one. When it is idle they are
// dropped: of many connections most are idle, and all of them have to fit into maxmemory-clients.

const (
	idleTicks = int64(time.Second / tick) // after so many without a read a connection is idle
	keepIdle  = 4 << 10                   // bytes of buffers that it keeps then
)

// ownership hands the buffers of a client over between its goroutine and the housekeeper, neither of
// which waits for the other longer than it takes to drop them. At first the goroutine has them.
type ownership struct {
	free   atomic.Bool // the goroutine waits for bytes. Changing this to false takes the buffers
	parked bool        // the goroutine has made them free. Only it uses this
}

// park makes the buffers free, before a wait that may be long.
func (o *ownership) park() {
	o.parked = true
	o.free.Store(true)
}

// unpark takes the buffers back.
func (o *ownership) unpark() {
	for o.parked {
		if o.free.CompareAndSwap(true, false) {
			o.parked = false
			return
		}
		runtime.Gosched()
	}
}

// trimIdle is for the housekeeper: it drops the buffers of a connection that is idle, unless an
// incomplete command is in them.
func (c *client) trimIdle(now int64) {
	if now-c.lastRead.Load() < idleTicks || c.usage.query.Load()+c.usage.replies.Load() <= keepIdle ||
		!c.buffers.free.CompareAndSwap(true, false) {
		return
	}
	defer c.buffers.free.Store(true)
	if c.in.Pending() == 0 {
		c.in = resp.NewReader(readLimits(c.known, c.authenticated))
	}
	if c.out.Len() == 0 {
		c.out.Truncate(0, 0)
	}
	c.noteUsage()
}
