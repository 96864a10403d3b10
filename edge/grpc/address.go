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

// NetConn returns the connection that was accepted.
func (c *addressed) NetConn() net.Conn { return c.Conn }

// RemoteAddr returns the clientAddr.
func (c *addressed) RemoteAddr() net.Addr { return c.addr }

// clientAddr is the address of a connection, together with the credentials of an earlier call on it: calls with the same
// ones need no further check. Wrong passwords from the same address, such as that of a NAT gateway, therefore do not affect
// clients that have authenticated on a connection already.
type clientAddr struct {
	net.Addr
	right atomic.Pointer[authenticated] // nil until a call had the right password
}

// authenticated is the login of a call with credentials that were right among users.
type authenticated struct {
	users *acl.Set
	given secret
	login acl.Login
}

// knows returns the login of an earlier call with the same credentials and the same users.
func (a *clientAddr) knows(users *acl.Set, given secret) (login acl.Login, ok bool) {
	right := a.right.Load()
	if right == nil || right.users != users || !right.given.equal(given) {
		return acl.Login{}, false
	}
	return right.login, true
}
