package server

import (
	"bufio"
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttledhq/throttled/server/forward"
)

// TestBrokenStreams breaks the stream to the leader at different stages of an exchange. Complete replies that have
// arrived must be sent to the client. Of the other commands, those that may have been charged must fail with
// errUncertain, and those that have had no effect must be sent again.
func TestBrokenStreams(t *testing.T) {
	t.Parallel()
	_, p, streams := newPlay(t, "a", "b")
	one := five(0, 3, 2, -1, 60)
	all := throttle("x") + throttle("y") + request("TTL", "x")

	p.send(all + ping)
	s := <-streams
	s.expect(t, all)
	s.send(t, one+"*5\r\n:0\r\n:1") // the second reply is cut off
	_ = s.Close()
	s = <-streams
	s.expect(t, request("TTL", "x"))
	s.send(t, ":7\r\n")
	p.expect(one + failure(errUncertain) + ":7\r\n+PONG\r\n")

	p.send(all)
	s.expect(t, all)
	s.send(t, "-ERR some\r\n~~~\r\n") // malformed RESP
	s = <-streams
	s.expect(t, request("TTL", "x"))
	s.send(t, ":8\r\n")
	p.expect("-ERR some\r\n" + failure(errUncertain) + ":8\r\n")

	p.send(all)
	s.expect(t, all)
	s.send(t, one+goawayLine) // the leader shuts down and has not run the other commands
	s = <-streams
	s.expect(t, throttle("y")+request("TTL", "x"))
	s.send(t, one+":9\r\n")
	p.expect(one + one + ":9\r\n")

	p.send(all)
	// The leader shuts down before it has read all commands.
	if _, err := io.ReadFull(s.Conn, make([]byte, len(throttle("x"))+5)); err != nil {
		t.Fatal(err)
	}
	s.send(t, one+goawayLine)
	_ = s.Close()
	s = <-streams
	s.expect(t, throttle("y")+request("TTL", "x"))
	s.send(t, one+":9\r\n")
	p.expect(one + one + ":9\r\n")

	p.send(all)
	s.expect(t, all)
	s.send(t, notLeadingLine+one+notLeadingLine)
	s.expect(t, throttle("x")+request("TTL", "x"))
	s.send(t, failure(errUncertain)+":10\r\n")
	p.expect(failure(errUncertain) + one + ":10\r\n")

	_ = s.Close() // the stream is closed while it is idle
	p.send(request("DEL", "x"))
	s = <-streams
	s.expect(t, request("DEL", "x"))
	s.send(t, ":1\r\n")
	p.expect(":1\r\n")
	if n := p.count("stats", "forward_errors"); n != 2 {
		t.Errorf("forward_errors is %d, want 2", n)
	}
}

// TestSilentLeader checks that forwarded commands time out if the leader does not reply.
func TestSilentLeader(t *testing.T) { synctest.Test(t, testSilentLeader) }

func testSilentLeader(t *testing.T) {
	_, p, streams := newPipedPlay(t, "a", "b")
	start := time.Now()
	p.send(throttle("x") + ping + throttle("y"))
	s := <-streams
	s.expect(t, throttle("x"))
	p.expect(failure(errUncertain) + "+PONG\r\n" + failure(errNotLeading))
	if took := time.Since(start); took != forward.ReplyTimeout {
		t.Errorf("the replies took %v, want forward.ReplyTimeout", took)
	}
}

// TestDeposedLeader checks that commands wait only forward.FormerLeaderTimeout for replies of a node that has lost
// leadership, whether or not there is a new leader. Commands that may have been charged must then fail with
// errUncertain, and later commands must be sent to the new leader.
func TestDeposedLeader(t *testing.T) { synctest.Test(t, testDeposedLeader) }

