package server

import (
	"net"
	"time"

	"github.com/throttledhq/throttled/acl"
	"github.com/throttledhq/throttled/internal/tlsserver"
	"github.com/throttledhq/throttled/resp"
)

// client is one client of the server. Command handlers receive it. It consists of three parts:
//
//   - The connection reads bytes, passes the commands in them to the pipeline, and writes the replies.
//   - The pipeline determines which commands run, where and when they run, and the order of the replies.
//   - The session is the state that commands of the client set.
//
// The connection uses the pipeline and the session. The pipeline uses the session, and two fields of the connection:
// usage (counters of client memory) and closing. The session uses neither the connection nor the pipeline. A command
// may affect the connection: for example, AUTH changes the limits of the reader. A method of client then applies the
// change.
//
// The fields before the field out do not change. The field out and the three parts belong to the goroutine that runs
// the commands of the client. The types of the parts document the exceptions.
type client struct {
	srv      *Server
	listener *listenerProfile
	commands *registry // commands of the listener profile
	id       int64
	born     time.Time

	out     resp.Reply // replies that the connection has not yet written
	conn    connection
	session session
	pipe    pipeline
}

func newClient(s *Server, conn net.Conn, l *listenerProfile) *client {
	c := &client{srv: s, listener: l, commands: s.commands[l.set], id: s.lastID.Add(1), born: time.Now()}
	c.session.init()
	c.pipe.init(c)
	c.conn.init(c, newSocket(conn))
	if secured := tlsserver.Of(conn); secured != nil {
		c.session.secure, c.session.certificate = true, secured.User()
	}
	c.resetAuth()
	return c
}

// resetAuth sets the client to the authentication state of a new connection.
func (c *client) resetAuth() {
	set := c.srv.currentUsers()
	user, certified := set.Default(), c.srv.userOfCertificate(set, c.session.certificate)
	if certified != nil {
		user = certified
	}
	c.session.become(user)
	c.session.users = set
	c.setAuthenticated(c.listener.trusted || set.Open() || certified != nil)
}

// become authenticates the client as a user.
func (c *client) become(u *acl.User) {
	c.session.become(u)
	c.session.users = nil // the users may have changed since: they are read before the next command
	c.setAuthenticated(true)
}

// setAuthenticated sets whether the client is authenticated, and adjusts the limits on the size of its requests.
func (c *client) setAuthenticated(yes bool) {
	c.session.authenticated = yes
	c.conn.authenticated()
}

// addr returns the address of the peer.
func (c *client) addr() net.Addr { return c.conn.socket.RemoteAddr() }

// updateSettings updates the memory usage of subscriptions, of prefixes for client tracking, and of names. It must be
// called after each change to any of them.
func (c *client) updateSettings() {
	c.conn.usage.set(&c.conn.usage.settings, c.session.settingsBytes())
}
