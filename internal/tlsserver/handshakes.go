package tlsserver

import (
	"net"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/throttledhq/throttled/internal/sourceaddr"
)

// HandshakeTimeout is the time in which a handshake must be completed.
const HandshakeTimeout = 5 * time.Second

// MaxHandshakes is the maximum number of concurrent handshakes. It is lower if the process may open only few files: see
// Limit.
const MaxHandshakes = 256

// filesShare is the inverse of the share of the file descriptors of the process that handshakes may use.
const filesShare = 4

// handshakes are the handshakes in progress. If there are too many, the oldest one of the address that has the most is
// aborted, so an attacker needs many addresses to keep others out.
type handshakes struct {
	limit int
	turns chan struct{} // has a place for each handshake that may compute

	completed, failed, timedOut, displaced atomic.Int64

	mu      sync.Mutex
	pending []*attempt // oldest first
	byAddr  map[netip.Addr]int
}

// attempt is a handshake in progress.
type attempt struct {
	conn      net.Conn
	from      netip.Addr
	displaced bool // the connection was closed to make room; guarded by handshakes.mu
}

func (h *handshakes) init() {
	h.limit = Limit()
	h.byAddr = map[netip.Addr]int{}
	h.turns = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))
}

// Limit returns the maximum number of concurrent handshakes: MaxHandshakes, or a quarter of the files that the process may
// open.
func Limit() int {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return MaxHandshakes
	}
	return max(1, min(MaxHandshakes, int(min(files.Cur, 1<<30))/filesShare))
}

// begin adds a connection. It may close another one to make room.
func (h *handshakes) begin(conn net.Conn) *attempt {
	a := &attempt{conn: conn, from: sourceOf(conn)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.pending) >= h.limit {
		h.displace()
	}
	h.pending = append(h.pending, a)
	h.byAddr[a.from]++
	return a
}

// displace closes the oldest connection of the address with the most connections. h.mu must be held.
func (h *handshakes) displace() {
	var most netip.Addr
	for addr, n := range h.byAddr {
		if n > h.byAddr[most] {
			most = addr
		}
	}
	victim := h.pending[slices.IndexFunc(h.pending, func(a *attempt) bool { return a.from == most })]
	victim.displaced = true
	h.remove(victim)
	h.displaced.Add(1)
	_ = victim.conn.Close() // nothing to report to: its handshake fails
}

// remove removes an attempt. h.mu must be held.
func (h *handshakes) remove(a *attempt) {
	i := slices.Index(h.pending, a)
	h.pending = slices.Delete(h.pending, i, i+1)
	if h.byAddr[a.from]--; h.byAddr[a.from] == 0 {
		delete(h.byAddr, a.from)
	}
}

// end removes an attempt, and reports whether it was displaced.
func (h *handshakes) end(a *attempt) (displaced bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !a.displaced {
		h.remove(a)
	}
	return a.displaced
}

// sourceOf returns the address that a connection is counted for: that of the proxy if there is a PROXY header, which may not
// have arrived yet.
func sourceOf(conn net.Conn) netip.Addr {
	if proxied, ok := conn.(interface{ Raw() net.Conn }); ok {
		conn = proxied.Raw()
	}
	return sourceaddr.Of(conn.RemoteAddr())
}

// Stats is the number of handshakes since the start.
type Stats struct {
	Completed int64
	Failed    int64 // without those below
	TimedOut  int64 // not completed within HandshakeTimeout
	Displaced int64 // aborted because there were too many
	Pending   int   // in progress now
}

// Stats returns the number of handshakes.
func (s *Store) Stats() Stats {
	h := &s.handshakes
	h.mu.Lock()
	defer h.mu.Unlock()
	return Stats{h.completed.Load(), h.failed.Load(), h.timedOut.Load(), h.displaced.Load(), len(h.pending)}
}
