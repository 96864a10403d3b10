package http1

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"sync"
	"syscall"
	"time"
)

const (
	inputSize = 16 << 10 // maximum size of a request that is not handed over
	keepBytes = 64 << 10 // maximum size of the output buffers that are kept
)

// buffers are the buffers of a connection that is being served. A connection without an incomplete request has none.
type buffers struct {
	in  [inputSize]byte
	out []byte
}

var freeBuffers = sync.Pool{New: func() any { return new(buffers) }}

// conn is a connection.
type conn struct {
	net.Conn
	raw      syscall.RawConn
	server   *Server
	fd       uintptr // valid during serve
	buffers  *buffers
	filled   int // buffers.in[:filled] is read and not answered
	message  message
	request  *request
	response response
	partial  bool      // the read deadline is that of an incomplete request
	deadline time.Time // time at which the read deadline was set
}

// ending is the reason why serve has returned.
type ending uint8

const (
	goOn     ending = iota
	wait            // for more bytes
	handOver        // to the http.Server
	hangUp          // after the client has received the last response
	abort
)

func newConn(ctx context.Context, nc net.Conn, raw syscall.RawConn, s *Server) *conn {
	c := &conn{Conn: nc, raw: raw, server: s, request: newRequest(ctx, nc.RemoteAddr().String())}
	c.response.header = http.Header{}
	return c
}

// serve answers requests until the connection ends, or must be handed over.
func (c *conn) serve() (e ending) {
	c.partial = true // the first request must arrive in the time for headers
	c.setDeadline(time.Now(), c.server.next.ReadHeaderTimeout)
	err := c.raw.Read(func(fd uintptr) bool {
		c.fd = fd
		for {
			if e = c.turn(); e != goOn {
				c.release()
				return e != wait
			}
			runtime.Gosched() // so that other connections are served
		}
	})
	if err == nil {
		return e
	}
	// The deadline has passed, or the server shuts down. net/http answers incomplete requests.
	if c.filled > 0 && !c.server.closing.Load() {
		return handOver
	}
	return abort
}

// turn reads once, and answers all complete requests.
func (c *conn) turn() ending {
	if c.buffers == nil {
		c.buffers = freeBuffers.Get().(*buffers)
	}
	n, err := readDescriptor(c.fd, c.buffers.in[c.filled:])
	switch {
	case errors.Is(err, errNothing):
		return wait
	case errors.Is(err, io.EOF) && c.filled > 0:
		return handOver // an incomplete request, which net/http answers
	case err != nil:
		return abort
	}
	c.filled += n
	e := c.answer()
	if e != goOn {
		return e
	}
	c.extend()
	if c.filled == len(c.buffers.in) {
		return handOver
	}
	return goOn
}

// answer answers the complete requests in the buffer, and removes them from it.
func (c *conn) answer() (e ending) {
	text, now := string(c.buffers.in[:c.filled]), time.Now()
	answered := 0
	for e == goOn && answered < len(text) {
		size, v := c.message.parse(text[answered:])
		if v == incomplete {
			break
		}
		if v == foreign || !c.request.fill(&c.message) {
			e = handOver
			break
		}
		answered += size
		e = c.handle(now)
	}
	c.filled = copy(c.buffers.in[:], c.buffers.in[answered:c.filled])
	if err := c.flush(); err != nil {
		return abort
	}
	return e
}

// handle calls the handler for one request.
func (c *conn) handle(now time.Time) (e ending) {
	c.response.begin()
	if !c.server.call(&c.response, c.request.http) {
		return abort
	}
	out, last := c.response.append(c.buffers.out, now)
	c.buffers.out = out
	if cap(c.response.body) > keepBytes {
		c.response.body = nil
	}
	if last {
		return hangUp
	}
	if len(out) > keepBytes && c.flush() != nil {
		return abort
	}
	return goOn
}

