package server

import (
	"bytes"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// monitors holds the connections in MONITOR mode.
type monitors struct {
	count atomic.Int32
	mu    sync.Mutex
	feeds map[*output]*feed
}

func (m *monitors) active() bool { return m.count.Load() > 0 }

// add registers a client, which must have a feed.
func (m *monitors) add(o *output) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.feeds == nil {
		m.feeds = map[*output]*feed{}
	}
	if m.feeds[o] == nil {
		m.feeds[o] = o.feed
		m.count.Add(1)
	}
}

// remove unregisters a client.
func (m *monitors) remove(o *output) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.feeds[o] != nil {
		delete(m.feeds, o)
		m.count.Add(-1)
	}
}

// show sends a command from a client to all monitors.
func (m *monitors) show(c *client, cmd *command, args [][]byte) {
	line := monitorLine(time.Now(), c.addr().String(), redact(cmd, args))
	m.mu.Lock()
	defer m.mu.Unlock()
	for to, f := range m.feeds {
		f.push(to.closing, line) // if push closes the client, the goroutine of that client calls remove
	}
}

// showMonitors sends a command from a client to the clients in MONITOR mode, unless the command has the flag admin or
// skipMonitor.
func showMonitors(c *client, cmd *command, args [][]byte) {
	if c.srv.monitors.active() && !cmd.is(admin|skipMonitor) {
		c.srv.monitors.show(c, cmd, args)
	}
}

// monitorLine formats a command as Redis does: time, database, address, and quoted arguments.
func monitorLine(at time.Time, addr string, args [][]byte) []byte {
	b := fmt.Appendf(nil, "+%d.%06d [0 %s]", at.Unix(), at.Nanosecond()/1000, addr)
	for _, arg := range args {
		b = append(b, ' ')
		b = appendQuoted(b, arg)
	}
	return append(b, "\r\n"...)
}

// appendQuoted appends b in double quotes, with non-printable bytes escaped.
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

// redact returns a copy of args for MONITOR and the slow log. Arguments that may contain a password are replaced in the
// copy. If args has no such arguments, redact returns args itself.
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
	case "acl|setuser", "acl|getuser", "acl|deluser", "acl|dryrun":
		from = 2
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
	if c.session.tx.running {
		return errMonitorQueued
	}
	c.out.OK()
	c.session.monitoring = true
	c.session.setInfo(func(i *clientInfo) { i.monitor = true })
	return nil
}
