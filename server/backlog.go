package server

import (
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/options"
)

// A client may send many commands before it reads any reply. Replies are written immediately while
// the socket buffer has room. The rest is queued in a feed, up to client-reply-buffer-limit and while
// client memory is not tight; beyond that, no more commands are read from the client. It is
// disconnected only if it has read nothing for write-timeout while the queue had no room.

// backlog is the state of queued replies that the reaper checks.
type backlog struct {
	patient   atomic.Bool          // the queue contains only replies, which may stay unread while there is room
	fullSince atomic.Int64         // tick since which there is no room; 0 if there is
	waiting   atomic.Pointer[feed] // feed in which the client's goroutine waits for room, or nil
}

// write writes or queues replies. It blocks only while the queue has no room.
func (c *client) write(b []byte) error {
	if c.feed != nil {
		ended, err := c.queueReplies(b)
		if !ended || err != nil {
			return err
		}
		c.feed = nil // everything queued has been written
	}
	n := c.conn.tryWrite(b)
	c.countWrite(n)
	if n == len(b) {
		return nil
	}
	return c.writeRest(b[n:])
}

// writeRest writes or queues the bytes that did not fit the socket buffer. A stream to another node,
// and a connection without a descriptor, are written directly: their peers always read.
func (c *client) writeRest(b []byte) error {
	if c.conn.raw == nil || c.listener.trusted {
		if c.giveTurn() {
			defer c.takeTurn()
		}
		n, err := c.writeSlowly(b)
		c.countWrite(n)
		return err
	}
	c.feed = newFeed(&c.usage, false)
	_, err := c.feed.put(b, c.replyRoom(), func() {}) // an empty feed has room
	c.backlog.patient.Store(true)
	c.startFeed()
	return err
}

// queueReplies queues replies after those that are already queued, and waits until there is room. It
// reports whether the feed has stopped, so that the replies were not queued.
func (c *client) queueReplies(b []byte) (ended bool, err error) {
	queued, ended, err := c.feed.tryPut(b, c.replyRoom(), c.tune) // subscriptions take effect when their reply is queued
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

// replyRoom returns the maximum size in bytes of the queued replies. It is small for unauthenticated
// clients, which get short replies only.
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

// writeSlowly writes in pieces of flushAt bytes, so that the reaper can distinguish a peer that reads
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

// stalled reports whether a client has read nothing for write-timeout, while there was no room for
// more replies: its own queue was full, or client memory was tight. Pushed output is not exempt while
// there is room.
func (c *client) stalled(o *options.Options, m moment) bool {
	longSince := func(from int64) bool {
		return from > 0 && o.WriteTimeout > 0 && time.Duration(m.now-from)*tick > o.WriteTimeout
	}
	return longSince(c.writing.Load()) &&
		(!c.backlog.patient.Load() || longSince(c.backlog.fullSince.Load()) || longSince(m.tightSince))
}
