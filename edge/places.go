package edge

import (
	"container/list"
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/pires/go-proxyproto"

	"github.com/throttledhq/throttled/acl"
	"github.com/throttledhq/throttled/edge/headers"
	"github.com/throttledhq/throttled/internal/tlsserver"
)

// places limits the number of connections. A connection is a newcomer until its first request is accepted. If there is no
// place for another connection, the oldest newcomer is closed, so that clients that send nothing cannot use up all places.
type places struct {
	limit func() int

	mu        sync.Mutex
	taken     int
	newcomers list.List     // of *conn, oldest first
	empty     chan struct{} // closed when no place is taken; nil unless it is awaited
}

func (p *places) init(limit func() int) { p.limit = limit }

// conn is an accepted connection.
type conn struct {
	net.Conn
	places *places
	at     *list.Element // position in places.newcomers; nil if it is not a newcomer. Guarded by places.mu
	closed bool          // guarded by places.mu

	// The fields below are used by the goroutine of the connection only.

	served bool
	peer   netip.Addr // address of the client or the gateway; valid after begin
	sender netip.Addr // address from which the connection came: differs from peer if it has a PROXY header
	begun  bool
	user   string // common name of the verified client certificate, or ""; valid after begin

	// login belongs to the last credentials that were right among users: requests with the same credentials on this
	// connection need no further check until the users are changed.
	right credentials
	users *acl.Set
	login acl.Login
}

// enter makes a connection a newcomer. It returns false if there is no place. Otherwise, victim is a connection that must be
// closed, or nil.
func (p *places) enter(c *conn) (victim *conn, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken >= p.limit() {
		oldest := p.newcomers.Front()
		if oldest == nil {
			return nil, false
		}
		victim = oldest.Value.(*conn)
		p.leave(victim)
	}
	p.taken++
	c.at = p.newcomers.PushBack(c)
	return victim, true
}

// leave releases the place of a connection. p.mu must be held.
func (p *places) leave(c *conn) {
	if c.closed {
		return
	}
	c.closed = true
	p.taken--
	p.settle(c)
	p.signalEmpty()
}

// awaitEmpty waits until no place is taken, until d has passed, or until ctx is done. It reports whether no place is taken.
func (p *places) awaitEmpty(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.emptied():
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// emptied returns a channel that is closed when no place is taken.
func (p *places) emptied() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.empty == nil {
		p.empty = make(chan struct{})
	}
	empty := p.empty
	p.signalEmpty()
	return empty
}

// signalEmpty closes p.empty if no place is taken. p.mu must be held.
func (p *places) signalEmpty() {
	if p.taken == 0 && p.empty != nil {
		close(p.empty)
		p.empty = nil
	}
}

func (p *places) settle(c *conn) {
	if c.at != nil {
		p.newcomers.Remove(c.at)
		c.at = nil
	}
}

// accepted ends the newcomer state of a connection.
func (c *conn) accepted() {
	if c.served {
		return
	}
	c.served = true
	if c.places != nil {
		c.places.mu.Lock()
		c.places.settle(c)
		c.places.mu.Unlock()
	}
}

// Close closes the connection and releases its place.
func (c *conn) Close() error {
	c.places.mu.Lock()
	c.places.leave(c)
	c.places.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite closes the connection for writing. net/http calls it before it closes a connection on which the client may
// still be sending, so that the response is not lost.
func (c *conn) CloseWrite() error {
	switch under := c.Conn.(type) {
	case *net.TCPConn:
		return under.CloseWrite()
	case *tlsserver.Conn:
		return under.CloseWrite()
	case *proxyproto.Conn:
		if tcp, ok := under.TCPConn(); ok {
			return tcp.CloseWrite()
		}
	}
	return nil
}

// SyscallConn implements syscall.Conn for connections without a PROXY header. The server reads them without net/http; see
// package http1.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		return tcp.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// begin determines the addresses of the connection. It may wait for a PROXY header, so it is not called by Accept.
func (c *conn) begin() {
	if c.begun {
		return
	}
	c.begun = true
	c.peer = addrOf(c.RemoteAddr())
	c.sender = c.peer
	under := c.Conn
	if secured := tlsserver.Of(under); secured != nil {
		under, c.user = secured.Under(), secured.User()
	}
	if p, ok := under.(*proxyproto.Conn); ok {
		c.sender = addrOf(p.Raw().RemoteAddr())
	}
}

func addrOf(addr net.Addr) netip.Addr {
	if tcp, ok := addr.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// refusedConnection is the response if there is no place.
var refusedConnection = func() []byte {
	body := headers.Problem{
		Type: headers.TypeBlank, Title: "Service Unavailable", Status: http.StatusServiceUnavailable, Error: "too_many_connections",
		Message: "the server has no place for another connection: raise maxclients", Retry: 1,
	}
	content := body.Append(nil)
	head := "HTTP/1.1 503 Service Unavailable\r\nContent-Type: " + headers.ContentType + "\r\nContent-Length: " + strconv.Itoa(len(content)) +
		"\r\nConnection: close\r\nRetry-After: 1\r\nCache-Control: no-store\r\nX-RateLimit-Decision: " + decisionError + "\r\n\r\n"
	return append([]byte(head), content...)
}()

// listener accepts the connections for which there is a place.
type listener struct {
	net.Listener
	places *places
}

// Accept returns the next connection for which there is a place.
func (l *listener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: accepted, places: l.places}
		victim, ok := l.places.enter(c)
		if victim != nil {
			_ = victim.Conn.Close() // it is of no use any more
		}
		if ok {
			return c, nil
		}
		refuse(accepted)
	}
}

// refuse answers and closes a connection for which there is no place. The response fits into the empty socket buffer, so
// refuse does not wait.
func refuse(c net.Conn) {
	_ = c.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = c.Write(refusedConnection) // best effort
	_ = c.Close()
}

// proxied returns a listener that reads a PROXY header from connections of trusted proxies.
func (s *Server) proxied(ln net.Listener) net.Listener {
	return &proxyproto.Listener{
		Listener:          ln,
		ReadHeaderTimeout: readHeaderTimeout,
		ConnPolicy: func(o proxyproto.ConnPolicyOptions) (proxyproto.Policy, error) {
			if s.proxies.Trusts(addrOf(o.Upstream)) {
				return proxyproto.USE, nil
			}
			return proxyproto.SKIP, nil
		},
	}
}

// connKey is the key of the conn in the context of a request.
type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}
