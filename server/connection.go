package server

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime/debug"
	"sync/atomic"

	"github.com/throttledhq/throttled/options"
	"github.com/throttledhq/throttled/resp"
)

const (
	flushAt = 64 << 10 // once this number of bytes of replies is pending, they are written before the next command runs
	keepOut = 16 << 10 // bytes of reply buffer that a connection keeps between reads
	keepIn  = 32 << 10 // bytes of read buffer that a connection keeps between reads
)

// connection reads and writes the bytes of one client. It owns the socket, the read buffer, the output and the
// timeouts, and closes the connection. It passes the commands that it has read to the pipeline, waits when the pipeline
// must wait, and writes the replies. It does not interpret commands.
//
// The goroutine that runs serve owns the connection. Other goroutines may access the fields closing and activity, and
// call the methods hangUp, closeAfterReplies, overdue and trimIdle. The reaper shares the buffers (see ownership).
type connection struct {
	srv      *Server
	listener *listenerProfile
	id       int64
	session  *session
	pipe     *pipeline

	socket         *socket
	in             *resp.Reader
	appliedOptions *options.Options // options from which the limits of the reader were last derived
	appliedLogin   bool             // whether the client was authenticated then
	output         output
	usage          usage
	buffers        ownership // ownership of the read buffer and of the reply buffer
	turn           turn
	newcomer       *newcomer // nil after the first valid command of an authenticated client
	activity       activity
	closing        closing
}

// activity holds the times of a connection that the reaper checks. Times are ticks; 0 means unset.
type activity struct {
	lastRead        atomic.Int64 // time of the last read, or of the end of a later wait of the pipeline
	incomplete      atomic.Int64 // time since which an incomplete command has been buffered
	unauthenticated atomic.Int64 // time since which the client has been unauthenticated
	writing         atomic.Int64 // time since which a write has been blocked
	awaiting        atomic.Bool  // the client is waiting for the cluster or for the end of a pause; timeouts are suspended
	checked         int64        // value of lastRead when the reaper last checked for the end of the stream; owned by the reaper
}

// closing allows any goroutine to close a connection.
type closing struct {
	socket            *socket
	hungUp            atomic.Bool   // hangUp was called
	ended             chan struct{} // closed by hangUp
	closeAfterReplies atomic.Bool   // the connection is closed after the commands that have been read are answered
}

// hangUp aborts the connection. It does not block.
func (c *closing) hangUp() {
	if !c.hungUp.Swap(true) {
		close(c.ended)
	}
	c.socket.hangUp()
}

func (c *connection) init(cl *client, s *socket) {
	c.srv, c.listener, c.id, c.session, c.pipe = cl.srv, cl.listener, cl.id, &cl.session, &cl.pipe
	c.socket, c.in = s, resp.NewReader(resp.Limits{})
	c.turn.turns = &cl.srv.turns
	c.closing.socket, c.closing.ended = s, make(chan struct{})
	c.activity.lastRead.Store(cl.srv.ticks.Load())
	c.usage.init(cl.srv, cl.listener)
	c.output.init(cl)
}

// authenticated must be called after the client has become authenticated or unauthenticated. It sets the limits of
// requests, and stops or starts the timeout for authenticating.
func (c *connection) authenticated() {
	c.appliedOptions = nil
	c.refreshLimits()
}

// refreshLimits applies changed options and users: it sets the limits of the reader, and authenticates the client if a
// password is no longer required.
func (c *connection) refreshLimits() {
	c.followUsers()
	c.setLimits(c.session.authenticated)
}

// followUsers applies changed users.
func (c *connection) followUsers() {
	if set := c.srv.currentUsers(); set != c.session.users {
		c.session.follow(set)
	}
}

// setLimits sets the limits of requests to those of authenticated clients, or of others.
func (c *connection) setLimits(yes bool) {
	o := c.srv.opts.Get()
	if o == c.appliedOptions && yes == c.appliedLogin {
		return
	}
	if yes {
		c.activity.unauthenticated.Store(0)
	} else {
		// An earlier start is kept, so RESET does not extend the time to authenticate.
		c.activity.unauthenticated.CompareAndSwap(0, c.srv.ticks.Load())
	}
	c.appliedOptions, c.appliedLogin = o, yes
	c.in.SetLimits(readLimits(o, yes))
}

