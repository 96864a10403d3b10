package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/topology"
)

// TestDialRefused checks which peers are refused, by which side, and for which reason.
func TestDialRefused(t *testing.T) {
	s, other := newSite(t), newSite(t)
	secure := func(s *site, node string) func(t *testing.T) *Link {
		return func(t *testing.T) *Link { t.Helper(); return open(t, s.config(node)) }
	}
	insecure := func(cluster, node string) func(t *testing.T) *Link {
		return func(t *testing.T) *Link {
			t.Helper()
			return open(t, plain(node), func(c *Config) { c.Cluster = cluster })
		}
	}
	second := func(t *testing.T) *Link { // node n3 of another cluster, with the same CA
		t.Helper()
		cfg := s.config("n3")
		cfg.Cluster = "c2"
		if err := s.issue("n3", "c2", time.Now()).Save(s.dir, "n3"); err != nil {
			t.Fatal(err)
		}
		return open(t, cfg)
	}
	for _, test := range []struct {
		name     string
		from, to func(t *testing.T) *Link
		node     string
		purpose  Purpose
		want     error
		byPeer   bool
	}{
		{"other cluster", second, secure(s, "n1"), "n1", Raft, ErrOtherCluster, false},
		{"other cluster, any node", second, secure(s, "n1"), "", Control, ErrOtherCluster, false},
		{"other CA", secure(other, "n2"), secure(s, "n1"), "n1", Raft, ErrCertificate, false},
		{"other node", secure(s, "n3"), secure(s, "n1"), "n2", Raft, ErrOtherNode, false},
		{"own name", secure(s, "n1"), secure(s, "n1"), "n1", Raft, ErrNotAllowed, true},
		{"no purpose", secure(s, "n3"), secure(s, "n1"), "n1", Purpose('x'), ErrNotServed, false},
		{"invalid name", secure(s, "n3"), secure(s, "n1"), "n.1", Raft, topology.ErrName, false},
		{"insecure, other cluster", insecure("c2", "n3"), insecure("c1", "n1"), "n1", Client, ErrOtherCluster, true},
		{"insecure, other node", insecure("c1", "n3"), insecure("c1", "n1"), "n2", Client, ErrOtherNode, true},
		{"insecure to TLS", insecure("c1", "n3"), secure(s, "n1"), "n1", Client, io.EOF, false},
		{"TLS to insecure", secure(s, "n3"), insecure("c1", "n1"), "n1", Client, nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			to := test.to(t)
			c, err := dial(t, test.from(t), test.node, to, test.purpose)
			if err == nil {
				t.Fatalf("Dial opens a stream to %q; want an error", PeerOf(c))
			}
			if test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("Dial returns %v; want %v", err, test.want)
			}
			if errors.Is(err, ErrRefused) != test.byPeer {
				t.Errorf("Dial returns %v; this wraps ErrRefused: %v; want %v", err, !test.byPeer, test.byPeer)
			}
			if text := err.Error(); !strings.HasPrefix(text, "dial ") || len(text) > 400 {
				t.Errorf("the error is %q; want at most 400 bytes, beginning with \"dial \"", text)
			}
		})
	}
}

// TestDialAnyNode dials nodes by address only. PeerOf must return their names.
func TestDialAnyNode(t *testing.T) {
	s := newSite(t)
	for name, config := range map[string]func(node string) Config{"insecure": plain, "TLS": s.config} {
		t.Run(name, func(t *testing.T) {
			n1, n2 := open(t, config("n1")), open(t, config("n2"))
			for _, l := range []*Link{n1, n2} { // a node may also dial itself, for Control
				out, err := dial(t, n1, "", l, Control)
				if err != nil {
					t.Fatal(err)
				}
				if in := accepted(t, l, Control); PeerOf(out) != l.cfg.Node || PeerOf(in) != "n1" {
					t.Errorf("n1 dials %s: PeerOf of the dialed stream is %q, and PeerOf of the accepted stream is %q; want the dialed node, and n1", l.cfg.Node, PeerOf(out), PeerOf(in))
				}
			}
		})
	}
}

// TestDialElsewhere checks that an insecure link dials loopback addresses only.
func TestDialElsewhere(t *testing.T) {
	l := open(t, plain("n1"))
	for _, addr := range []string{"192.0.2.1:7000", "0.0.0.0:7000", "[2001:db8::1]:7000"} {
		if _, err := l.Dial(t.Context(), "n2", addr, Raft); !errors.Is(err, ErrInsecure) {
			t.Errorf("Dial of %s returns %v; want %v", addr, err, ErrInsecure)
		}
	}
}

