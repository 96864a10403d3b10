package server

import (
	"net"
	"strings"
	"testing"
)

// silentClient returns a client that no goroutine serves.
func silentClient(tb testing.TB, u setup) *client {
	tb.Helper()
	s := u.build(tb)
	near, far := net.Pipe()
	tb.Cleanup(func() {
		_, _ = near.Close(), far.Close()
		_ = s.Shutdown(tb.Context())
	})
	return newClient(s, near, &redisListener)
}

// respond parses the commands in text and runs them. It drops their replies.
func (c *client) respond(tb testing.TB, input *strings.Reader, text string) {
	c.process(tb, input, text)
	c.out.Truncate(0, keepOut)
}

// process parses the commands in text and runs them. Their replies are in c.out, unless they are long.
func (c *client) process(tb testing.TB, input *strings.Reader, text string) {
	input.Reset(text)
	for input.Len() > 0 {
		if _, err := c.conn.in.Fill(input); err != nil {
			tb.Fatalf("fill the read buffer: %v", err)
		}
		c.pipe.begin(c.conn.in)
		for n := c.pipe.advance(); n != needNothing; n = c.pipe.advance() {
			if n == needWrite {
				c.out.Truncate(0, keepOut)
				continue
			}
			c.pipe.wait()
		}
		if c.pipe.end != endNot {
			tb.Fatalf("the server would close the connection; the replies are %.100q", c.out.Bytes())
		}
	}
}