// Limits on the commands of an unauthenticated client: the number of arguments, and the bytes of an argument and of a
// command.
const (
	unauthenticatedArgs  = 10
	unauthenticatedBulk  = 16 << 10
	unauthenticatedQuery = 64 << 10
)

// unauthenticatedReplies is the number of bytes of pending replies of an unauthenticated client at which they are written
// before the next command runs. The buffer of the replies has at most twice this size, since each of them is short.
const unauthenticatedReplies = 8 << 10

func readLimits(o *options.Options, authenticated bool) resp.Limits {
	l := resp.Limits{
		Args:   o.ProtoMaxArgs,
		Bulk:   int(o.ProtoMaxBulkLen),
		Inline: int(o.ProtoMaxInlineLen),
		Query:  int(o.ClientQueryBufferLimit),
	}
	if !authenticated {
		l.Unauthenticated = true
		l.Args = min(l.Args, unauthenticatedArgs)
		l.Bulk = min(l.Bulk, unauthenticatedBulk)
		l.Inline = min(l.Inline, unauthenticatedBulk)
		l.Query = min(l.Query, unauthenticatedQuery)
	}
	return l
}

// serve serves the connection until it is closed.
func (c *connection) serve() {
	defer c.srv.active.Done()
	defer c.leave()
	defer c.recoverPanic()
	err := c.socket.loop(c.read)
	c.buffers.unpark()
	c.logEnd(err)
	if c.pipe.end == endNow {
		c.socket.hangUp()
	}
	c.output.endFeed() // writes the queued output if the peer reads it
	if announced := c.sendGoaway(); announced || c.pipe.end == endAfterReplies || c.pipe.end == endNot && c.closing.closeAfterReplies.Load() {
		c.socket.linger(announced)
	}
}

// recoverPanic recovers from a panic and logs it. It must be deferred.
func (c *connection) recoverPanic() {
	if p := recover(); p != nil {
		c.srv.stats.panics.Add(1)
		c.srv.log.Error("a command panicked; its connection is closed", "panic", p,
			"client", c.id, "command", c.session.lastCommand(), "stack", string(debug.Stack()))
	}
}

// sendGoaway sends the goaway error if the peer is another node, and reports whether the error was sent. The error
// announces that this node is closing the stream and that commands without a reply were not run. It is not sent when
// the connection is aborted.
func (c *connection) sendGoaway() bool {
	if !c.listener.trusted || c.pipe.end == endNow || c.closing.hungUp.Load() || !c.srv.closing.Load() && !c.closing.closeAfterReplies.Load() {
		return false
	}
	c.output.out.Error(string(errGoaway))
	return c.output.flush()
}

// read reads once and runs the complete commands that it has read.
func (c *connection) read() readResult {
	c.buffers.unpark()
	c.srv.clientMemory.collect()
	if growth := c.in.Growth(); growth > 0 {
		c.awaitRoom(growth)
	}
	if c.socket.raw == nil { // Fill may block
		c.pipe.slice.end(&c.srv.polls)
	}
	n, err := c.in.Fill(c.socket)
	if c.closing.hungUp.Load() {
		return readStop // no command may run after hangUp
	}
	if n > 0 {
		c.srv.stats.netIn.Add(int64(n))
		c.srv.stats.reads.Add(1)
		open := c.run()
		c.updateUsage()
		if !open {
			return readStop
		}
	}
	switch {
	case c.srv.closing.Load() || c.closing.closeAfterReplies.Load():
		return readStop
	case err == errNothing || err == nil && c.socket.drained:
		c.trimReader()
		c.endWait()
		c.pipe.slice.end(&c.srv.polls)
		c.buffers.park()
		return readWait
	case err != nil:
		c.logEnd(err)
		return readStop
	}
	c.wait()
	return readAgain
}

// trimReader frees a large read buffer before a potentially long wait.
func (c *connection) trimReader() {
	if c.in.Pending() == 0 && c.in.Size() > keepIn {
		c.in = resp.NewReader(readLimits(c.appliedOptions, c.session.authenticated))
		c.updateUsage()
	}
}

// run runs the complete commands that have been read, writes their replies, and reports whether the connection stays
// open. It drives the pipeline: it calls advance while it holds a turn, and waits when advance returns a need.
func (c *connection) run() bool {
	c.turn.acquire()
	defer c.turn.release()
	storeIfChanged(&c.activity.lastRead, c.srv.ticks.Load())
	c.refreshLimits()
	c.pipe.begin(c.in)
	for {
		n := c.pipe.advance()
		c.suspendTimeouts(c.pipe.suspendsTimeouts())
		switch n {
		case needNothing:
			return c.finish()
		case needWrite:
			if !c.output.flush() {
				c.pipe.abort()
				return false
			}
		default:
			c.await(n)
		}
	}
}

