package server

import (
	"net"
	"time"

	"github.com/throttledhq/throttled/resp"
)

// client is one client of the server. It consists of three parts, and is the value that command handlers receive:
//
//   - The connection moves bytes: it reads them, has the pipeline run the commands in them, and writes the replies.
//   - The pipeline determines what runs, where and when, and the order of the replies.
//   - The session is the state that the client has set by its commands.
//
// The connection uses the pipeline and the session, the pipeline uses the session. No part uses one that precedes it;
// effects of commands on the connection, such as the limits of the reader after AUTH, are made by methods of client.
//
// The fields above out do not change. out and the parts belong to the goroutine that runs the commands of the client,
// except for the fields that their types name.
type client struct {
	srv      *Server
	listener *listenerProfile
	commands *registry // of that profile
	id       int64
	born     time.Time

	out     resp.Reply // replies that the pipeline has made and the connection has not written
	conn    connection
	session session
	pipe    pipeline
}

func newClient(s *Server, conn net.Conn, l *listenerProfile) *client {
	c := &client{srv: s, listener: l, commands: s.commands[l.set], id: s.lastID.Add(1), born: time.Now()}
	c.session.init()
	c.pipe.init(c)
	c.conn.init(c, newSocket(conn))
	c.resetAuth()
	return c
}

// resetAuth restores the authentication state of a new connection.
func (c *client) resetAuth() {
	c.setAuthenticated(c.listener.trusted || c.srv.opts.Get().RequirePass == "")
}

// setAuthenticated sets whether the client is authenticated, which the limits of its requests depend on.
func (c *client) setAuthenticated(yes bool) {
	c.session.authenticated = yes
	c.conn.authenticated(yes)
}

// addr returns the address of the peer.
func (c *client) addr() net.Addr { return c.conn.socket.RemoteAddr() }

// updateSettings updates the memory usage of subscriptions, prefixes and names. It must be called after each change of
// them.
func (c *client) updateSettings() {
	c.conn.usage.set(&c.conn.usage.settings, c.session.settingsBytes())
}
