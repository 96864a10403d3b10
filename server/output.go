package server

import (
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/acl"
	"github.com/throttledhq/throttled/options"
	"github.com/throttledhq/throttled/resp"
)

// A client may send many commands before it reads any reply. Replies are written immediately while the socket buffer
// has room. The rest is queued in a feed (see feed.go). The queue has room for more replies if it stays within
// client-reply-buffer-limit and client memory is not tight (see clientMemory.tight). While the queue has no room, the
// server does not read commands from the client. The client is disconnected only if it has read less than 64 KiB within
// write-timeout while the queue had no room.

// output writes the replies of a client, and owns its feed. It belongs to the goroutine that serves the connection. The
// goroutine of the feed calls writeFeed, and the reaper calls stalled.
type output struct {
	srv      *Server
	listener *listenerProfile
	session  *session
	out      *resp.Reply // replies to write
	socket   *socket
	usage    *usage
	turn     *turn      // released while a write waits for the client
	slice    *timeSlice // ended before a write waits for the client
	activity *activity
	closing  *closing

	feed    *feed // nil unless the client monitors, subscribes, or does not read its replies
	backlog backlog
}

// backlog describes the queue of replies. The reaper checks it to find clients that do not read their replies.
type backlog struct {
	repliesOnly atomic.Bool          // the queue contains only replies, which may stay unread while there is room
	fullSince   atomic.Int64         // tick since which there is no room for replies; 0 if there is room
	waiting     atomic.Pointer[feed] // feed in which the client's goroutine waits for room, or nil
}

func (o *output) init(c *client) {
	o.srv, o.listener, o.session, o.out = c.srv, c.listener, &c.session, &c.out
	o.socket, o.usage, o.turn = c.conn.socket, &c.conn.usage, &c.conn.turn
	o.slice, o.activity, o.closing = &c.pipe.slice, &c.conn.activity, &c.conn.closing
}

// flush writes the pending replies, and reports whether the connection stays open.
func (o *output) flush() bool {
	fresh, err := o.beginFeed(), error(nil)
	if o.out.Len() > 0 {
		// Suspend command-timeout: nothing is read during the write, so an incomplete command cannot be completed.
		storeIfChanged(&o.activity.incomplete, 0)
		err = o.write(o.out.Bytes())
		o.out.Truncate(0, keepOut)
	}
	if o.feed != nil {
		o.registerFeed(fresh)
	}
	return err == nil
}

// write writes or queues replies. It blocks while the queue has no room. For a connection that cannot have a queue (see
// writeRest), it blocks until the replies are written.
func (o *output) write(b []byte) error {
	if o.feed != nil {
		ended, err := o.queueReplies(b)
		if !ended || err != nil {
			return err
		}
		o.feed = nil // everything queued has been written
	}
	n := o.socket.tryWrite(b)
	o.countWrite(n)
	if n == len(b) && !o.socket.hasUnsent() {
		return nil
	}
	return o.writeRest(b[n:])
}

// writeRest queues the bytes that did not fit in the socket buffer. Streams to other nodes, connections without a file
// descriptor, and unauthenticated clients have no queue: for them, writeRest blocks until the bytes are written.
func (o *output) writeRest(b []byte) error {
	if o.socket.raw == nil || o.listener.trusted || !o.session.authenticated {
		o.slice.end(&o.srv.polls)
		if o.turn.release() {
			defer o.turn.acquire()
		}
		n, err := o.writeSlowly(b)
		o.countWrite(n)
		return err
	}
	o.feed = newFeed(o.usage, false)
	_, err := o.feed.put(b, o.replyRoom(), func() {}) // an empty feed has room
	o.backlog.repliesOnly.Store(true)
	o.startFeed()
	return err
}

// queueReplies appends replies to the queue, and waits until there is room. ended reports whether the feed has stopped,
// in which case the replies were not queued.
func (o *output) queueReplies(b []byte) (ended bool, err error) {
	// Subscriptions take effect when their reply is queued.
	queued, ended, err := o.feed.tryPut(b, o.replyRoom(), o.registerSubscriptions)
	if queued || ended {
		return ended, err
	}
	o.slice.end(&o.srv.polls)
	if o.turn.release() {
		defer o.turn.acquire()
	}
	o.backlog.fullSince.Store(o.srv.ticks.Load())
	o.backlog.waiting.Store(o.feed)
	ended, err = o.feed.put(b, o.replyRoom(), o.registerSubscriptions)
	o.backlog.waiting.Store(nil)
	o.backlog.fullSince.Store(0)
	return ended, err
}

// replyRoom returns the maximum size in bytes of the queued replies. It is small for a client that is no longer
// authenticated, but still has a queue.
func (o *output) replyRoom() int64 {
	if !o.session.authenticated {
		return unauthenticatedReplies
	}
	return o.srv.opts.Get().ClientReplyBufferLimit
}

func (o *output) countWrite(n int) {
	o.srv.stats.netOut.Add(int64(n))
	o.srv.stats.writes.Add(1)
}

