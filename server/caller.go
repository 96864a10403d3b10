package server

import (
	"bytes"
	"errors"
	"io"
	"net"
	"runtime/debug"
	"time"

	"github.com/throttledhq/throttled/acl"
)

// Caller runs commands for another server of this process, such as the HTTP server. It is a client without a socket:
// commands are forwarded to the leader, wait for commits, and are in the statistics as those of other clients. On a sidecar,
// the reply to a limiter command without flags that the option upstream-away has decided begins with an attribute of RESP3,
// "flags", whose value has the form of the flags in the reply to CL.CHECK. A Caller is authenticated as a user (see As), it
// is not in CLIENT LIST, and CLIENT PAUSE does not affect it.
//
// Only commands with exactly one reply may be run, and none that changes the state of the connection, such as
// SUBSCRIBE, MONITOR, MULTI, RESET and CLIENT REPLY.
//
// A Caller must not be used concurrently. All calls must have returned before Server.Shutdown is called. It must be
// closed.
type Caller struct {
	client *client
	input  bytes.Reader
}

// Errors of Caller.Run.
var (
	errCallerInput  = errors.New("run commands: the last command is incomplete")
	errCallerClosed = errors.New("run commands: a command has closed the caller")
)

// NewCaller returns a Caller. Its replies have the format of RESP3.
func (s *Server) NewCaller() *Caller {
	c := newClient(s, noConn{}, &redisListener)
	c.pipe.neverPaused = true
	c.out.SetProtocol(3)
	c.session.showsPolicy = true
	c.session.setInfo(func(i *clientInfo) { i.resp = 3 })
	caller := &Caller{client: c}
	caller.As(Login{})
	return caller
}

// As sets the user of the following calls of Run. Initially it is the user "default", with a password or without. If the
// user is deleted or disabled meanwhile, its commands fail with NOAUTH.
func (c *Caller) As(login Login) {
	cl := c.client
	set := cl.srv.currentUsers()
	s := &cl.session
	if u := login.Of(set); u == nil || !u.Enabled() && u != set.Default() {
		s.user, s.users, s.authenticated = acl.NewUser(login.Name(), cl.srv.users.catalog), set, false
	} else {
		s.user, s.users, s.authenticated = u, set, true
	}
}

// Run runs commands, each an array of bulk strings of RESP, and appends their replies to replies. It returns an error
// if the commands are malformed, or if a command panics. The Caller can then only be closed.
func (c *Caller) Run(commands, replies []byte) (_ []byte, err error) {
	defer c.recoverPanic(&err)
	c.input.Reset(commands)
	conn := &c.client.conn
	for c.input.Len() > 0 {
		if _, err := conn.in.Fill(&c.input); err != nil {
			return replies, err
		}
		replies = c.advance(replies)
		if c.client.pipe.end != endNot {
			return replies, errCallerClosed
		}
	}
	if conn.in.Pending() > 0 {
		return replies, errCallerInput
	}
	return replies, nil
}

// advance runs the complete commands in the buffer of the reader, and appends their replies to replies. It drives the
// pipeline as connection.run does.
func (c *Caller) advance(replies []byte) []byte {
	conn, pipe := &c.client.conn, &c.client.pipe
	conn.turn.acquire()
	defer conn.turn.release()
	defer pipe.slice.end(&c.client.srv.polls) // the next commands may follow after any time
	conn.followUsers()
	conn.setLimits(true) // also if the user was deleted: the commands are then refused, and not malformed
	pipe.begin(conn.in)
	for {
		switch n := pipe.advance(); n {
		case needNothing:
			pipe.idle()
			return c.take(replies)
		case needWrite:
			replies = c.take(replies)
		default:
			conn.await(n)
		}
	}
}

// take moves the pending replies to the end of replies.
func (c *Caller) take(replies []byte) []byte {
	out := &c.client.out
	replies = append(replies, out.Bytes()...)
	out.Truncate(0, keepOut)
	return replies
}

// recoverPanic converts a panic to an error, and logs it. It must be deferred.
func (c *Caller) recoverPanic(err *error) {
	if p := recover(); p != nil {
		s := c.client.srv
		s.stats.panics.Add(1)
		s.log.Error("a command panicked", "panic", p, "command", c.client.session.lastCommand(), "stack", string(debug.Stack()))
		c.client.pipe.abort()
		*err = errCallerClosed
	}
}

// Close releases the resources of the Caller.
func (c *Caller) Close() {
	c.client.pipe.close()
	c.client.session.tx.close()
	c.client.conn.usage.release()
}

// noConn is the connection of a Caller: it has no peer.
type noConn struct{}

func (noConn) Read([]byte) (int, error)         { return 0, io.EOF }
func (noConn) Write([]byte) (int, error)        { return 0, net.ErrClosed }
func (noConn) Close() error                     { return nil }
func (noConn) LocalAddr() net.Addr              { return noAddr{} }
func (noConn) RemoteAddr() net.Addr             { return noAddr{} }
func (noConn) SetDeadline(time.Time) error      { return nil }
func (noConn) SetReadDeadline(time.Time) error  { return nil }
func (noConn) SetWriteDeadline(time.Time) error { return nil }

// noAddr is the address of a Caller, which MONITOR and SLOWLOG show.
type noAddr struct{}

func (noAddr) Network() string { return "internal" }
func (noAddr) String() string  { return "internal:0" }
