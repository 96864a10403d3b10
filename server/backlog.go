package server

import (
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/options"
)

// A client may send many commands before it reads any reply. Its replies are written at once as
// long as the system takes them. What it does not take is queued in a feed, up to
// client-reply-buffer-limit and as far as all clients together leave memory; then no more is
// read from the client. It is closed only when it has read nothing for write-timeout while its
// replies had no more room.

// backlog is what the housekeeper looks at of the replies that wait for a client.
type backlog struct {
	patient   atomic.Bool          // what waits are replies, which the client may leave unread while there is room
	fullSince atomic.Int64         // the tick since when there is none; 0 if there is
	waiting   atomic.Pointer[feed] // what the client's goroutine waits for room in, or nil
}

// write hands replies to the connection. It blocks only while there is no room for them.
func (c *client) write(b []byte) error {
	if c.feed != nil {
		ended, err := c.queueReplies(b)
		if !ended || err != nil {
			return err
		}
		c.feed = nil // all before has been written
	}
	n := c.conn.tryWrite(b)
	c.countWrite(n)
	if n == len(b) {
		return nil
	}
	return c.writeRest(b[n:])
}

// writeRest hands over what the system did not take at once. A stream to another node, and what
// has no descriptor, is written to directly: the other end reads all the time.
func (c *client) writeRest(b []byte) error {
	if c.conn.raw == nil || c.face.trusted {
		if c.giveTurn() {
			defer c.takeTurn()
		}
		n, err := c.writeSlowly(b)
		c.countWrite(n)
		return err
	}
	c.feed = newFeed(&c.usage, false)
	_, err := c.feed.put(b, c.replyRoom(), func() {}) // there is room in an empty one
	c.backlog.patient.Store(true)
	c.startFeed()
	return err
}

// queueReplies queues replies behind what already waits for the client, and waits until there
// is room. It reports whether the feed has ended instead.
func (c *client) queueReplies(b []byte) (ended bool, err error) {
	queued, ended, err := c.feed.tryPut(b, c.replyRoom(), c.tune) // a client that can read of its subscription gets what comes there
	if queued || ended {
		return ended, err
	}
	if c.giveTurn() {
		defer c.takeTurn()
	}
	c.backlog.fullSince.Store(c.srv.ticks.Load())
	c.backlog.waiting.Store(c.feed)
	ended, err = c.feed.put(b, c.replyRoom(), c.tune)
	c.backlog.waiting.Store(nil)
	c.backlog.fullSince.Store(0)
	return ended, err
}

// replyRoom returns the bytes of replies that may wait for the client. Before it has logged in
// it gets short ones only.
func (c *client) replyRoom() int64 {
	if !c.authenticated {
		return guestQuery
	}
	return c.srv.opts.Get().ClientReplyBufferLimit
}

func (c *client) countWrite(n int) {
	c.srv.stats.netOut.Add(int64(n))
	c.srv.stats.writes.Add(1)
}

// writeSlowly writes in pieces, so that the housekeeper can tell a peer that reads
// slowly from one that does not read.
func (c *client) writeSlowly(b []byte) (written int, err error) {
	defer c.writing.Store(0)
	for err == nil && written < len(b) {
		c.writing.Store(c.srv.ticks.Load())
		var n int
		n, err = c.conn.Write(b[written:min(len(b), written+flushAt)])
		written += n
	}
	return written, err
}

// stalled reports whether a client has read nothing for write-timeout, while there was no room
// for more replies: as its own have filled it, or as memory for all clients was tight.
func (c *client) stalled(o *options.Options, m moment) bool {
	longSince := func(from int64) bool {
		return from > 0 && o.WriteTimeout > 0 && time.Duration(m.now-from)*tick > o.WriteTimeout
	}
	return longSince(c.writing.Load()) &&
		(!c.backlog.patient.Load() || longSince(c.backlog.fullSince.Load()) || longSince(m.tightSince))
}