// writeSlowly writes in pieces of flushAt bytes, so that the reaper can distinguish a peer that reads slowly from a
// peer that does not read.
func (o *output) writeSlowly(b []byte) (written int, err error) {
	defer o.activity.writing.Store(0)
	for err == nil && written < len(b) {
		o.activity.writing.Store(o.srv.ticks.Load())
		var n int
		n, err = o.socket.Write(b[written:min(len(b), written+flushAt)])
		written += n
	}
	return written, err
}

// writeUnsent writes the bytes that tryWrite has encrypted but not written.
func (o *output) writeUnsent() error {
	if !o.socket.hasUnsent() {
		return nil
	}
	defer o.activity.writing.Store(0)
	o.activity.writing.Store(o.srv.ticks.Load())
	return o.socket.cipher.flush()
}

// stalled reports whether a client has read less than flushAt bytes within write-timeout while there was no room for
// more replies, either because its own queue was full or because client memory was tight. For a client that also
// receives pushed output (messages of PUBLISH, lines of MONITOR), stalled does not check whether there was room.
func (o *output) stalled(opts *options.Options, m reaperRun) bool {
	longSince := func(from int64) bool {
		return from > 0 && opts.WriteTimeout > 0 && time.Duration(m.now-from)*tick > opts.WriteTimeout
	}
	return longSince(o.activity.writing.Load()) &&
		(!o.backlog.repliesOnly.Load() || longSince(o.backlog.fullSince.Load()) || longSince(m.tightSince))
}

// writeFeed writes the queue of a feed until f.take reports that the goroutine must stop, or a write fails.
func (o *output) writeFeed(f *feed) {
	defer f.end()
	if err := o.writeUnsent(); err != nil {
		o.closing.hangUp()
		return
	}
	for {
		b, last := f.take()
		if last {
			return
		}
		if b == nil {
			<-f.wake
			continue
		}
		n, err := o.writeSlowly(b)
		o.countWrite(n)
		if err != nil {
			o.closing.hangUp()
			return
		}
		storeIfChanged(&o.activity.lastRead, o.srv.ticks.Load()) // a client that reads its output is not idle
	}
}

// beginFeed ensures that a client that is in MONITOR mode, or whose subscriptions have changed, has a feed that accepts
// pushed output. It returns true if it has created the feed. The caller must then pass true to registerFeed.
func (o *output) beginFeed() bool {
	if !o.session.monitoring && !o.session.subscriptionsChanged {
		return false
	}
	o.backlog.repliesOnly.Store(false)
	if o.feed != nil && o.feed.accept() {
		return false
	}
	o.feed = newFeed(o.usage, true)
	return true
}

// registerFeed registers the feed for pushed output, and then starts the goroutine of a new feed. The replies to
// MONITOR and SUBSCRIBE are in the queue of the new feed, so they are written only after the registration. A client
// that has received such a reply therefore also receives all pushed output from then on.
func (o *output) registerFeed(fresh bool) {
	if o.session.monitoring {
		o.registerMonitor()
	}
	o.registerSubscriptions()
	if !o.session.monitoring && !o.session.subscriptions.any() { // the client has unsubscribed
		o.backlog.repliesOnly.Store(true)
		o.feed.release()
	}
	if fresh {
		o.startFeed()
	}
}

func (o *output) startFeed() {
	f := o.feed
	o.backlog.fullSince.Store(0)
	o.srv.active.Go(func() { o.writeFeed(f) })
}

// registerMonitor registers the client for the commands of all clients. The users may have changed since MONITOR was permitted:
// closeRevoked closes only clients that are shown as monitors, so the permission is examined again.
func (o *output) registerMonitor() {
	o.srv.monitors.add(o)
	if u := acl.NewLogin(o.session.user).Of(o.srv.users.Get()); u == nil || !u.MayRun(o.srv.users.monitor) {
		o.closing.hangUp()
	}
}

// registerSubscriptions registers changed subscriptions for delivery. If the users have changed since the subscriptions were
// permitted, closeRevoked may have missed them, so they are examined again.
func (o *output) registerSubscriptions() {
	s := o.session
	if !s.subscriptionsChanged {
		return
	}
	o.srv.broker.register(o)
	set := o.srv.users.Get()
	if set != s.users || s.subscriptionsRevised {
		if u := acl.NewLogin(s.user).Of(set); u == nil || !maySubscribe(u, s.subscriptions.channels, s.subscriptions.patterns) {
			o.closing.hangUp()
		}
	}
	s.subscriptionsChanged, s.subscriptionsRevised = false, false
}

// releaseFeed stops pushed output to the client. Queued output is still written.
func (o *output) releaseFeed() {
	o.srv.monitors.remove(o)
	o.srv.broker.remove(o)
	if o.feed != nil {
		o.feed.release()
	}
}

// endFeed closes the feed, if there is one, and waits until its goroutine has stopped.
func (o *output) endFeed() {
	if o.feed == nil {
		return
	}
	o.releaseFeed()
	o.feed.close()
	storeIfChanged(&o.backlog.fullSince, o.srv.ticks.Load())
	<-o.feed.done
	o.feed = nil
}
