package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/internal/goroutines"
)

// TestStreams checks that each stream is accepted with the purpose and the peer that it was dialed with.
func TestStreams(t *testing.T) {
	s := newSite(t)
	n1 := s.link("n1")
	for _, node := range []string{"n2", "n3"} {
		l := s.link(node)
		for _, p := range []Purpose{Control, Raft, Client} {
			out, in := dialed(t, l, n1, p)
			if PeerOf(in) != node || PeerOf(out) != "n1" {
				t.Errorf("%v: the accepted stream has the peer %q; the stream dialed by %s has the peer %q; want the dialing node, and n1", p, PeerOf(in), node, PeerOf(out))
			}
			flows(t, out, in)
			if err := out.Close(); err != nil {
				t.Errorf("Close of the dialed stream returns %v; want nil", err)
			}
			if _, err := in.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("after Close, Read at the other end returns %v; want io.EOF", err)
			}
		}
	}
	if n1.Streams(Purpose(0)) != nil {
		t.Error("Streams of an unknown purpose is not nil")
	}
	if PeerOf(connect(t, n1)) != "" {
		t.Error("PeerOf of a TCP connection is not empty")
	}
}

// TestStreamsClosed checks that streams of a closed purpose are refused, and that streams
// of other purposes are not.
func TestStreamsClosed(t *testing.T) {
	s := newSite(t)
	n1, n2 := s.link("n1"), s.link("n2")
	out, in := dialed(t, n2, n1, Raft)
	unclaimed, err := dial(t, n2, "n1", n1, Raft)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := n1.Raft().Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := n1.Streams(Raft).Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept returns %v; want %v", err, net.ErrClosed)
	}
	_ = unclaimed.SetReadDeadline(time.Now().Add(patience))
	closed(t, unclaimed)
	_, err = dial(t, n2, "n1", n1, Raft)
	refused(t, err, ErrRefused, ErrNotServed)
	flows(t, out, in)
	out, in = dialed(t, n2, n1, Client)
	flows(t, out, in)
}

// TestAllowed checks that the streams of a node that is no longer allowed are closed, in
// both directions and for each purpose except Control. Streams of other nodes stay open.
func TestAllowed(t *testing.T) {
	s := newSite(t)
	var log lines
	n1 := s.link("n1", func(c *Config) { c.Log = log.logger() })
	n2, n3 := s.link("n2"), s.link("n3")
	control2, control1 := dialed(t, n2, n1, Control)
	out3, in3 := dialed(t, n3, n1, Raft)
	type pair struct{ near, far net.Conn }
	var open []pair
	for _, p := range []Purpose{Raft, Client} {
		out, in := dialed(t, n2, n1, p)
		back1, back2 := dialed(t, n1, n2, p)
		open = append(open, pair{in, out}, pair{back1, back2})
	}

	var removed atomic.Value
	removed.Store("")
	n1.SetAllowed(func(node string, _ Purpose) bool { return node != removed.Load() })
	for _, c := range open {
		flows(t, c.near, c.far)
	}

	removed.Store("n2")
	n1.Recheck()
	for _, c := range open {
		if _, err := c.near.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Read of a stream of a removed node returns %v; want net.ErrClosed", err)
		}
		closed(t, c.far)
	}
	for _, p := range []Purpose{Raft, Client} {
		_, err := dial(t, n2, "n1", n1, p)
		refused(t, err, ErrRefused, ErrNotAllowed)
		if _, err = dial(t, n1, "n2", n2, p); !errors.Is(err, ErrNotAllowed) {
			t.Errorf("Dial of a removed node returns %v; want ErrNotAllowed", err)
		}
	}
	flows(t, control2, control1)
	flows(t, out3, in3)
	out, in := dialed(t, n2, n1, Control)
	flows(t, out, in)
	if n := len(log.with("closed a stream")); n != 1 {
		t.Errorf("the log has %d lines about closed streams; want 1", n)
	}

	n1.SetAllowed(nil)
	out2, in2 := dialed(t, n2, n1, Raft)
	flows(t, out2, in2)
	n1.SetAllowed(func(string, Purpose) bool { return false }) // calls Recheck
	closed(t, out2)
	closed(t, out3)
}

