package transport

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"runtime"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// slow returns ways to start a connection without completing the handshake.
func slow(s *site) map[string]func(t *testing.T, c net.Conn) {
	cert := withCert(loaded(s.t, s.issue("n2", "c1", time.Now())))
	greet := func(t *testing.T, c net.Conn, first []byte) {
		t.Helper()
		secure := tls.Client(c, cert)
		if err := secure.HandshakeContext(t.Context()); err != nil {
			t.Fatalf("TLS handshake: %v", err)
		}
		if _, err := secure.Write(first); err != nil {
			t.Fatal(err)
		}
	}
	return map[string]func(t *testing.T, c net.Conn){
		"silent": func(*testing.T, net.Conn) {},
		"half a record": func(t *testing.T, c net.Conn) {
			t.Helper()
			if _, err := c.Write([]byte("\x16\x03\x01\x02\x00\x01")); err != nil {
				t.Fatal(err)
			}
		},
		"no greeting":     func(t *testing.T, c net.Conn) { t.Helper(); greet(t, c, nil) },
		"half a greeting": func(t *testing.T, c net.Conn) { t.Helper(); greet(t, c, []byte("THRH\x01\x20R")) },
	}
}

// TestSlowHandshakes checks that peers that never finish their handshake do not block others.
func TestSlowHandshakes(t *testing.T) {
	s := newSite(t)
	for name, begin := range slow(s) {
		t.Run(name, func(t *testing.T) {
			n1 := s.link("n1", func(c *Config) { c.HandshakeTimeout = time.Hour })
			n3 := s.link("n3")
			for range 100 {
				begin(t, connect(t, n1))
			}
			for range 3 {
				out, in := dialed(t, n3, n1, Raft)
				flows(t, out, in)
			}
			if !eventually(func() bool { return pendingOf(n1) == 100 }) {
				t.Errorf("%d connections are pending; want the 100 slow ones", pendingOf(n1))
			}
		})
	}
}

// TestHandshakeTimeout checks that slow connections are closed after the timeout.
func TestHandshakeTimeout(t *testing.T) {
	s := newSite(t)
	today := time.Now() // the certificates are valid at this time; time in package synctest starts in the year 2000
	for name, begin := range slow(s) {
		cfg := s.config("n1")
		cfg.Now, cfg.HandshakeTimeout = func() time.Time { return today }, 0
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ln := newPipes()
				piped(t, cfg, ln)
				begun := time.Now()
				c := ln.connect()
				begin(t, c)
				closed(t, c)
				if took := time.Since(begun); took != DefaultHandshakeTimeout {
					t.Errorf("the connection is closed after %v; want %v", took, DefaultHandshakeTimeout)
				}
			})
		})
	}
}

// TestHandshakeDrip checks that sending one byte at a time does not extend the timeout.
func TestHandshakeDrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := newPipes()
		cfg := plain("n1")
		cfg.HandshakeTimeout = 0
		piped(t, cfg, ln)
		begun := time.Now()
		c := ln.connect()
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for _, b := range (hello{Raft, "c1", "n2", "n1", neverRecovered}).encode() {
			if _, err := c.Write([]byte{b}); err != nil {
				break
			}
			<-ticker.C
		}
		if took := time.Since(begun); took < 5*time.Second || took > 6*time.Second {
			t.Errorf("the connection is closed after %v; want 5 s to 6 s", took)
		}
	})
}

// TestNoDeadlineAfterwards checks that an open stream has no deadline.
func TestNoDeadlineAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := newPipes()
		l := piped(t, plain("n1"), ln)
		c := ln.connect()
		if _, err := c.Write(hello{Client, "c1", "n2", "n1", neverRecovered}.encode()); err != nil {
			t.Fatal(err)
		}
		if a, err := readAnswer(c); err != nil || a.code != codeOK {
			t.Fatalf("the answer is %+v, error %v; want codeOK", a, err)
		}
		in := accepted(t, l, Client)
		timer := time.NewTimer(24 * time.Hour)
		<-timer.C
		flows(t, c, in)
	})
}

// TestUnclaimedStreams checks that streams are queued until Accept returns them, and that closing the
// link closes queued streams.
func TestUnclaimedStreams(t *testing.T) {
	n1 := open(t, plain("n1"))
	n2 := open(t, plain("n2"))
	var out []net.Conn
	for range 5 {
		c, err := dial(t, n2, "n1", n1, Control)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, c)
	}
	for range 2 {
		if _, err := io.WriteString(accepted(t, n1, Control), "x"); err != nil {
			t.Fatal(err)
		}
	}
	closeLink(t, n1)
	served := 0
	for _, c := range out {
		served += len(closed(t, c))
	}
	if served != 2 {
		t.Errorf("the dialing node received %d bytes; want 2, one from each accepted stream", served)
	}
}

