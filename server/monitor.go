package server

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// monitors are the connections that MONITOR shows all commands to.
type monitors struct {
	count atomic.Int32
	mu    sync.Mutex
	feeds map[*client]*feed
}

// feed is what has yet to be written to a monitor: the commands it is shown, and the
// replies to its own. A goroutine writes it, so that nobody waits for a monitor; one
// whose queue overflows is closed.
type feed struct {
	mu     sync.Mutex
	queued []byte
	closed bool
	wake   chan struct{} // holds a token when there is something to do
	done   chan struct{} // closed when the goroutine has ended
}

// monitorQueue is how many bytes wait for a monitor at the most: a few of the longest lines.
const monitorQueue = 8 << 20

var errSlowMonitor = errors.New("monitor does not read what it is shown")

// add queues bytes, or returns errSlowMonitor.
func (f *feed) add(b []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.queued)+len(b) > monitorQueue {
		return errSlowMonitor
	}
	f.queued = append(f.queued, b...)
	f.signal()
	return nil
}

// close lets the goroutine end once it has written what is queued.
func (f *feed) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.signal()
}

func (f *feed) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// take returns what is queued, and whether that was the last.
func (f *feed) take() (b []byte, last bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b, f.queued = f.queued, nil
	return b, f.closed
}

// writeFeed writes a feed until it is closed or the peer does not take it.
func (c *client) writeFeed(f *feed) {
	defer close(f.done)
	for range f.wake {
		b, last := f.take()
		if _, err := c.writeSlowly(b); err != nil {
			c.hangUp()
			return
		}
		if last {
			return
		}
	}
}

func (m *monitors) active() bool { return m.count.Load() > 0 }

// add begins to feed a client, with what it has been answered.
func (m *monitors) add(c *client, answered []byte) {
	f := &feed{queued: answered, wake: make(chan struct{}, 1), done: make(chan struct{})}
	f.signal()
	c.feed = f
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.feeds == nil {
		m.feeds = map[*client]*feed{}
	}
	m.feeds[c] = f
	m.count.Add(1)
	// It begins to write last: who has been answered is shown all that runs from then on.
	c.srv.active.Go(func() { c.writeFeed(f) })
}

// remove ends the feed of a client, if it has one, and waits until it is written.
func (m *monitors) remove(c *client) {
	if c.feed == nil {
		return
	}
	m.mu.Lock()
	delete(m.feeds, c)
	m.count.Add(-1)
	m.mu.Unlock()
	c.feed.close()
	<-c.feed.done
	c.feed = nil
}

// show shows a command of a client to all monitors.
func (m *monitors) show(c *client, cmd *command, args [][]byte) {
	line := monitorLine(time.Now(), c.conn.RemoteAddr().String(), redact(cmd, args))
	m.mu.Lock()
	defer m.mu.Unlock()
	for to, f := range m.feeds {
		if f.add(line) != nil {
			to.hangUp() // its goroutine removes it
		}
	}
}

// monitorLine renders a command as Redis does: time, database and address, and the
// arguments quoted.
func monitorLine(at time.Time, addr string, args [][]byte) []byte {
	b := fmt.Appendf(nil, "+%d.%06d [0 %s]", at.Unix(), at.Nanosecond()/1000, addr)
	for _, arg := range args {
		b = append(b, ' ')
		b = appendQuoted(b, arg)
	}
	return append(b, "\r\n"...)
}

// appendQuoted appends b in double quotes, with what does not print escaped.
func appendQuoted(dst, b []byte) []byte {
	dst = append(dst, '"')
	for _, c := range b {
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		case '\a':
			dst = append(dst, `\a`...)
		case '\b':
			dst = append(dst, `\b`...)
		default:
			if c >= ' ' && c <= '~' {
				dst = append(dst, c)
				continue
			}
			dst = fmt.Appendf(dst, `\x%02x`, c)
		}
	}
	return append(dst, '"')
}

// redact returns args without the passwords among them, for the eyes of others.
func redact(cmd *command, args [][]byte) [][]byte {
	from := len(args)
	switch cmd.name {
	case "auth":
		from = 1
	case "hello":
		for i, arg := range args {
			if bytes.EqualFold(arg, []byte("auth")) {
				from = i + 1
				break
			}
		}
	case "config|set":
		from = 3
	}
	if from >= len(args) {
		return args
	}
	shown := append([][]byte(nil), args[:from]...)
	for range args[from:] {
		shown = append(shown, []byte("(redacted)"))
	}
	return shown
}

func cmdMonitor(c *client, _ [][]byte) error {
	if c.tx.running {
		return errMonitorQueued
	}
	c.out.OK()
	c.watching = true
	c.show(func(p *profile) { p.monitor = true })
	return nil
}

// beginFeed makes a connection that has asked for it a monitor. The replies that it has
// yet to get go first, and what runs once it has them is shown.
func (c *client) beginFeed() {
	if c.watching && c.feed == nil {
		c.srv.monitors.add(c, bytes.Clone(c.out.Bytes()))
		c.out.Truncate(0, keepOut)
	}
}