// suspendTimeouts suspends the timeouts if yes is true, and otherwise resumes them.
func (c *connection) suspendTimeouts(yes bool) {
	if yes == c.activity.awaiting.Load() {
		return
	}
	if yes {
		storeIfChanged(&c.activity.incomplete, 0) // the buffered command cannot be completed during the wait
	}
	c.activity.awaiting.Store(yes)
}

// await blocks until the need of the pipeline is met. The time during which it blocks does not count as idle.
func (c *connection) await(n need) {
	if n != needLock && c.turn.release() {
		defer c.turn.acquire()
	}
	c.pipe.wait()
	storeIfChanged(&c.activity.lastRead, c.srv.ticks.Load())
}

// finish writes the replies to the commands of a read, and reports whether the connection stays open.
func (c *connection) finish() bool {
	c.pipe.idle()
	if c.newcomer != nil {
		c.admit() // before the first reply, after which the client must not be displaced
	}
	open := c.pipe.end != endNow && c.output.flush() && c.pipe.end == endNot
	c.updateIncomplete()
	return open
}

// updateIncomplete records whether an incomplete command is buffered, and since when. The reaper closes the
// connection if the command stays incomplete for too long.
func (c *connection) updateIncomplete() {
	switch {
	case c.in.Pending() == 0:
		storeIfChanged(&c.activity.incomplete, 0)
	case c.pipe.read.ran || c.activity.incomplete.Load() == 0:
		storeIfChanged(&c.activity.incomplete, c.srv.ticks.Load())
	}
}

// storeIfChanged stores value in *a unless it is there already. Skipping the store keeps the cache line shared.
func storeIfChanged(a *atomic.Int64, value int64) {
	if a.Load() != value {
		a.Store(value)
	}
}

// admit removes the client from the newcomers if the client has authenticated and sent a valid command.
func (c *connection) admit() {
	if !c.session.authenticated || c.session.lastRun.Load() == nil {
		return
	}
	c.srv.mu.Lock()
	defer c.srv.mu.Unlock()
	if !c.newcomer.displaced {
		c.srv.admission.forget(c)
	}
}

// updateUsage updates the memory usage of the buffers and the transaction.
func (c *connection) updateUsage() {
	c.usage.set(&c.usage.query, int64(c.in.Size()))
	c.usage.set(&c.usage.replies, int64(c.output.out.Size()))
	c.usage.set(&c.usage.multi, c.session.tx.memory())
}

// awaitRoom accounts for a larger read buffer that is about to be allocated. growth is the size of the new buffer in
// bytes. Both the old and the new buffer count, since they exist together while the contents are copied. Unless the
// usage of the client is small, awaitRoom waits for memory.
func (c *connection) awaitRoom(growth int) {
	c.usage.set(&c.usage.query, int64(c.in.Size()+growth))
	if c.usage.total() > smallUsage {
		c.pipe.slice.end(&c.srv.polls)
		c.usage.awaitMemory(c.srv, &c.closing)
	}
}

// hangUp aborts the connection. Any goroutine may call it. It does not block.
func (c *connection) hangUp() { c.closing.hangUp() }

// closeAfterReplies closes the connection once the commands already read have been answered. Any goroutine may call
// it. It does not block.
func (c *connection) closeAfterReplies() {
	c.closing.closeAfterReplies.Store(true)
	c.socket.stopReading()
}

// leave closes the connection, removes the client from the server and releases its resources.
func (c *connection) leave() {
	c.srv.mu.Lock()
	delete(c.srv.clients, c.id)
	c.srv.peers -= countTrue(c.listener.trusted)
	c.srv.admission.forget(c)
	c.srv.mu.Unlock()
	_ = c.socket.Close()
	c.endWait()
	c.pipe.close()
	c.srv.endBackup(c.session.backup)
	c.session.tx.close()
	c.output.endFeed()
	c.usage.release()
}

// logEnd logs the error that closed the connection. It does not log a regular close.
func (c *connection) logEnd(err error) {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) {
		return
	}
	c.srv.debug("connection", "connection failed", "client", c.id, "error", err)
}
