package peerlink

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// leastRate is how many bytes a second have to move for a deadline to be put off.
	leastRate = 8 << 10
	// looks is how often it is seen, within the time that a deadline gives, whether anything moves.
	looks = 8
	// chunk is how many bytes are written at once, after which they count as such.
	chunk = 16 << 10
)

// progress is a connection whose deadlines are ones of progress: one that is set for two seconds from now is
// missed when nothing has moved for two seconds, in either direction. So what does for a small message does
// for a large one on a slow link, and a peer that is silent is given up as early as ever. A deadline is
// put off by no more than what has moved takes at [leastRate], else a peer could hold a stream for ever with
// a byte now and then.
//
// What has moved is what has come in, and what the other end has acknowledged: the system takes
// megabytes to send at once, which are on a slow link for half a minute.
//
// It stands below TLS, where a write that was interrupted can go on.
type progress struct {
	net.Conn
	queued      func() int64 // bytes written that the other end has not acknowledged
	in, out     atomic.Int64 // bytes read and written
	read, write allowance
}

func newProgress(c net.Conn) *progress {
	return &progress{Conn: c, queued: func() int64 { return queuedIn(c) }}
}

// moved returns how many bytes have come to where they were sent to.
func (p *progress) moved() int64 { return p.in.Load() + p.out.Load() - p.queued() }

// Read reads until the deadline.
func (p *progress) Read(b []byte) (int, error) {
	for {
		n, err := p.Conn.Read(b)
		p.in.Add(int64(n))
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) || !p.read.renew(p.moved, p.Conn.SetReadDeadline) {
			return n, err
		}
	}
}

// Write writes until the deadline.
func (p *progress) Write(b []byte) (written int, err error) {
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

// SetDeadline sets the deadlines of reading and writing.
func (p *progress) SetDeadline(t time.Time) error {
	return errors.Join(p.SetReadDeadline(t), p.SetWriteDeadline(t))
}

// SetReadDeadline sets that of reading. One that is over ends at once what is going on.
func (p *progress) SetReadDeadline(t time.Time) error {
	return p.read.set(t, p.moved, p.Conn.SetReadDeadline)
}

// SetWriteDeadline is likewise for writing.
func (p *progress) SetWriteDeadline(t time.Time) error {
	return p.write.set(t, p.moved, p.Conn.SetWriteDeadline)
}

// allowance is a deadline for one direction.
type allowance struct {
	mu    sync.Mutex
	end   time.Time     // as it was set
	each  time.Duration // how long nothing may move; 0: there is no deadline that could be renewed
	first int64         // what had moved when it was set
	seen  int64         // what had when it was looked at last
	last  time.Time     // when that was first seen
}

// set notes a deadline, and sets when to look first.
func (w *allowance) set(t time.Time, moved func() int64, deadline func(time.Time) error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.end, w.each, w.last = t, max(0, t.Sub(now)), now
	if w.each == 0 {
		return deadline(t)
	}
	w.first = moved()
	w.seen = w.first
	return deadline(w.next(now))
}

// next returns when to look again. w.mu is held.
func (w *allowance) next(now time.Time) time.Time {
	next, least := now.Add(w.each/looks), w.last.Add(w.each)
	if next.Before(least) {
		return next
	}
	return least
}

// renew looks whether the deadline is missed, and if not sets when to look again.
func (w *allowance) renew(moved func() int64, deadline func(time.Time) error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.each == 0 {
		return false
	}
	now := time.Now()
	if m := moved(); m > w.seen {
		w.seen, w.last = m, now
	}
	granted := time.Duration(float64(w.seen-w.first) / leastRate * float64(time.Second))
	if !now.Before(w.last.Add(w.each)) || !now.Before(w.end.Add(granted)) {
		return false
	}
	return deadline(w.next(now)) == nil
}
