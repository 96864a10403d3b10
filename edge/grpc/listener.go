package grpcedge

import (
	"net"
	"net/netip"
	"sync"
)

// listener accepts the connections of permitted clients, and limits their number. It closes the others immediately.
type listener struct {
	net.Listener
	accepts func(net.Addr) bool
	warn    func(name, message string, args ...any)

	mu        sync.Mutex
	open      int
	perSource map[netip.Addr]int
}

func newListener(l net.Listener, accepts func(net.Addr) bool, warn func(name, message string, args ...any)) *listener {
	return &listener{Listener: l, accepts: accepts, warn: warn, perSource: map[netip.Addr]int{}}
}

// Accept returns the next connection of a permitted client.
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		addr := conn.RemoteAddr()
		source := sourceOf(addr)
		switch {
		case !l.accepts(addr):
			l.warn("grpc-protected", "gRPC connection refused: in protected mode without a password, only clients on this host are accepted; set requirepass", "addr", addr)
		case !l.take(source):
			l.warn("grpc-connections", "gRPC connection refused: too many connections", "addr", addr, "max", maxConnections, "max_per_address", maxPerSource)
		default:
			return &countedConn{Conn: conn, release: sync.OnceFunc(func() { l.release(source) })}, nil
		}
		_ = conn.Close() // nothing was written
	}
}

// take reports whether there is a place for a connection from an address, and takes it.
func (l *listener) take(source netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= maxConnections || l.perSource[source] >= maxPerSource {
		return false
	}
	l.open++
	l.perSource[source]++
	return true
}

func (l *listener) release(source netip.Addr) {
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
	if ip.Is6() {
		network, _ := ip.Prefix(sourceBits) // fails only for an invalid number of bits
		return network.Addr()
	}
	return ip
}

// countedConn releases its place when it is closed.
type countedConn struct {
	net.Conn
	release func()
}

// Close closes the connection.
func (c *countedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
