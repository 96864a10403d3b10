package server

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/throttledhq/throttled/options"
)

// connectionBytes is the memory of a connection in bytes, without its buffers. It includes the stack of the goroutine,
// and the state in the runtime and in this package. The subcommand idle of tests/bench measures this value.
const connectionBytes = 8 << 10

// secureBytes is the memory in bytes that TLS adds to a connection: its state, certificates and buffers. Measured: 16 KiB.
const secureBytes = 16 << 10

// maxChurn is the number of bytes that clients must have allocated since the last forced garbage collection before
// the next one is forced.
const maxChurn = 24 << 20

// clientMemory accounts for the memory that the server holds for all clients. If the total exceeds maxmemory-clients,
// the clients that hold the most memory are evicted.
type clientMemory struct {
	opts          *options.Store
	total         atomic.Int64  // memory of all clients, in bytes
	evicted       atomic.Int64  // number of evicted clients
	evictedBytes  atomic.Int64  // memory of evicted clients that are not yet closed, in bytes
	wake          chan struct{} // holds a token when the limit is exceeded
	long          chan struct{} // holds a token for each long reply in progress
	churn         atomic.Int64  // bytes that clients have allocated since the last forced garbage collection
	collecting    sync.Mutex    // serializes collect
	evicting      sync.Mutex    // serializes evictLargest
	evictedClosed *sync.Cond    // signaled when an evicted client is closed, and at each tick
	tightSince    int64         // tick since which tight has returned true, or 0; owned by the reaper
}

func (m *clientMemory) init(opts *options.Store) {
	m.opts = opts
	m.wake = make(chan struct{}, 1)
	m.long = make(chan struct{}, maxLong)
	m.evictedClosed = sync.NewCond(new(sync.Mutex))
}

// limit returns the limit on the memory of all clients in bytes, or 0 if there is no limit.
func (m *clientMemory) limit() int64 { return m.opts.Get().ClientMemory() }

// exceeded reports whether the memory of all clients exceeds the limit.
func (m *clientMemory) exceeded() bool {
	limit := m.limit()
	return limit > 0 && m.total.Load() > limit
}

// add adds n bytes to the total; n may be negative. If n is positive and the limit is then exceeded, add wakes the
// goroutine that runs evictClients.
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

// collect forces a garbage collection if clients use more than half of the limit and have allocated maxChurn bytes
// since the last forced collection. In this case, there may be a lot of garbage. Without forced collections, the
// collections of the runtime may not keep up, because the runtime limits their CPU share. Forced collections keep up,
// because each of them blocks the goroutine that produces the garbage.
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

// tight reports whether clients use more than three quarters of the limit. While memory is tight, replies are not
// queued for clients that do not read. The last quarter is reserved for memory that has no other limit, such as
// incomplete commands.
func (m *clientMemory) tight() bool {
	limit := m.limit()
	return limit > 0 && m.total.Load() > limit-limit/4
}

// check triggers an eviction if the limit is exceeded, for example because it was lowered. It returns the tick since
// which memory has been tight, or 0 if memory is not tight. The reaper calls check at each tick.
func (m *clientMemory) check(now int64) int64 {
	if m.exceeded() {
		m.signal()
	}
	m.evictedClosed.Broadcast()
	switch {
	case !m.tight():
		m.tightSince = 0
	case m.tightSince == 0:
		m.tightSince = now
	}
	return m.tightSince
}

// usage is the memory that the server holds for a client, in bytes. The feed sets the field queued. The goroutine that
// serves the client sets the other parts. The reaper updates the fields query, replies and multi after it has freed the
// buffers of an idle client.
type usage struct {
	all      *clientMemory // memory of all clients; nil for streams from other nodes, which do not count as clients
	base     atomic.Int64  // connectionBytes while the connection is served
	query    atomic.Int64  // read buffer, including an incomplete command
	replies  atomic.Int64  // reply buffer
	queued   atomic.Int64  // replies and pushed output in the feed
	multi    atomic.Int64  // queued commands and watched keys
	settings atomic.Int64  // subscriptions, prefixes, names
	evicted  atomic.Int64  // sum of all parts when the client was evicted; 0 if it was not evicted
}

func (u *usage) init(s *Server, l *listenerProfile) {
	if !l.trusted {
		u.all = &s.clientMemory
	}
}

// set sets a part of the usage to n bytes, and updates the total of all clients.
func (u *usage) set(part *atomic.Int64, n int64) {
	old := part.Load()
	if old == n {
		return
	}
	part.Store(n)
	if u.all != nil {
		u.all.add(n - old)
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

// release sets all parts to 0, and unblocks clients that wait for memory if this client was evicted.
func (u *usage) release() {
	for _, part := range u.parts() {
		u.set(part, 0)
	}
	if evicted := u.evicted.Swap(0); evicted > 0 {
		u.all.evictedClosed.L.Lock() // otherwise awaitMemory could miss the wakeup between its check and its wait
		defer u.all.evictedClosed.L.Unlock()
		u.all.evictedBytes.Add(-evicted)
		u.all.evictedClosed.Broadcast()
	}
}

// tight reports whether client memory is tight. For a stream from another node, it returns false.
func (u *usage) tight() bool { return u.all != nil && u.all.tight() }

// ClientMemory returns the memory that the server holds for all clients, in bytes.
func (s *Server) ClientMemory() int64 { return s.clientMemory.total.Load() }

// clientBytes returns the memory of all clients (normal) and of all streams from other nodes (peers), in bytes.
func (s *Server) clientBytes() (normal, peers int64) {
	for _, c := range s.connections() {
		if c.listener.trusted {
			peers += c.conn.usage.total()
		}
	}
	return s.ClientMemory(), peers
}
