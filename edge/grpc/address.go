package grpcedge

import (
	"net"
	"sync/atomic"

	"github.com/throttledhq/throttled/acl"
)

// addresses is a listener whose connections have a clientAddr. grpc-go passes the address of the connection to each call.
type addresses struct{ net.Listener }

// Accept returns the next connection.
func (l addresses) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &addressed{c, &clientAddr{Addr: c.RemoteAddr()}}, nil
}

// addressed is a connection with a clientAddr.
type addressed struct {
	net.Conn
	addr *clientAddr
}

// RemoteAddr returns the clientAddr.
func (c *addressed) RemoteAddr() net.Addr { return c.addr }

// clientAddr is the address of a connection, and remembers its password: calls with the same password need no further
// check. Wrong passwords from the same address, such as that of a NAT gateway, therefore do not affect clients that have
// authenticated on a connection already.
type clientAddr struct {
	net.Addr
	right atomic.Pointer[authenticated] // nil until a call had the right password
}

// authenticated is a password that was right with these users.
type authenticated struct {
	users    *acl.Set
	password string
}

// knows reports whether an earlier call had the password, with the same users.
func (a *clientAddr) knows(users *acl.Set, password string) bool {
	right := a.right.Load()
	return right != nil && right.users == users && right.password == password
}
