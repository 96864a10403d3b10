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
	flushAt  = 64 << 10 // bytes of replies that are written before more commands run
	keepOut  = 16 << 10 // bytes of reply buffer that a connection keeps between reads
	keepIn   = 32 << 10 // bytes of reader likewise
	maxTries = 10       // wrong passwords before a connection is closed
)

// client is one connection and what it has set up. All but the fields at the end
// belong to the goroutine that serves it.
type client struct {
	srv      *Server
	face     *face
	commands *registry // of that face
	conn     *socket
	id       int64
	born     time.Time

	in    *resp.Reader
	known *options.Options // those that the limits of in come from
	out   resp.Reply
	batch *batch // commands that are collected; nil between reads

	authenticated bool
	tries         int // wrong passwords so far
	quit          bool
	cut           bool // close at once, unwritten replies and all
	refused       bool // what was read has been refused in part: the rest must not run before that does
	replies       replyMode
	marks         bool // replies are marked that report a charge
	// hopeless is closed by the change of the view without which further attempts to forward are useless; nil if they
	// are not.
	hopeless <-chan struct{}
	tracking tracking
	tx       transaction
	charged  era // when it was charged last
	channels subscriptions
	inTurn   bool  // it holds one of the server's turns
	retune   bool  // its subscriptions are not those that it is told news by
	watching bool  // MONITOR has been asked for
	feed     *feed // what writes to the connection then, where there may be news, or while the client does not read
	usage    usage
	buffers  ownership // of in and out
	backlog  backlog
	newcomer *newcomer // nil once the client has shown what it is

	// What the housekeeper looks at, in its ticks; 0 means not so.
	lastRead  atomic.Int64  // when bytes came last
	halfSince atomic.Int64  // since when an incomplete command waits
	guestFrom atomic.Int64  // since when a password is asked for
	writing   atomic.Int64  // since when a write has been waiting
	hungUp    atomic.Bool   // another goroutine wants the connection to end
	ended     chan struct{} // closed then
	leaving   atomic.Bool   // likewise, behind what has been read
	awaiting  atomic.Bool   // the client is kept waiting for the cluster
	lastRun   atomic.Pointer[command]
	quietFrom int64 // the lastRead at which the housekeeper has looked for the end of the stream

	mu      sync.Mutex // guards what CLIENT LIST shows of it
	profile profile
}

// profile is what other clients can see of a client.
type profile struct {
	name, libName, libVer      string
	resp                       int
	multi                      int // commands queued; -1 outside of a transaction
	channels, patterns         int
	monitor, tracking, noEvict bool
	saving                     bool // a snapshot is written for it
}

func newClient(s *Server, conn net.Conn, f *face) *client {
	c := &client{
		srv:      s,
		face:     f,
		commands: s.commands[f.set],
		conn:     newSocket(conn),
		id:       s.lastID.Add(1),
		born:     time.Now(),
		ended:    make(chan struct{}),
		profile:  profile{resp: 2, multi: -1},
	}
	now := s.ticks.Load()
	c.lastRead.Store(now)
	c.in = resp.NewReader(resp.Limits{})
	c.usage.init(s, f)
	c.resetAuth()
	return c
}

// resetAuth makes the client what it is at connect: a guest if there is a password.
func (c *client) resetAuth() {
	c.setAuthenticated(c.face.trusted || c.srv.opts.Get().RequirePass == "")
}

func (c *client) setAuthenticated(yes bool) {
	c.authenticated = yes
	if yes {
		c.guestFrom.Store(0)
	} else {
		// A guest that asks for RESET gains no time by it.
		c.guestFrom.CompareAndSwap(0, c.srv.ticks.Load())
	}
	c.known = nil
	c.refreshLimits()
}

// refreshLimits makes the client follow the options: the limits of its reader, and that
// nobody is a guest once there is no password.
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

// What a client may send before it has shown a password.
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

// serve runs the connection until it ends.
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
	c.endFeed() // with its last words, if the peer takes them
	if parted := c.parts(); parted || (c.quit || c.leaving.Load()) && !c.cut {
		c.conn.lastWords(parted)
	}
}

// parts tells another node that this one ends the stream, so that it knows what has become
// of the commands that are not answered, and reports whether it has. Who hangs up says nothing.
func (c *client) parts() bool {
	if !c.face.trusted || c.cut || c.hungUp.Load() || !c.srv.closing.Load() && !c.leaving.Load() {
		return false
	}
	c.out.Error(string(errParting))
	return c.flush()
}

// turn reads once and runs what has been read.
func (c *client) turn() progress {
	c.buffers.unpark()
	c.srv.clientMemory.collect()
	if growth := c.in.Growth(); growth > 0 {
		c.awaitRoom(growth)
	}
	n, err := c.in.Fill(c.conn)
	if c.hungUp.Load() {
		return stop // whoever ended the connection may rely on nothing running any more
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

// trimReader lets go of the memory that a long command has taken, before a wait that may
// be long.
func (c *client) trimReader() {
	if c.in.Pending() == 0 && c.in.Size() > keepIn {
		c.in = resp.NewReader(readLimits(c.known, c.authenticated))
		c.noteUsage()
	}
}

// runAll runs the commands that have been read, writes their replies, and reports
// whether the connection goes on.
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
	goesOn := !c.cut && c.flush() && !c.quit
	c.noteHalf(completed)
	if c.newcomer != nil {
		c.noteKnown()
	}
	return goesOn
}

// noteHalf tells the housekeeper whether a command has begun that is not yet whole.
func (c *client) noteHalf(completed bool) {
	switch {
	case c.in.Pending() == 0:
		note(&c.halfSince, 0)
	case completed || c.halfSince.Load() == 0:
		note(&c.halfSince, c.srv.ticks.Load())
	}
}

// note stores a value that seldom changes. Reading first keeps the cache line shared.
func note(a *atomic.Int64, value int64) {
	if a.Load() != value {
		a.Store(value)
	}
}

// flush writes what has been replied, and reports whether the connection goes on.
func (c *client) flush() bool {
	fresh, err := c.beginFeed(), error(nil)
	if c.out.Len() > 0 {
		note(&c.halfSince, 0) // nothing is read meanwhile: what is incomplete cannot be completed
		err = c.write(c.out.Bytes())
		c.out.Truncate(0, keepOut)
	}
	if c.feed != nil {
		c.fill(fresh)
	}
	return err == nil
}

// protocolError answers bytes that are no command. What follows them has no meaning.
func (c *client) protocolError(err error) {
	c.srv.stats.protocolErrors.Add(1)
	c.srv.debug("protocol", "protocol error", "client", c.id, "addr", c.conn.RemoteAddr(), "error", err)
	c.fail(nil, replyError("ERR "+err.Error()))
	c.quit = true
}

// hangUp ends the connection from another goroutine, without waiting for its end.
func (c *client) hangUp() {
	if !c.hungUp.Swap(true) {
		close(c.ended)
	}
	c.conn.hangUp()
}

// leave forgets the client.
func (c *client) leave() {
	c.srv.mu.Lock()
	delete(c.srv.clients, c.id)
	c.srv.peers -= countTrue(c.face.trusted)
	c.srv.admission.forget(c)
	c.srv.mu.Unlock()
	_ = c.conn.Close()
	c.dropBatch()
	c.tx.own.Close()
	c.endFeed()
	c.usage.release()
}

// noteEnd logs why a connection ended, unless it did as connections do.
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

// show changes what others see of the client.
func (c *client) show(change func(p *profile)) {
	c.mu.Lock()
	change(&c.profile)
	c.mu.Unlock()
}

func (c *client) shown() profile {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.profile
}