// flush writes the responses.
func (c *conn) flush() error {
	out := c.buffers.out
	c.buffers.out = out[:0]
	if len(out) == 0 {
		return nil
	}
	if n := writeDescriptor(c.fd, out); n < len(out) {
		_ = c.SetWriteDeadline(time.Now().Add(c.server.next.WriteTimeout))
		_, err := c.Write(out[n:])
		return err
	}
	return nil
}

// release returns the buffers while the connection is idle.
func (c *conn) release() {
	if c.filled > 0 {
		return
	}
	if cap(c.buffers.out) > keepBytes {
		c.buffers.out = nil
	}
	freeBuffers.Put(c.buffers)
	c.buffers = nil
}

// extend renews the read deadline. Setting a deadline costs as much as a small request, so it is renewed after a quarter
// of its time.
func (c *conn) extend() {
	now := time.Now()
	switch partial := c.filled > 0; {
	case partial && !c.partial:
		c.setDeadline(now, c.server.next.ReadHeaderTimeout)
	case !partial && (c.partial || now.Sub(c.deadline) > c.server.next.IdleTimeout/4):
		c.setDeadline(now, c.server.next.IdleTimeout)
	}
	c.partial = c.filled > 0
}

// headersBy returns the deadline of an incomplete request, or the zero time.
func (c *conn) headersBy() time.Time {
	if !c.partial {
		return time.Time{}
	}
	return c.deadline.Add(c.server.next.ReadHeaderTimeout)
}

func (c *conn) setDeadline(now time.Time, timeout time.Duration) {
	c.deadline = now
	_ = c.SetReadDeadline(now.Add(timeout))
	if c.server.closing.Load() {
		c.stop()
	}
}

// stop makes serve return when it next waits for bytes.
func (c *conn) stop() { _ = c.SetReadDeadline(time.Unix(1, 0)) }

// shut ends the connection while its goroutine may run a handler. Close would wait for that.
func (c *conn) shut() {
	c.stop()
	_ = c.raw.Control(func(fd uintptr) { _ = syscall.Shutdown(int(fd), syscall.SHUT_RDWR) }) // best effort
}

// linger closes the write side of a connection, and waits until the client has closed its side, so that a reset cannot
// overtake the last response.
func linger(nc net.Conn) {
	if half, ok := nc.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_ = nc.SetReadDeadline(time.Now().Add(lingerTime))
		_, _ = io.CopyN(io.Discard, nc, lingerBytes)
	}
}

const (
	lingerTime  = 500 * time.Millisecond
	lingerBytes = 1 << 20
)

// prefixed is a connection that is handed over, of which the first bytes may have been read.
type prefixed struct {
	net.Conn
	first     []byte
	header    headerLines
	headersBy time.Time // deadline of the headers of the present request, if it began before the connection was handed over
}

// SetReadDeadline sets the deadline of reads. While the headers are not complete, it is at most that with which they
// began: net/http would grant their full time again. net/http also calls it while another goroutine reads, but only
// after the headers of the first request; header is not read then, unless it can no longer change.
func (p *prefixed) SetReadDeadline(t time.Time) error {
	if !p.headersBy.IsZero() && !p.header.ended && (t.IsZero() || t.After(p.headersBy)) {
		t = p.headersBy
	}
	return p.Conn.SetReadDeadline(t)
}

// Read implements net.Conn. It refuses requests with too many header lines.
func (p *prefixed) Read(b []byte) (n int, err error) {
	if len(p.first) > 0 {
		n = copy(b, p.first)
		p.first = p.first[n:]
	} else if n, err = p.Conn.Read(b); err != nil {
		return n, err
	}
	if !p.header.count(b[:n]) {
		return 0, p.refuseLines()
	}
	return n, nil
}

// CloseWrite closes the side that is written. net/http calls it before it closes a connection of which it has not read all
// bytes.
func (p *prefixed) CloseWrite() error {
	if half, ok := p.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// errNothing is returned by readDescriptor if no bytes are available.
var errNothing = errors.New("nothing to read")
