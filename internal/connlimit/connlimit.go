// Package connlimit limits the number of connections of a listener, in total and for each client address, so that one
// client cannot take all places.
package connlimit

import (
	"net"
	"net/netip"
	"sync"
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
		source := sourceOf(conn.RemoteAddr())
		if l.take(source) {
			return &counted{Conn: conn, release: sync.OnceFunc(func() { l.release(source) })}, nil
		}
		l.refused(conn.RemoteAddr())
		_ = conn.Close() // nothing was written
	}
}

// take reports whether there is a place for a connection from an address, and takes it.
func (l *Listener) take(source netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= l.most || !source.IsLoopback() && l.perSource[source] >= max(1, l.most/share) {
		return false
	}
	l.open++
	l.perSource[source]++
	return true
}

func (l *Listener) release(source netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if l.perSource[source]--; l.perSource[source] == 0 {
		delete(l.perSource, source)
	}
}

// sourceBits is the length of the IPv6 prefix that usually belongs to one host or site.
const sourceBits = 64

// sourceOf returns the address under which connections are counted.
func sourceOf(addr net.Addr) netip.Addr {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	if ip.Is6() && !ip.IsLoopback() {
		network, _ := ip.Prefix(sourceBits) // fails only for an invalid number of bits
		return network.Addr()
	}
	return ip
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
