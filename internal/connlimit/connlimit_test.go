package connlimit

import (
	"errors"
	"net"
	"net/netip"
	"testing"
)

// fakeListener accepts connections from given addresses.
type fakeListener struct {
	net.Listener
	from []string
}

func (l *fakeListener) Accept() (net.Conn, error) {
	if len(l.from) == 0 {
		return nil, net.ErrClosed
	}
	addr := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(l.from[0]))
	l.from = l.from[1:]
	return &fakeConn{addr: addr}, nil
}

type fakeConn struct {
	net.Conn
	addr   net.Addr
	closed int
}

func (c *fakeConn) RemoteAddr() net.Addr { return c.addr }
func (c *fakeConn) Close() error         { c.closed++; return nil }

// accept accepts all connections of l, and returns those within the limits and the addresses of the others.
func accept(t *testing.T, most int, from ...string) (open []net.Conn, refused []string) {
	t.Helper()
	l := New(&fakeListener{from: from}, most, func(a net.Addr) { refused = append(refused, a.String()) })
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return open, refused
		}
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, conn)
	}
}

func TestListener(t *testing.T) {
	for _, c := range []struct {
		name string
		most int
		from []string
		open int
	}{
		{"total", 3, []string{"127.0.0.1:1", "192.0.2.1:1", "192.0.2.2:1", "192.0.2.3:1"}, 3},
		{"a quarter for one address", 8, []string{"192.0.2.1:1", "192.0.2.1:2", "192.0.2.1:3", "192.0.2.2:1"}, 3},
		{"one for each address", 2, []string{"192.0.2.1:1", "192.0.2.1:2", "192.0.2.2:1"}, 2},
		{"loopback", 8, []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", "[::1]:1", "[::1]:2", "[::1]:3"}, 6},
		{"network of IPv6", 4, []string{"[2001:db8::1]:1", "[2001:db8::2]:1", "[2001:db8:0:1::1]:1"}, 2},
		{"IPv4 in IPv6", 4, []string{"[::ffff:192.0.2.1]:1", "192.0.2.1:2", "192.0.2.2:1"}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			open, refused := accept(t, c.most, c.from...)
			if len(open) != c.open || len(refused) != len(c.from)-c.open {
				t.Errorf("%d open, %q refused; want %d open", len(open), refused, c.open)
			}
		})
	}
}

// The place of a connection is free when it is closed, also if it is closed twice.
func TestListener_Close(t *testing.T) {
	inner := &fakeListener{from: []string{"192.0.2.1:1", "192.0.2.2:1"}}
	refused := 0
	l := New(inner, 2, func(net.Addr) { refused++ })
	var conns [2]net.Conn
	for i := range conns {
		conns[i], _ = l.Accept()
	}
	for range 2 {
		if err := conns[0].Close(); err != nil {
			t.Fatal(err)
		}
	}
	inner.from = []string{"192.0.2.1:2", "192.0.2.3:1"}
	if conn, err := l.Accept(); err != nil || conn.RemoteAddr().String() != "192.0.2.1:2" {
		t.Errorf("after a close: %v, %v, want a connection from the same address", conn, err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) || refused != 1 {
		t.Errorf("error %v, %d refused; want one refused connection", err, refused)
	}
}
