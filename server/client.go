package server

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/options"
	"github.com/throttledhq/throttled/resp"
)

const (
	flushAt  = 64 << 10 // bytes of pending replies at which they are written before the next command
	keepOut  = 16 << 10 // bytes of reply buffer that a connection keeps between reads
	keepIn   = 32 << 10 // bytes of read buffer that a connection keeps between reads
	maxTries = 10       // wrong passwords after which a connection is closed
)

// client is one connection and its session state. The goroutine that serves the connection owns the
// fields above lastRead; it shares in and out with the reaper (see ownership).
type client struct {
	srv      *Server
	listener *listenerProfile
	commands *registry // of that profile
	conn     *socket
	id       int64
	born     time.Time

	in    *resp.Reader
	known *options.Options // the options from which the limits of in were set
	out   resp.Reply
	batch *batch // collected commands; nil between reads

	authenticated bool
	tries         int // wrong passwords since the last login
	quit          bool
	cut           bool // close immediately and drop unwritten replies
	refused       bool // a command of this read was refused: later ones are refused too, to keep their order
	replies       replyMode
	marks         bool // replies that report a charge are marked
	// hopeless is the View.Changed channel of the view in which forwarding failed: further attempts are useless until
	// it is closed. It is nil if no attempt has failed.
	hopeless <-chan struct{}
	tracking tracking
	tx       transaction
	charged  era // era of the last charge
	channels subscriptions
	inTurn   bool  // the client holds one of the server's turns
	retune   bool  // the subscriptions have changed since they were registered for delivery
	watching bool  // MONITOR is on
	feed     *feed // output queue, if the client monitors, subscribes, or does not read its replies
	usage    usage
	buffers  ownership // ownership of in and out
	backlog  backlog
	newcomer *newcomer // nil after the first valid command of an authenticated client

	// State that the reaper checks. Times are ticks; 0 means unset.
	lastRead  atomic.Int64  // time of the last read
	halfSince atomic.Int64  // time since which an incomplete command is buffered
	guestFrom atomic.Int64  // time since which the client is unauthenticated
	writing   atomic.Int64  // time since which a write is blocked
	hungUp    atomic.Bool   // hangUp was called
	ended     chan struct{} // closed by hangUp
	leaving   atomic.Bool   // the connection is closed after the commands that have been read
	awaiting  atomic.Bool   // the client waits for the cluster: timeouts are suspended
	lastRun   atomic.Pointer[command]
	quietFrom int64 // the lastRead at which the reaper last checked for the end of the stream. The reaper owns it

	mu   sync.Mutex // guards info
	info clientInfo
}

// clientInfo is the state of a client that other goroutines can read, as for CLIENT LIST.
type clientInfo struct {
	name, libName, libVer      string
	resp                       int
	multi                      int // queued commands; -1 outside a transaction
	channels, patterns         int
	monitor, tracking, noEvict bool
	saving                     bool // SAVE, or the save of SHUTDOWN, is in progress
}

func newClient(s *Server, conn net.Conn, f *listenerProfile) *client {
	c := &client{
		srv:      s,
		listener: f,
		commands: s.commands[f.set],
		conn:     newSocket(conn),
		id:       s.lastID.Add(1),
		born:     time.Now(),
		ended:    make(chan struct{}),
		info:     clientInfo{resp: 2, multi: -1},
	}
	now := s.ticks.Load()
	c.lastRead.Store(now)
	c.in = resp.NewReader(resp.Limits{})
	c.usage.init(s, f)
	c.resetAuth()
	return c
}

// resetAuth restores the authentication state of a new connection.
func (c *client) resetAuth() {
	c.setAuthenticated(c.listener.trusted || c.srv.opts.Get().RequirePass == "")
}

func (c *client) setAuthenticated(yes bool) {
	c.authenticated = yes
	if yes {
		c.guestFrom.Store(0)
	} else {
		// RESET does not extend the time to authenticate.
		c.guestFrom.CompareAndSwap(0, c.srv.ticks.Load())
	}
	c.known = nil
	c.refreshLimits()
}

// refreshLimits applies changed options: the limits of the reader, and the authentication of all
// clients when no password is required any more.
func (c *client) refreshLimits() {
	o := c.srv.opts.Get()
	if o == c.known {
		return
	}
	if !c.authenticated && o.RequirePass == "" {
		c.authenticated = true
		c.guestFrom.Store(0)
	}
	c.known = o
	c.in.SetLimits(readLimits(o, c.authenticated))
}

// Limits of the commands of an unauthenticated client.
const (
	guestArgs  = 10
	guestBulk  = 16 << 10
	guestQuery = 64 << 10
)

func readLimits(o *options.Options, authenticated bool) resp.Limits {
	l := resp.Limits{
		Args:   o.ProtoMaxArgs,
		Bulk:   int(o.ProtoMaxBulkLen),
		Inline: int(o.ProtoMaxInlineLen),
		Query:  int(o.ClientQueryBufferLimit),
	}
	if !authenticated {
		l.Guest = true
		l.Args = min(l.Args, guestArgs)
		l.Bulk = min(l.Bulk, guestBulk)
		l.Inline = min(l.Inline, guestBulk)
		l.Query = min(l.Query, guestQuery)
	}
	return l
}

