package server

import (
	"math"
	"strings"
	"testing"
)

// deepPipeline makes the read buffer and the reply buffer of a connection grow. deepReplies holds the replies to
// deepPipeline.
var (
	deepPipeline = strings.Repeat(request("PING", "0123456789"), 3000)
	deepReplies  = strings.Repeat(bulk("0123456789"), 3000)
)

// TestIdleBuffers checks that a connection that has sent a deep pipeline releases its buffers when it is idle, and is
// still served afterward.
func TestIdleBuffers(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	p := s.greet()
	use := &s.sortedClients()[0].conn.usage
	for range 2 {
		p.send(deepPipeline)
		p.expect(deepReplies)
		if !eventually(func() bool { return use.total() <= connectionBytes+keepIdle }) {
			t.Fatalf("%d bytes are counted for an idle connection, want at most connectionBytes + keepIdle", use.total())
		}
	}
	p.send("*1\r\n$4\r\nPI")
	p.send("NG\r\n")
	p.expect("+PONG\r\n")
}

// TestIdleBuffers_Incomplete checks that an incomplete command is kept, no matter how late the rest arrives.
func TestIdleBuffers_Incomplete(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	p := s.greet()
	c := &s.sortedClients()[0].conn
	word := strings.Repeat("x", 3*keepIdle)
	p.send(strings.TrimSuffix(request("ECHO", word), "x\r\n"))
	if !eventually(func() bool { return c.usage.query.Load() > keepIdle && c.buffers.free.Load() }) {
		t.Fatal("the server did not read the incomplete command, or the goroutine of the connection did not release the buffers")
	}
	c.trimIdle(math.MaxInt64)
	p.send("x\r\n")
	p.expect(bulk(word))
}

// TestIdleBuffers_WhileServed calls trimIdle repeatedly while the client is served, and while the client disconnects.
// All replies must arrive, and no memory may remain counted after the client has disconnected.
func TestIdleBuffers_WhileServed(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	other := s.greet()
	for i := range 8 {
		p := s.greet()
		c := &s.sortedClients()[1].conn
		left := make(chan struct{})
		dropped := make(chan struct{})
		go func() {
			defer close(dropped)
			for {
				select {
				case <-left:
					return
				default:
					c.trimIdle(math.MaxInt64)
				}
			}
		}()
		for range 10 {
			p.send(deepPipeline)
			p.expect(deepReplies)
		}
		_ = p.Close()
		other.await("clients", "connected_clients", 1)
		close(left)
		<-dropped
		if n := c.usage.total(); n != 0 {
			t.Fatalf("client %d has disconnected, but %d bytes are still counted, want 0", i, n)
		}
	}
}
