package server

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/throttledhq/throttled/options"
)

// connectionBytes is the memory of a connection beside its buffers: its goroutine with its stack, and
// what the runtime and this package keep of it. Measured by scripts/bench idle.
const connectionBytes = 8 << 10

// maxChurn is how many bytes clients take between two collections, when memory is short.
const maxChurn = 24 << 20

// clientMemory adds up the memory that all clients make the server hold. Beyond maxmemory-clients
// those that hold the most are evicted.
type clientMemory struct {
	opts       *options.Store
	total      atomic.Int64  // bytes
	evicted    atomic.Int64  // clients
	leaving    atomic.Int64  // bytes of clients that have been evicted and are still there
	wake       chan struct{} // holds a token when the limit is exceeded
	long       chan struct{} // holds a token for each long reply that is being made
	churn      atomic.Int64  // bytes that clients have taken since the last collection
	collecting sync.Mutex    // one goroutine collects at a time
	evicting   sync.Mutex    // one goroutine evicts at a time
	left       *sync.Cond    // evicted clients have left, or it is time to look
	tightSince int64         // the tick since when there is little left; 0 if there is enough. The housekeeper's
}

func (m *clientMemory) init(opts *options.Store) {
	m.opts = opts
	m.wake = make(chan struct{}, 1)
	m.long = make(chan struct{}, maxLong)
	m.left = sync.NewCond(new(sync.Mutex))
}

// limit returns the bytes that all clients may take, or 0 if there is no limit.
func (m *clientMemory) limit() int64 { return m.opts.Get().ClientMemory() }

// exceeded reports whether all clients take more than they may.
func (m *clientMemory) exceeded() bool {
	limit := m.limit()
	return limit > 0 && m.total.Load() > limit
}

// add counts bytes that are taken, or returned if n is negative.
func (m *clientMemory) add(n int64) {
	m.total.Add(n)
	if n <= 0 {
		return
	}
	m.churn.Add(n)
	if m.exceeded() {
		m.signal()
	}
}

// collect has the garbage of outgrown and closed buffers collected, if there may be much of it
// and clients take more than half of their memory. The collector's own pace gives in where it
// would take too much of the processor, so those who make the garbage wait for it here.
func (m *clientMemory) collect() {
	if m.churn.Load() < maxChurn {
		return
	}
	if limit := m.limit(); limit == 0 || m.total.Load() <= limit/2 {
		return
	}
	m.collecting.Lock()
	defer m.collecting.Unlock()
	if m.churn.Load() >= maxChurn {
		m.churn.Store(0)
		runtime.GC()
	}
}

func (m *clientMemory) signal() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// tight reports whether so little is left that replies are not queued any more: the last quarter
// is for what has no other bound, such as incomplete commands.
func (m *clientMemory) tight() bool {
	limit := m.limit()
	return limit > 0 && m.total.Load() > limit-limit/4
}

// check is for the housekeeper, at each tick: it has clients evicted if the limit has been
// lowered, and returns the tick since when memory is tight, or 0 if it is not.
func (m *clientMemory) check(now int64) int64 {
	if m.exceeded() {
		m.signal()
	}
	m.left.Broadcast()
	switch {
	case !m.tight():
		m.tightSince = 0
	case m.tightSince == 0:
		m.tightSince = now
	}
	return m.tightSince
}

// usage is the memory that a client makes the server hold, in bytes. The client's goroutine sets
// its parts, but for queued, which its feed does.
type usage struct {
	of       *clientMemory // nil for what does not count as a client
	base     atomic.Int64  // connectionBytes while the connection is served
	query    atomic.Int64  // the reader, with an incomplete command
	replies  atomic.Int64  // replies that have yet to be written
	queued   atomic.Int64  // replies and other bytes that the client does not take
	multi    atomic.Int64  // commands of a transaction, and watched keys
	settings atomic.Int64  // subscriptions, prefixes, names
	evicted  atomic.Int64  // what it held when it was evicted
}

func (u *usage) init(s *Server, f *face) {
	if !f.trusted {
		u.of = &s.clientMemory
	}
}

// set notes that a part of the usage takes n bytes now.
func (u *usage) set(part *atomic.Int64, n int64) {
	old := part.Load()
	if old == n {
		return
	}
	part.Store(n)
	if u.of != nil {
		u.of.add(n - old)
	}
}

func (u *usage) parts() [6]*atomic.Int64 {
	return [...]*atomic.Int64{&u.base, &u.query, &u.replies, &u.queued, &u.multi, &u.settings}
}

// total returns the sum of all parts.
func (u *usage) total() (n int64) {
	for _, part := range u.parts() {
		n += part.Load()
	}
	return n
}

// release sets all parts to nothing.
func (u *usage) release() {
	for _, part := range u.parts() {
		u.set(part, 0)
	}
	if evicted := u.evicted.Swap(0); evicted > 0 {
		u.of.left.L.Lock() // or it is missed by a client that has looked and does not wait yet
		defer u.of.left.L.Unlock()
		u.of.leaving.Add(-evicted)
		u.of.left.Broadcast()
	}
}

// tight reports whether all clients together leave little memory.
func (u *usage) tight() bool { return u.of != nil && u.of.tight() }

// noteUsage notes what the client's goroutine holds for it.
func (c *client) noteUsage() {
	c.usage.set(&c.usage.query, int64(c.in.Size()))
	c.usage.set(&c.usage.replies, int64(c.out.Size()))
	c.usage.set(&c.usage.multi, c.tx.memory())
}

// noteSettings notes what the client has set up. It belongs behind each change.
func (c *client) noteSettings() {
	n := 0
	for _, list := range [...][]string{c.channels.channels, c.channels.patterns, c.tracking.prefixes} {
		for _, text := range list {
			n += len(text) + perArgument
		}
	}
	n *= 2 // as much again: lists that have grown, sizes that the allocator rounds up, and what it has not returned
	p := c.shown()
	n += len(p.name) + len(p.libName) + len(p.libVer)
	c.usage.set(&c.usage.settings, int64(n))
}

// ClientMemory returns the bytes that all clients make the server hold.
func (s *Server) ClientMemory() int64 { return s.clientMemory.total.Load() }

// clientBytes returns the memory of all clients, and of the streams of other nodes.
func (s *Server) clientBytes() (normal, peers int64) {
	for _, c := range s.connections() {
		if c.face.trusted {
			peers += c.usage.total()
		}
	}
	return s.ClientMemory(), peers
}