// serve serves the connection until it is closed.
func (c *client) serve() {
	defer c.srv.active.Done()
	defer c.leave()
	defer func() {
		if p := recover(); p != nil {
			c.srv.stats.panics.Add(1)
			c.srv.log.Error("a command panicked; its connection is closed", "panic", p,
				"client", c.id, "command", c.lastCommand(), "stack", string(debug.Stack()))
		}
	}()
	err := c.conn.loop(c.turn)
	c.buffers.unpark()
	c.noteEnd(err)
	if c.cut {
		c.conn.hangUp()
	}
	c.endFeed() // writes queued output, if the peer reads it
	if parted := c.parts(); parted || (c.quit || c.leaving.Load()) && !c.cut {
		c.conn.lastWords(parted)
	}
}

// parts sends the PARTING error to another node, and reports whether it was sent. The error announces
// that this node closes the stream and that commands without a reply were not run. It is not sent
// when the connection is aborted.
func (c *client) parts() bool {
	if !c.listener.trusted || c.cut || c.hungUp.Load() || !c.srv.closing.Load() && !c.leaving.Load() {
		return false
	}
	c.out.Error(string(errParting))
	return c.flush()
}

// turn reads once and runs the complete commands.
func (c *client) turn() progress {
	c.buffers.unpark()
	c.srv.clientMemory.collect()
	if growth := c.in.Growth(); growth > 0 {
		c.awaitRoom(growth)
	}
	n, err := c.in.Fill(c.conn)
	if c.hungUp.Load() {
		return stop // no command may run after hangUp
	}
	if n > 0 {
		c.srv.stats.netIn.Add(int64(n))
		c.srv.stats.reads.Add(1)
		goesOn := c.runTurn()
		c.noteUsage()
		if !goesOn {
			return stop
		}
	}
	switch {
	case c.srv.closing.Load() || c.leaving.Load():
		return stop
	case err == errNothing || err == nil && c.conn.drained:
		c.trimReader()
		c.buffers.park()
		return wait
	case err != nil:
		c.noteEnd(err)
		return stop
	}
	return again
}

// trimReader frees a large read buffer before a wait that may be long.
func (c *client) trimReader() {
	if c.in.Pending() == 0 && c.in.Size() > keepIn {
		c.in = resp.NewReader(readLimits(c.known, c.authenticated))
		c.noteUsage()
	}
}

// runAll runs the complete commands that have been read, writes their replies, and reports
// whether the connection stays open.
func (c *client) runAll() bool {
	note(&c.lastRead, c.srv.ticks.Load())
	c.refreshLimits()
	c.hopeless = nil
	c.refused = false
	completed := false
	var broken error
	for {
		var args [][]byte
		if args, broken = c.in.Next(); args == nil || broken != nil {
			break
		}
		completed = true
		c.dispatch(args)
		if c.quit || c.cut || c.hungUp.Load() {
			break
		}
		if c.out.Len() >= flushAt && !c.flush() {
			return false
		}
	}
	c.settle()
	c.dropBatch()
	if broken != nil {
		c.protocolError(broken)
	}
	if c.newcomer != nil {
		c.noteKnown() // before the first reply: from then on the client may rely on its place
	}
	goesOn := !c.cut && c.flush() && !c.quit
	c.noteHalf(completed)
	return goesOn
}

// noteHalf records for the reaper whether an incomplete command is buffered.
func (c *client) noteHalf(completed bool) {
	switch {
	case c.in.Pending() == 0:
		note(&c.halfSince, 0)
	case completed || c.halfSince.Load() == 0:
		note(&c.halfSince, c.srv.ticks.Load())
	}
}

// note stores a value that rarely changes. Loading it first keeps the cache line shared.
func note(a *atomic.Int64, value int64) {
	if a.Load() != value {
		a.Store(value)
	}
}

// flush writes the pending replies, and reports whether the connection stays open.
func (c *client) flush() bool {
	fresh, err := c.beginFeed(), error(nil)
	if c.out.Len() > 0 {
		note(&c.halfSince, 0) // nothing is read meanwhile, so an incomplete command cannot be completed
		err = c.write(c.out.Bytes())
		c.out.Truncate(0, keepOut)
	}
	if c.feed != nil {
		c.fill(fresh)
	}
	return err == nil
}

// protocolError replies to malformed input and closes the connection, since the bytes that follow
// cannot be parsed.
func (c *client) protocolError(err error) {
	c.srv.stats.protocolErrors.Add(1)
	c.srv.debug("protocol", "protocol error", "client", c.id, "addr", c.conn.RemoteAddr(), "error", err)
	c.fail(nil, replyError("ERR "+err.Error()))
	c.quit = true
}

// hangUp aborts the connection. It may be called from any goroutine and does not block.
func (c *client) hangUp() {
	if !c.hungUp.Swap(true) {
		close(c.ended)
	}
	c.conn.hangUp()
}

// leave closes the connection, removes the client from the server and releases its resources.
func (c *client) leave() {
	c.srv.mu.Lock()
	delete(c.srv.clients, c.id)
	c.srv.peers -= countTrue(c.listener.trusted)
	c.srv.admission.forget(c)
	c.srv.mu.Unlock()
	_ = c.conn.Close()
	c.dropBatch()
	c.tx.own.Close()
	c.endFeed()
	c.usage.release()
}

// noteEnd logs the error that closed a connection. A regular close is not logged.
func (c *client) noteEnd(err error) {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) {
		return
	}
	c.srv.debug("connection", "connection ended", "client", c.id, "error", err)
}

func (c *client) lastCommand() string {
	if cmd := c.lastRun.Load(); cmd != nil {
		return cmd.name
	}
	return "NULL"
}

// show changes the profile of the client.
func (c *client) show(change func(p *clientInfo)) {
	c.mu.Lock()
	change(&c.info)
	c.mu.Unlock()
}

func (c *client) shown() clientInfo {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.info
}
