package tlsserver

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/cluster/transport/certs"
	"github.com/throttledhq/throttled/internal/tlstest"
)

func TestListen(t *testing.T) {
	s := newSite(t)
	for _, protocol := range []string{Redis, HTTP, GRPC} {
		e := startEcho(t, s.settings(), protocol)
		config := s.Client(nil)
		config.NextProtos = []string{"h2", "http/1.1"}
		conn, greeting, err := e.dial(config)
		if err != nil || greeting != "<>" {
			t.Fatalf("protocol %q: greeting %q, error: %v", protocol, greeting, err)
		}
		if got := conn.ConnectionState().NegotiatedProtocol; got != protocol {
			t.Errorf("negotiated the protocol %q, want %q", got, protocol)
		}
		if _, err := conn.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 5)
		if _, err := io.ReadFull(conn, buf); err != nil || string(buf) != "hello" {
			t.Errorf("echo of %q, error: %v", buf, err)
		}
		if got := e.Stats(); got.Completed != 1 || got.Failed != 0 {
			t.Errorf("got %+v, want one handshake", got)
		}
	}
}

// TestListen_ClientCertificates checks which clients are accepted, by the certificate that they present.
func TestListen_ClientCertificates(t *testing.T) {
	s := newSite(t)
	alice, revoked, rogue := s.Issue("alice"), s.Issue("mallory"), tlstest.IssueAt(t, tlstest.NewCA(t), "alice", time.Now())
	old := tlstest.IssueAt(t, s.CA, "alice", time.Now().Add(-48*time.Hour))
	serial, err := revoked.Serial()
	if err != nil {
		t.Fatal(err)
	}
	s.Write("revoked", []byte(serial+" # mallory\n"))
	for _, test := range []struct {
		name string
		auth tls.ClientAuthType
		cert *certs.Pair
		want string // greeting, or a part of the error
		log  string // a part of the log
	}{
		{"required", tls.RequireAndVerifyClientCert, &alice, "<alice>", ""},
		{"required, none", tls.RequireAndVerifyClientCert, nil, "certificate required", "client didn't provide a certificate"},
		{"required, of another CA", tls.RequireAndVerifyClientCert, &rogue, "unknown certificate authority", "unknown authority"},
		{"required, expired", tls.RequireAndVerifyClientCert, &old, "expired certificate", "expired"},
		{"required, revoked", tls.RequireAndVerifyClientCert, &revoked, "bad certificate", "the certificate is revoked: serial number"},
		{"optional", tls.VerifyClientCertIfGiven, &alice, "<alice>", ""},
		{"optional, none", tls.VerifyClientCertIfGiven, nil, "<>", ""},
		{"optional, of another CA", tls.VerifyClientCertIfGiven, &rogue, "unknown certificate authority", "unknown authority"},
		{"optional, revoked", tls.VerifyClientCertIfGiven, &revoked, "bad certificate", "revoked"},
		{"not requested", tls.NoClientCert, &rogue, "<>", ""},
	} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			settings := s.settings()
			settings.ClientAuth, settings.RevokedFile = test.auth, s.Path("revoked")
			e := startEcho(t, settings, Redis)
			config := s.Client(test.cert)
			config.MinVersion, config.MaxVersion = version, version
			_, got, err := e.dial(config)
			if err != nil {
				got = err.Error()
			}
			// TLS 1.2 reports a missing certificate by another alert.
			if !strings.Contains(got, test.want) && (version == tls.VersionTLS13 || !strings.Contains(got, "handshake failure") && !strings.Contains(got, "bad certificate")) {
				t.Errorf("%s, version %x: got %q, want %q", test.name, version, got, test.want)
			}
			if test.log != "" {
				await(t, test.name+": the log has the reason", func() bool { return e.log.count(test.log) > 0 })
			}
		}
	}
}

// TestListen_Versions checks that other versions than those of the settings are refused.
func TestListen_Versions(t *testing.T) {
	s := newSite(t)
	for _, test := range []struct {
		min, max uint16 // of the server
		client   uint16
		accepted bool
	}{
		{tls.VersionTLS12, tls.VersionTLS13, tls.VersionTLS10, false},
		{tls.VersionTLS12, tls.VersionTLS13, tls.VersionTLS11, false},
		{tls.VersionTLS12, tls.VersionTLS13, tls.VersionTLS12, true},
		{tls.VersionTLS12, tls.VersionTLS13, tls.VersionTLS13, true},
		{tls.VersionTLS13, tls.VersionTLS13, tls.VersionTLS12, false},
		{tls.VersionTLS12, tls.VersionTLS12, tls.VersionTLS13, false},
	} {
		settings := s.settings()
		settings.MinVersion, settings.MaxVersion = test.min, test.max
		e := startEcho(t, settings, Redis)
		config := s.Client(nil)
		config.MinVersion, config.MaxVersion = test.client, test.client
		if _, _, err := e.dial(config); (err == nil) != test.accepted {
			t.Errorf("server %x to %x, client %x: %v", test.min, test.max, test.client, err)
		}
	}
}

// TestListen_Garbage checks that clients that do not speak TLS are disconnected and counted, and that others are served.
func TestListen_Garbage(t *testing.T) {
	s := newSite(t)
	e := startEcho(t, s.settings(), Redis)
	for _, text := range []string{"PING\r\n", "*1\r\n$4\r\nPING\r\n", "GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\xff\xff", strings.Repeat("\x16", 1<<10)} {
		conn := e.raw()
		if _, err := conn.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.CloseWrite() // fails if the server has closed the connection already
		}
		if reply, err := io.ReadAll(conn); strings.Contains(string(reply), "<") {
			t.Errorf("%q: reply %q, %v; want an alert or nothing", text, reply, err)
		}
	}
	await(t, "five failed handshakes", func() bool { return e.Stats().Failed == 5 })
	if _, _, err := e.dial(s.Client(nil)); err != nil {
		t.Errorf("a client after garbage: %v", err)
	}
	if got := e.log.count("first record does not look like a TLS handshake"); got == 0 || got > 3 {
		t.Errorf("the log has %d lines, want a few", got)
	}
}