// TestCrowd checks that, if there are too many pending connections, the oldest connection from the
// address with the most pending connections is dropped.
func TestCrowd(t *testing.T) {
	s := newSite(t)
	var log lines
	today := time.Now() // constant, so that all log lines are within one minute
	l := s.link("n1", func(c *Config) {
		c.MaxHandshakes, c.HandshakeTimeout, c.Log, c.Now = 4, time.Hour, log.logger(), func() time.Time { return today }
	})
	early := connect(t, l) // the oldest, but the only one from its address
	var crowd []net.Conn
	for range 3 {
		crowd = append(crowd, connectFrom(t, l, "127.0.0.2"))
	}
	for i := range 5 {
		crowd = append(crowd, connectFrom(t, l, "127.0.0.2"))
		closed(t, crowd[i]) // the oldest from its address
	}
	n2 := s.link("n2")
	out, in := dialed(t, n2, l, Raft) // replaces the oldest connection from 127.0.0.2
	flows(t, out, in)
	closed(t, crowd[5])

	// The oldest connection, from 127.0.0.1, is still open.
	secure := tls.Client(early, withCert(loaded(t, s.issue("n3", "c1", time.Now()))))
	if _, err := secure.Write(hello{Raft, "c1", "n3", "n1", neverRecovered}.encode()); err != nil {
		t.Fatal(err)
	}
	if a, err := readAnswer(secure); err != nil || a.code != codeOK {
		t.Errorf("the answer is %+v, error %v; want codeOK", a, err)
	}
	if n := len(log.with("dropped the oldest")); n != 1 {
		t.Errorf("the log has %d lines about dropped connections; want 1", n)
	}
	if n := len(log.with("refused a connection")); n != 0 {
		t.Errorf("the log has %d lines about refused connections; want 0", n)
	}
}

// TestCaps checks the limits on the number of streams, in total and for each pair of node and purpose. Closed
// streams must not count.
func TestCaps(t *testing.T) {
	s := newSite(t)
	l := s.link("n1", func(c *Config) { c.MaxConns, c.MaxPerPeer = 4, 2 })
	n2, n3 := s.link("n2"), s.link("n3")
	try := func(from *Link, p Purpose, want error) net.Conn {
		t.Helper()
		_, err := dial(t, from, "n1", l, p)
		if want != nil {
			refused(t, err, ErrRefused, want)
			return nil
		}
		if err != nil {
			t.Fatalf("Dial by node %s returns %v; want nil", from.cfg.Node, err)
		}
		return accepted(t, l, p)
	}
	first := try(n2, Raft, nil)
	try(n2, Raft, nil)
	try(n2, Raft, ErrBusy) // limit for one node
	try(n2, Control, nil)  // another purpose
	third := try(n3, Raft, nil)
	try(n3, Raft, ErrBusy) // limit in total
	for range 2 {          // the second Close has no effect
		_ = first.Close()
	}
	try(n3, Raft, nil)
	try(n2, Raft, ErrBusy)
	_ = third.Close()
	try(n2, Raft, nil)
	try(n3, Raft, ErrBusy)
}

// TestIdleConnectionsAreCheap checks the memory used by idle connections. A connection directly to Raft
// would use 270 KB.
func TestIdleConnectionsAreCheap(t *testing.T) {
	const idle, most = 200, 32 << 10
	s := newSite(t)
	for name, begin := range slow(s) {
		t.Run(name, func(t *testing.T) {
			l := s.link("n1", func(c *Config) { c.MaxHandshakes, c.HandshakeTimeout = 2*idle, time.Hour })
			out, _ := dialed(t, s.link("n2"), l, Raft) // makes the allocations that are not repeated for each connection
			if err := out.Close(); err != nil {
				t.Fatal(err)
			}
			before := memory()
			for range idle {
				begin(t, connect(t, l))
			}
			if !eventually(func() bool { return pendingOf(l) == idle }) {
				t.Fatalf("%d connections are pending; want %d", pendingOf(l), idle)
			}
			// The measured memory includes the ends of the connections in the test, so the result is an upper bound.
			if each := (memory() - before) / idle; each > most {
				t.Errorf("an idle connection uses %d bytes; want at most %d", each, most)
			}
		})
	}
}

// memory returns the number of bytes that the heap and the stacks use.
func memory() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

func pendingOf(l *Link) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.pending)
}

// eventually reports whether a condition becomes true before the timeout patience expires.
func eventually(holds func() bool) bool {
	for end := time.Now().Add(patience); time.Now().Before(end); <-time.After(time.Millisecond) {
		if holds() {
			return true
		}
	}
	return false
}

// TestAcceptBackoff checks that the pauses between failed calls of Accept grow, and that a
// successful call resets them.
func TestAcceptBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lines
		cfg := plain("n1")
		cfg.Log = log.logger()
		ln := newPipes()
		for range 10 {
			ln.fails = append(ln.fails, &net.OpError{Op: "accept", Err: syscall.EMFILE})
		}
		piped(t, cfg, ln)
		_ = ln.connect().Close()
		synctest.Wait()
		ln.fails = []error{syscall.ENFILE}
		_ = ln.connect().Close()
		_ = ln.connect().Close()
		synctest.Wait()
		for i, want := range []time.Duration{5, 10, 20, 40, 80, 160, 320, 640, 1000, 1000, 0, 0, 5, 0} {
			if got := ln.calls[i+1].Sub(ln.calls[i]); got != want*time.Millisecond {
				t.Errorf("the pause after call %d of Accept is %v; want %d ms", i, got, want)
			}
		}
		if n := len(log.with("cannot accept")); n != 1 {
			t.Errorf("the log has %d lines about failed calls of Accept; want 1", n)
		}
	})
}

// TestCloseDuringBackoff checks that Close does not wait for the backoff.
func TestCloseDuringBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := newPipes()
		for range 100 {
			ln.fails = append(ln.fails, fmt.Errorf("accept: %w", syscall.EMFILE))
		}
		l := piped(t, plain("n1"), ln)
		timer := time.NewTimer(10*time.Second + 500*time.Microsecond)
		<-timer.C
		begun := time.Now()
		closeLink(t, l)
		if took := time.Since(begun); took > 0 {
			t.Errorf("Close takes %v; want 0", took)
		}
	})
}
