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

// TestBrokenStreams breaks streams at every place. What has been answered stays so, what may have
// been charged is uncertain, and what changes nothing is asked for again.
func TestBrokenStreams(t *testing.T) {
	t.Parallel()
	_, p, streams := newPlay(t, "a", "b")
	one := five(0, 3, 2, -1, 60)
	all := throttle("x") + throttle("y") + request("TTL", "x")

	p.send(all + ping)
	s := <-streams
	s.expect(t, all)
	s.send(t, one+"*5\r\n:0\r\n:1") // the second is cut off
	_ = s.Close()
	s = <-streams
	s.expect(t, request("TTL", "x"))
	s.send(t, ":7\r\n")
	p.expect(one + failure(errUncertain) + ":7\r\n+PONG\r\n")

	p.send(all)
	s.expect(t, all)
	s.send(t, "-ERR some\r\n~~~\r\n") // a stream of no sense
	s = <-streams
	s.expect(t, request("TTL", "x"))
	s.send(t, ":8\r\n")
	p.expect("-ERR some\r\n" + failure(errUncertain) + ":8\r\n")

	p.send(all)
	s.expect(t, all)
	s.send(t, one+partingLine) // the node ends, and has not done the rest
	s = <-streams
	s.expect(t, throttle("y")+request("TTL", "x"))
	s.send(t, one+":9\r\n")
	p.expect(one + one + ":9\r\n")

	p.send(all)
	if _, err := io.ReadFull(s.Conn, make([]byte, len(throttle("x"))+5)); err != nil { // it ends before it has read all
		t.Fatal(err)
	}
	s.send(t, one+partingLine)
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

	_ = s.Close() // while nobody uses it
	p.send(request("DEL", "x"))
	s = <-streams
	s.expect(t, request("DEL", "x"))
	s.send(t, ":1\r\n")
	p.expect(":1\r\n")
	if n := p.count("stats", "forward_errors"); n != 2 {
		t.Errorf("forward_errors is %d", n)
	}
}

// TestSilentLeader sees that nobody hangs where the leader does.
func TestSilentLeader(t *testing.T) { synctest.Test(t, testSilentLeader) }

func testSilentLeader(t *testing.T) {
	_, p, streams := newPipedPlay(t, "a", "b")
	start := time.Now()
	p.send(throttle("x") + ping + throttle("y"))
	s := <-streams
	s.expect(t, throttle("x"))
	p.expect(failure(errUncertain) + "+PONG\r\n" + failure(errNotLeading))
	if took := time.Since(start); took != forward.ReplyTimeout {
		t.Errorf("it took %v", took)
	}
}

// TestDeposedLeader sees that nobody waits for a node that leads no more, and has gone silent: as
// soon as another leads or none, what may have been charged is uncertain, and what cannot have been
// is asked of the new one.
func TestDeposedLeader(t *testing.T) { synctest.Test(t, testDeposedLeader) }

func testDeposedLeader(t *testing.T) {
	for _, next := range []string{"c", ""} {
		l, p, streams := newPipedPlay(t, "a", "b", "c")
		p.send(throttle("x"))
		s := <-streams
		s.expect(t, throttle("x"))
		start := time.Now()
		l.show("b", next)
		p.expect(failure(errUncertain))
		if took := time.Since(start); took != forward.PartingTimeout {
			t.Errorf("to %q: it took %v", next, took)
		}
		p.send(request("TTL", "x"))
		l.show("b", "c")
		s = <-streams
		s.expect(t, request("TTL", "x"))
		s.send(t, ":9\r\n")
		p.expect(":9\r\n")
	}
}

// TestTransferFromAfar waits for the answer of the old leader to a command that has made another lead.
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
	l.show("b", "c")
	q.expect(failure(errUncertain)) // so the streams to the old one have been closed
	s.send(t, "+OK\r\n")
	p.expect("+OK\r\n")
	if _, err := s.in.ReadByte(); err != io.EOF {
		t.Errorf("a stream to a former leader is kept: %v", err)
	}
}

// newPlay has node a lead, whose part the test plays: it gets in turn the streams that lead to a, and returns a client
// of node b.
func newPlay(t *testing.T, ids ...string) (l *lab, p *peer, streams <-chan *script) {
	t.Helper()
	return play(newLab(t, ids...))
}

// newPipedPlay is newPlay in fake time.
func newPipedPlay(t *testing.T, ids ...string) (l *lab, p *peer, streams <-chan *script) {
	t.Helper()
	return play(newPipedLab(t, ids...))
}

func play(l *lab) (_ *lab, p *peer, streams <-chan *script) {
	l.t.Helper()
	l.lead("a")
	return l, l.nodes["b"].dial(), l.scripts()
}

// script is the other end of a stream, which the test plays.
type script struct {
	net.Conn
	in *bufio.Reader
}

// scripts makes all streams lead to the test, which gets them in turn.
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

// greeted answers the greeting of a stream, and reports whether it could.
func (s *script) greeted() bool {
	got := make([]byte, len(greeting))
	if _, err := io.ReadFull(s.in, got); err != nil || string(got) != greeting {
		return false
	}
	_, err := io.WriteString(s, "+OK\r\n")
	return err == nil
}

// expect reads what has been forwarded.
func (s *script) expect(t *testing.T, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(s.in, got); string(got) != want {
		t.Fatalf("the leader gets %q (%v), want %q", got[:n], err, want)
	}
}

func (s *script) send(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(s, text); err != nil {
		t.Fatalf("send %q: %v", text, err)
	}
}