func testDeposedLeader(t *testing.T) {
	for _, next := range []string{"c", ""} {
		l, p, streams := newPipedPlay(t, "a", "b", "c")
		p.send(throttle("x"))
		s := <-streams
		s.expect(t, throttle("x"))
		start := time.Now()
		l.setViewLeader("b", next)
		p.expect(failure(errUncertain))
		if took := time.Since(start); took != forward.FormerLeaderTimeout {
			t.Errorf("new leader %q: the reply took %v, want forward.FormerLeaderTimeout", next, took)
		}
		p.send(request("TTL", "x"))
		l.setViewLeader("b", "c")
		s = <-streams
		s.expect(t, request("TTL", "x"))
		s.send(t, ":9\r\n")
		p.expect(":9\r\n")
	}
}

// TestTransferFromAfar checks that a forwarded TRANSFER still waits for the reply of the old leader after the new
// leader is known. Other commands wait for the old leader for at most forward.FormerLeaderTimeout.
func TestTransferFromAfar(t *testing.T) { synctest.Test(t, testTransferFromAfar) }

func testTransferFromAfar(t *testing.T) {
	l, p, streams := newPipedPlay(t, "a", "b", "c")
	q := l.nodes["b"].dial()
	p.send(request("CL.CLUSTER", "TRANSFER", "c"))
	s := <-streams
	s.expect(t, request("CL.CLUSTER", "TRANSFER", "c"))
	q.send(throttle("x"))
	other := <-streams
	other.expect(t, throttle("x"))
	l.setViewLeader("b", "c")
	q.expect(failure(errUncertain)) // the stream that was used for the charge was closed
	s.send(t, "+OK\r\n")
	p.expect("+OK\r\n")
	if _, err := s.in.ReadByte(); err != io.EOF {
		t.Errorf("a read from the stream of the former leader returns %v, want EOF, because the stream must be closed", err)
	}
}

// newPlay makes node "a" the leader and returns a client of node "b". The test acts as node "a": it receives the
// streams that other nodes open to node "a", in order.
func newPlay(t *testing.T, ids ...string) (l *lab, p *peer, streams <-chan *script) {
	t.Helper()
	return play(newLab(t, ids...))
}

// newPipedPlay is like newPlay, but in fake time.
func newPipedPlay(t *testing.T, ids ...string) (l *lab, p *peer, streams <-chan *script) {
	t.Helper()
	return play(newPipedLab(t, ids...))
}

func play(l *lab) (_ *lab, p *peer, streams <-chan *script) {
	l.t.Helper()
	l.lead("a")
	return l, l.nodes["b"].dial(), l.scripts()
}

// script is the leader's end of a stream, controlled by the test.
type script struct {
	net.Conn
	in *bufio.Reader
}

// scripts redirects all streams between nodes to the test, which receives them in order.
func (l *lab) scripts() <-chan *script {
	opened := make(chan *script, 64)
	l.dialWith(func(context.Context, string) (net.Conn, error) {
		near, far := net.Pipe()
		l.t.Cleanup(func() { _, _ = near.Close(), far.Close() })
		s := &script{far, bufio.NewReader(far)}
		go func() {
			if s.greeted() {
				opened <- s
			}
		}()
		return near, nil
	})
	return opened
}

const greeting = "*3\r\n$6\r\nCLIENT\r\n$4\r\nCAPA\r\n$7\r\ncharged\r\n"

// greeted reads the greeting of a stream, answers the greeting, and reports whether both succeeded.
func (s *script) greeted() bool {
	got := make([]byte, len(greeting))
	if _, err := io.ReadFull(s.in, got); err != nil || string(got) != greeting {
		return false
	}
	_, err := io.WriteString(s, "+OK\r\n")
	return err == nil
}

// expect reads the forwarded commands, and fails the test if they differ from want.
func (s *script) expect(t *testing.T, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(s.in, got); string(got) != want {
		t.Fatalf("the leader got %q (%v), want %q", got[:n], err, want)
	}
}

func (s *script) send(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(s, text); err != nil {
		t.Fatalf("send %q: %v", text, err)
	}
}
