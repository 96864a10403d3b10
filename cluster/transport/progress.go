package transport

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// leastRate, in bytes per second, bounds the extension of a deadline. Moved bytes extend it by at most
	// the time that they take at this rate.
	leastRate = 8 << 10
	// checksPerDeadline is the number of checks for progress within the duration of a deadline.
	checksPerDeadline = 8
	// chunk is the maximum number of bytes per write to the underlying connection. Bytes count as
	// written when that write returns.
	chunk = 16 << 10
)

// progressConn is a connection with progress deadlines: a deadline set to two seconds from now
// expires if no bytes have moved in either direction for two seconds. The same timeout is
// therefore suitable for small messages and for large ones on a slow network, and a silent
// peer is detected as early as with plain deadlines. A deadline is extended by at most the
// time that the moved bytes take at [leastRate]. Otherwise a peer could hold a stream
// forever by sending a byte from time to time.
//
// Received bytes count as moved, and so do sent bytes once the other end has acknowledged
// them. Bytes that are only in the send buffer of the system do not count: the buffer can hold
// megabytes, and sending them on a slow network can take half a minute.
//
// A progressConn wraps the connection below TLS, because it can resume a write that a deadline
// has interrupted, and TLS cannot.
type progressConn struct {
	net.Conn
	queued      func() int64 // number of bytes written that the other end has not acknowledged
	in, out     atomic.Int64 // bytes read and written
	read, write progressDeadline
}

func newProgressConn(c net.Conn) *progressConn {
	return &progressConn{Conn: c, queued: func() int64 { return queuedIn(c) }}
}

// moved returns the number of bytes that have reached their destination.
func (p *progressConn) moved() int64 { return p.in.Load() + p.out.Load() - p.queued() }

// Read reads from the connection. It fails when the progress deadline expires.
func (p *progressConn) Read(b []byte) (int, error) {
	for {
		n, err := p.Conn.Read(b)
		p.in.Add(int64(n))
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) || !p.read.renew(p.moved, p.Conn.SetReadDeadline) {
			return n, err
		}
	}
}

// Write writes all of b to the connection. It fails when the progress deadline expires.
func (p *progressConn) Write(b []byte) (written int, err error) {
	for {
		n, err := p.Conn.Write(b[written:min(written+chunk, len(b))])
		p.out.Add(int64(n))
		written += n
		if errors.Is(err, os.ErrDeadlineExceeded) && p.write.renew(p.moved, p.Conn.SetWriteDeadline) {
			continue
		}
		if err != nil || written == len(b) {
			return written, err
		}
	}
}

// SetDeadline sets the read and write deadlines.
func (p *progressConn) SetDeadline(t time.Time) error {
	return errors.Join(p.SetReadDeadline(t), p.SetWriteDeadline(t))
}

// SetReadDeadline sets the read deadline. A deadline in the past interrupts a pending Read immediately.
func (p *progressConn) SetReadDeadline(t time.Time) error {
	return p.read.set(t, p.moved, p.Conn.SetReadDeadline)
}

// SetWriteDeadline sets the write deadline, like SetReadDeadline.
func (p *progressConn) SetWriteDeadline(t time.Time) error {
	return p.write.set(t, p.moved, p.Conn.SetWriteDeadline)
}

// progressDeadline is the progress deadline of one direction.
type progressDeadline struct {
	mu       sync.Mutex
	deadline time.Time     // the deadline as set
	timeout  time.Duration // maximum time without progress; 0: no deadline, or a deadline in the past
	first    int64         // bytes moved when the deadline was set
	seen     int64         // bytes moved as of the last check
	last     time.Time     // time at which seen was last increased, or at which the deadline was set
}

// set sets a deadline, and schedules the first check by calling setDeadline, which sets the deadline
// of the underlying connection.
func (w *progressDeadline) set(t time.Time, moved func() int64, setDeadline func(time.Time) error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.deadline, w.timeout, w.last = t, max(0, t.Sub(now)), now
	if w.timeout == 0 {
		return setDeadline(t)
	}
	w.first = moved()
	w.seen = w.first
	return setDeadline(w.next(now))
}

// next returns the time of the next check. w.mu must be held.
func (w *progressDeadline) next(now time.Time) time.Time {
	next, least := now.Add(w.timeout/checksPerDeadline), w.last.Add(w.timeout)
	if next.Before(least) {
		return next
	}
	return least
}

// renew checks for progress. If the deadline is extended, it schedules the next check and returns
// true.
func (w *progressDeadline) renew(moved func() int64, setDeadline func(time.Time) error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timeout == 0 {
		return false
	}
	now := time.Now()
	if m := moved(); m > w.seen {
		w.seen, w.last = m, now
	}
	granted := time.Duration(float64(w.seen-w.first) / leastRate * float64(time.Second))
	if !now.Before(w.last.Add(w.timeout)) || !now.Before(w.deadline.Add(granted)) {
		return false
	}
	return setDeadline(w.next(now)) == nil
}
