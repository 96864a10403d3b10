// Package connlimit limits the number of connections of a listener, in total and for each client address, so that one
// client cannot take all places.
package connlimit

import (
	"net"
	"net/netip"
	"sync"

	"github.com/throttledhq/throttled/internal/sourceaddr"
)

// share is the part of all places that one address may have: a quarter.
const share = 4

// Listener closes connections beyond its limits immediately. Create it with New.
type Listener struct {
	net.Listener
	most    int // connections
	refused func(net.Addr)

	mu        sync.Mutex
	open      int
	perSource map[netip.Addr]int
}

// New returns a Listener with places for most connections. A quarter of them may have the same address, unless it is a
// loopback address: gateways on this host share it. The function refused is called for each refused connection.
func New(l net.Listener, most int, refused func(net.Addr)) *Listener {
	return &Listener{Listener: l, most: most, refused: refused, perSource: map[netip.Addr]int{}}
}

// Accept returns the next connection within the limits.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := sourceaddr.Of(conn.RemoteAddr())
		if l.take(from) {
			return &counted{Conn: conn, release: sync.OnceFunc(func() { l.release(from) })}, nil
		}
		l.refused(conn.RemoteAddr())
		_ = conn.Close() // nothing was written
	}
}

// take reports whether there is a place for a connection from an address, and takes it.
func (l *Listener) take(from netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= l.most || !from.IsLoopback() && l.perSource[from] >= max(1, l.most/share) {
		return false
	}
	l.open++
	l.perSource[from]++
	return true
}

func (l *Listener) release(from netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if l.perSource[from]--; l.perSource[from] == 0 {
		delete(l.perSource, from)
	}
}

// counted releases its place when it is closed.
type counted struct {
	net.Conn
	release func()
}

// NetConn returns the connection that was accepted.
func (c *counted) NetConn() net.Conn { return c.Conn }

// Close closes the connection.
func (c *counted) Close() error {
	defer c.release()
	return c.Conn.Close()
}