// impostor listens on the returned address. On each connection it reads a hello, sends the bytes of the
// argument answer, and closes the connection. If there are no bytes to send, it leaves the connection open.
func impostor(t *testing.T, answer []byte) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = readHello(c) // its content does not matter
			_, _ = c.Write(answer)
			if len(answer) > 0 {
				_ = c.Close()
			} else {
				defer func() { _ = c.Close() }()
			}
		}
	}()
	t.Cleanup(func() {
		_ = ln.Close()
		<-done
	})
	return ln.Addr().String()
}

// TestDialImpostor checks the errors for answers that the dialed node n2 would not send.
func TestDialImpostor(t *testing.T) {
	l := open(t, plain("n1"))
	for _, test := range []struct {
		name, answer string
		want         error
	}{
		{"garbage", strings.Repeat("x", 1000), ErrGreeting},
		{"truncated answer", "THRA\x01", io.ErrUnexpectedEOF},
		{"other node", string(answer{codeOK, "c1", "n3", neverRecovered}.encode()), ErrOtherNode},
		{"other cluster", string(answer{codeOK, "c2", "n2", neverRecovered}.encode()), ErrOtherCluster},
		{"later version", "THRA\x03\x01\x07", ErrVersion},
		{"unknown reason", string(answer{code(99), "c1", "n2", neverRecovered}.encode()), ErrRefused},
		{"a hello instead of an answer", string(hello{Raft, "c1", "n1", "n2", neverRecovered}.encode()), ErrGreeting},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := l.Dial(t.Context(), "n2", impostor(t, []byte(test.answer)), Raft)
			if !errors.Is(err, test.want) || c != nil {
				t.Errorf("Dial returns the stream %v and the error %v; want no stream and %v", c, err, test.want)
			}
		})
	}
}

// TestDialLiar checks that a node dialed by address only cannot use a name that differs
// from the name in its certificate.
func TestDialLiar(t *testing.T) {
	s := newSite(t)
	l := s.link("n1")
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{loaded(t, s.issue("n3", "c1", time.Now()))},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	for node, want := range map[string]error{"n2": ErrCertificate, "n3": nil} {
		go func() {
			if c, err := ln.Accept(); err == nil {
				_, _ = readHello(c) // its content does not matter
				_, _ = c.Write(answer{codeOK, "c1", node, neverRecovered}.encode())
				_ = c.Close()
			}
		}()
		if _, err := l.Dial(t.Context(), "", ln.Addr().String(), Control); !errors.Is(err, want) {
			t.Errorf("node n3 sends the name %s: Dial returns %v; want %v", node, err, want)
		}
	}
}

// TestDialEnds checks that dialing a peer that does not answer fails when the context is done,
// after the timeout, and when the link is closed.
func TestDialEnds(t *testing.T) {
	silent := impostor(t, nil)
	s := newSite(t)
	gone := errors.New("gone")
	for _, test := range []struct {
		name    string
		timeout time.Duration
		end     func(l *Link, cancel context.CancelCauseFunc)
		want    error
	}{
		{"context", time.Hour, func(_ *Link, cancel context.CancelCauseFunc) { cancel(gone) }, gone},
		{"timeout", 50 * time.Millisecond, func(*Link, context.CancelCauseFunc) {}, context.DeadlineExceeded},
		{"link", time.Hour, func(l *Link, _ context.CancelCauseFunc) { _ = l.Close() }, net.ErrClosed},
	} {
		for name, config := range map[string]func(node string) Config{"insecure": plain, "TLS": s.config} {
			t.Run(test.name+"/"+name, func(t *testing.T) {
				l := open(t, config("n1"), func(c *Config) { c.HandshakeTimeout = test.timeout })
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				failed := make(chan error, 1)
				go func() {
					_, err := l.Dial(ctx, "n2", silent, Raft)
					failed <- err
				}()
				test.end(l, cancel)
				if err := <-failed; !errors.Is(err, test.want) {
					t.Errorf("Dial returns %v; want %v", err, test.want)
				}
			})
		}
	}
}

// TestDialClosed checks that a closed link does not dial.
func TestDialClosed(t *testing.T) {
	n1, n2 := open(t, plain("n1")), open(t, plain("n2"))
	closeLink(t, n1)
	_, err := dial(t, n1, "n2", n2, Raft)
	refused(t, err, net.ErrClosed)
	if _, err := n1.Raft().Dial("127.0.0.1:1", time.Second); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Dial of the stream layer returns %v; want %v", err, net.ErrClosed)
	}
}

// TestDialOutlivesContext checks that canceling the context of Dial does not close the stream.
func TestDialOutlivesContext(t *testing.T) {
	s := newSite(t)
	n1, n2 := s.link("n1"), s.link("n2")
	ctx, cancel := context.WithCancel(t.Context())
	out, err := n1.Dial(ctx, "n2", n2.ln.Addr().String(), Client)
	cancel()
	if err != nil {
		t.Fatal(err)
	}
	flows(t, out, accepted(t, n2, Client))
	if err := out.Close(); err != nil {
		t.Error(err)
	}
}