// TestListen_Silent checks that connections that send nothing are bounded, do not keep others out, and are closed after
// HandshakeTimeout.
func TestListen_Silent(t *testing.T) {
	s := newSite(t)
	e := startEcho(t, s.settings(), Redis)
	begin := time.Now()
	silent := make([]net.Conn, 400)
	for i := range silent {
		silent[i] = e.raw()
	}
	await(t, "the limit of handshakes", func() bool {
		got := e.Stats()
		return got.Pending == Limit() && got.Displaced == int64(len(silent)-Limit())
	})
	for range 20 {
		if _, _, err := e.dial(s.Client(nil)); err != nil {
			t.Fatalf("a client beside silent ones: %v", err)
		}
	}
	for _, conn := range silent {
		if n, err := conn.Read(make([]byte, 1)); err == nil {
			t.Fatalf("read %d bytes from a silent connection", n)
		}
	}
	if took := time.Since(begin); took < HandshakeTimeout {
		t.Errorf("all silent connections are closed after %v, want at least %v", took, HandshakeTimeout)
	}
	await(t, "all connections timed out or displaced", func() bool {
		got := e.Stats()
		return got.Pending == 0 && got.Failed == 0 && got.TimedOut+got.Displaced == int64(len(silent))
	})
}

// TestListen_Close checks that Close aborts handshakes, and that Accept returns.
func TestListen_Close(t *testing.T) {
	s := newSite(t)
	store, err := Open(s.settings(), nil)
	if err != nil {
		t.Fatal(err)
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln := store.Listen(tcp, Redis)
	silent, err := net.Dial("tcp", tcp.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	await(t, "a handshake", func() bool { return store.Stats().Pending == 1 })
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := ln.Accept(); err == nil {
		t.Error("Accept returns a connection after Close")
	}
	_ = silent.SetReadDeadline(time.Now().Add(patience))
	if _, err := silent.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is open after Close")
	}
	await(t, "the handshake is aborted", func() bool { return store.Stats().Pending == 0 })
}

// TestDisplace checks that a handshake of the address with the most is displaced, the oldest one.
func TestDisplace(t *testing.T) {
	h := &handshakes{}
	h.init()
	h.limit = 3
	conn := func(addr string) *closedConn { return &closedConn{addr: &net.TCPAddr{IP: net.ParseIP(addr)}} }
	first, second, third, fourth := conn("192.0.2.1"), conn("192.0.2.2"), conn("192.0.2.2"), conn("192.0.2.3")
	var attempts []*attempt
	for _, c := range []*closedConn{first, second, third, fourth} {
		attempts = append(attempts, h.begin(c))
	}
	if first.closed || !second.closed || third.closed || fourth.closed {
		t.Error("another connection than the second one was closed")
	}
	for i, want := range []bool{false, true, false, false} {
		if got := h.end(attempts[i]); got != want {
			t.Errorf("connection %d: displaced is %t, want %t", i, got, want)
		}
	}
	if len(h.pending) != 0 || len(h.byAddr) != 0 {
		t.Errorf("%d handshakes of %d addresses are left", len(h.pending), len(h.byAddr))
	}
}

type closedConn struct {
	net.Conn
	addr   net.Addr
	closed bool
}

func (c *closedConn) RemoteAddr() net.Addr { return c.addr }
func (c *closedConn) Close() error         { c.closed = true; return nil }

// TestResumption checks that a session is resumed only if there are no client certificates.
func TestResumption(t *testing.T) {
	s := newSite(t)
	alice := s.Issue("alice")
	for _, settings := range []Settings{s.settings(), s.verified()} {
		e := startEcho(t, settings, Redis)
		config := s.Client(&alice)
		config.ClientSessionCache = tls.NewLRUClientSessionCache(1)
		for i, want := range []bool{false, settings.ClientAuth == tls.NoClientCert} {
			conn, _, err := e.dial(config)
			if err != nil {
				t.Fatal(err)
			}
			if got := conn.ConnectionState().DidResume; got != want {
				t.Errorf("client certificates %v, connection %d: resumed is %t, want %t", settings.ClientAuth, i, got, want)
			}
			_ = conn.Close()
		}
	}
}

// TestOf checks that the TLS connection is found in a wrapped connection.
func TestOf(t *testing.T) {
	c := &Conn{}
	for _, test := range []struct {
		name string
		conn net.Conn
		want *Conn
	}{
		{"none", nil, nil}, {"itself", c, c}, {"wrapped", wrapped{c}, c}, {"plain", &net.TCPConn{}, nil}, {"plain, wrapped", wrapped{&net.TCPConn{}}, nil},
	} {
		if got := Of(test.conn); got != test.want {
			t.Errorf("%s: got %p, want %p", test.name, got, test.want)
		}
	}
}

type wrapped struct{ net.Conn }

func (w wrapped) NetConn() net.Conn { return w.Conn }

// TestServerName checks that clients verify the certificate of the server.
func TestServerName(t *testing.T) {
	s := newSite(t)
	e := startEcho(t, s.settings(), Redis)
	config := s.Client(nil)
	config.RootCAs = x509.NewCertPool()
	if _, _, err := e.dial(config); err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("a client with another CA: %v", err)
	}
	await(t, "the alert of the client is logged", func() bool { return e.log.count("bad certificate") > 0 })
}
