package server

import (
	"crypto/tls"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttledhq/throttled/options"
)

// TestOtherProtocols sends requests of other protocols to the server. Each connection must be closed or receive errors,
// and no request may create a key.
func TestOtherProtocols(t *testing.T) {
	t.Parallel()
	s := start(t, hasty)
	var sent sync.WaitGroup
	f := func(wantEnd, input string) {
		p := s.dial()
		sent.Go(func() {
			_, _ = io.WriteString(p.Conn, input)
			rest, err := io.ReadAll(p.in)
			if isTimeout(err) || !strings.HasSuffix(string(rest), wantEnd) {
				t.Errorf("%.60q: got %q (%v), want the reply in wantEnd at the end, and then a closed connection", input, rest, err)
			}
		})
	}
	f(badByte, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n")  // TLS, including an LF byte
	f("", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")         // TLS without an LF byte
	f("", "\x80\x2e\x01\x03\x01\x00\x15")                         // SSLv2
	f("", "\x00\x8b\xa4Term\xcf\xff\xff\xff\xff\xff\xff\xff\xff") // a Raft RPC
	f("", "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	f("", "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\nCL.THROTTLE k 1 1 1\r\n")
	f("", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04")
	f("+OK\r\n", "PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\nQUIT\r\n")
	f(refused("too big inline request"), "PROXY "+strings.Repeat("x", 70_000))
	f("", "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c")

	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	secure := tls.Client(conn, &tls.Config{ServerName: "localhost"})
	if err := secure.Handshake(); err == nil || isTimeout(err) {
		t.Errorf("the TLS handshake returned %v, want an error other than a timeout", err)
	}
	_ = conn.Close()
	sent.Wait()
	if keys := s.engine.Usage().Keys; keys != 0 {
		t.Errorf("%d keys were created, want 0", keys)
	}
	s.greet()
}

// strangers is a listener whose connections have the remote address of another host.
type strangers struct{ net.Listener }

type stranger struct{ net.Conn }

func (l strangers) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return stranger{conn}, nil
}

func (stranger) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.ParseIP("192.0.2.1"), Port: 4711}
}

// TestProtectedMode checks that remote clients are refused if protected mode is on and no password is set.
func TestProtectedMode(t *testing.T) {
	t.Parallel()
	f := func(change func(o *options.Options), served bool) {
		t.Helper()
		s := setup{options: change, listen: func(ln net.Listener) net.Listener { return strangers{ln} }}.start(t)
		p := s.dial()
		go func() { _, _ = io.WriteString(p.Conn, request("CL.THROTTLE", "k", "1", "1", "60")+request("QUIT")) }()
		got := p.rest()
		switch keys := s.engine.Usage().Keys; {
		case served && got == "":
			t.Error("a remote client got no reply, although the server must accept remote clients")
		case !served && (got != failure(errDenied) || keys != 0):
			t.Errorf("a remote client got %q, want errDenied; %d keys were created, want 0", got, keys)
		}
	}
	f(func(*options.Options) {}, false)
	f(func(o *options.Options) { o.ProtectedMode = false }, true)
	f(withPassword, true)
}

// TestLocalAddresses checks for which addresses isLocal returns true.
func TestLocalAddresses(t *testing.T) {
	t.Parallel()
	f := func(want bool, addr net.Addr) {
		t.Helper()
		if got := isLocal(addr); got != want {
			t.Errorf("isLocal(%v) = %v, want the opposite", addr, got)
		}
	}
	tcp := func(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 1} }
	f(true, tcp("127.0.0.1"))
	f(true, tcp("127.8.9.10"))
	f(true, tcp("::1"))
	f(true, tcp("::ffff:127.0.0.1"))
	f(true, &net.UnixAddr{Name: "x", Net: "unix"})
	f(false, tcp("192.0.2.1"))
	f(false, tcp("0.0.0.0"))
	f(false, tcp("::"))
	f(false, tcp("fe80::1"))
	f(false, &net.TCPAddr{Port: 1})
}

// TestDeafStrangers checks that the server refuses clients above maxclients without delay, even if their connections
// accept no data.
func TestDeafStrangers(t *testing.T) { synctest.Test(t, testDeafStrangers) }

func testDeafStrangers(t *testing.T) {
	var closed sync.WaitGroup
	s := setup{options: func(o *options.Options) { o.MaxClients = 1 }}.build(t)
	ln := newPipes()
	go func() { _ = s.Serve(ln) }()
	t.Cleanup(func() { (&testServer{Server: s}).end() })
	newPeer(t, ln.connect()).do("+PONG\r\n", "PING")
	begin := time.Now()
	for range 20 {
		conn := ln.connect()                                 // a pipe accepts no data until it is read
		closed.Go(func() { _, _ = conn.Write([]byte("P")) }) // fails when the pipe is closed
	}
	closed.Wait()
	if took := time.Since(begin); took > 20*firstBackoff {
		t.Errorf("refusing the clients took %v, want at most 20 times firstBackoff", took)
	}
}