// TestAllowedRace checks that a stream does not stay open if its node is removed while the
// stream is being opened.
func TestAllowedRace(t *testing.T) {
	n1, n2 := open(t, plain("n1")), open(t, plain("n2"))
	var removed atomic.Bool
	n1.SetAllowed(func(string, Purpose) bool {
		before := !removed.Swap(true)
		if before { // the node is removed before this call returns
			n1.Recheck()
		}
		return before
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if out, err := n2.Dial(ctx, "n1", n1.ln.Addr().String(), Raft); err == nil {
		_ = out.SetReadDeadline(time.Now().Add(patience))
		closed(t, out)
	} else if ctx.Err() != nil {
		t.Error(err)
	}
}

// TestExpected checks that Raft reaches only the node expected at an address.
func TestExpected(t *testing.T) {
	s := newSite(t)
	n1, n2 := s.link("n1"), s.link("n2")
	to := raft.ServerAddress(n2.ln.Addr().String())
	expect := func(node string, want error) {
		t.Helper()
		c, err := n1.Raft().Dial(to, patience)
		if !errors.Is(err, want) {
			t.Fatalf("if node %q is expected, Dial returns %v; want %v", node, err, want)
		}
		if err == nil {
			if PeerOf(c) != "n2" {
				t.Errorf("if node %q is expected, the peer is %q; want n2", node, PeerOf(c))
			}
			_ = c.Close()
			_ = accepted(t, n2, Raft).Close()
		}
	}
	expect("", nil)
	for node, want := range map[string]error{"n2": nil, "": nil, "n3": ErrOtherNode} {
		n1.SetExpected(func(addr string) string {
			if addr != string(to) {
				t.Errorf("the function of SetExpected is called with %s; want %s", addr, to)
			}
			return node
		})
		expect(node, want)
	}
	n1.SetExpected(nil)
	expect("", nil)
}

// TestRaftDialTimeout checks that Dial fails after the timeout that Raft passes to it.
func TestRaftDialTimeout(t *testing.T) {
	l := open(t, plain("n1"), func(c *Config) { c.HandshakeTimeout = time.Hour })
	if _, err := l.Raft().Dial(raft.ServerAddress(impostor(t, nil)), 20*time.Millisecond); err == nil {
		t.Error("Dial of a silent peer succeeds; want an error")
	}
	n2 := open(t, plain("n2"))
	if _, err := l.Raft().Dial(raft.ServerAddress(n2.ln.Addr().String()), 0); err != nil {
		t.Errorf("Dial with a timeout of 0 returns %v; want nil", err)
	}
}

// TestCloseEndsAll checks that a closed link leaves no stream, no connection and no
// goroutine.
func TestCloseEndsAll(t *testing.T) {
	const ofLinks = "github.com/throttledhq/throttled/cluster/transport.(*"
	before := goroutines.Of(ofLinks)
	s := newSite(t)
	n1, n2 := s.link("n1", func(c *Config) { c.HandshakeTimeout = time.Hour }), s.link("n2")
	if !eventually(func() bool { return len(goroutines.Of(ofLinks)) > len(before) }) {
		t.Error("goroutines.Of does not find the goroutines of the links")
	}
	var ends []net.Conn
	for _, p := range []Purpose{Raft, Client, Control} {
		out, _ := dialed(t, n2, n1, p)
		back, _ := dialed(t, n1, n2, p)
		ends = append(ends, out)
		if _, err := io.WriteString(back, "x"); err != nil {
			t.Fatal(err)
		}
		unclaimed, err := dial(t, n2, "n1", n1, p)
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, unclaimed)
	}
	for _, begin := range slow(s) {
		c := connect(t, n1)
		begin(t, c)
		ends = append(ends, c)
	}
	waiting := make(chan error, 1)
	go func() {
		_, err := n1.Streams(Client).Accept()
		for err == nil { // the streams that the test has not accepted
			_, err = n1.Streams(Client).Accept()
		}
		waiting <- err
	}()
	closeLink(t, n1)
	closeLink(t, n1) // second call
	if err := <-waiting; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept returns %v; want %v", err, net.ErrClosed)
	}
	for _, c := range ends {
		_ = c.SetReadDeadline(time.Now().Add(patience))
		closed(t, c)
	}
	closeLink(t, n2)
	goroutines.AwaitEnd(t, ofLinks, before)
	if _, err := net.DialTimeout("tcp", n1.ln.Addr().String(), patience); err == nil {
		t.Error("the closed link accepts a connection")
	}
}

// TestKeepAlive checks that TCP keep-alive is configured at both ends of a stream.
func TestKeepAlive(t *testing.T) {
	n1, n2 := open(t, plain("n1")), open(t, plain("n2"))
	out, in := dialed(t, n1, n2, Raft)
	for _, c := range []net.Conn{out, in} {
		raw, err := c.(*conn).raw.(syscall.Conn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		if err := raw.Control(func(fd uintptr) { probed(t, int(fd)) }); err != nil {
			t.Error(err)
		}
	}
}

// TestRefusedDuringRecheck dials a link that does not allow the dialing node, during concurrent calls
// of Recheck. The dialing node must receive the reason each time.
func TestRefusedDuringRecheck(t *testing.T) {
	s := newSite(t)
	n1, n2 := s.link("n1"), s.link("n2")
	n1.SetAllowed(func(string, Purpose) bool { return false })
	ctx, cancel := context.WithCancel(t.Context())
	var checks sync.WaitGroup
	checks.Go(func() {
		for ctx.Err() == nil {
			n1.Recheck()
		}
	})
	for range 200 {
		_, err := dial(t, n2, "n1", n1, Raft)
		refused(t, err, ErrRefused, ErrNotAllowed)
	}
	cancel()
	checks.Wait()
}
