package server

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/internal/tlsserver"
	"github.com/throttledhq/throttled/internal/tlstest"
	"github.com/throttledhq/throttled/options"
)

// secureServer is a server on a port with TLS.
type secureServer struct {
	*testServer
	site  *tlstest.Site
	store *tlsserver.Store
}

// startSecure starts a server with TLS, whose client certificates are optional.
func startSecure(t testing.TB, u setup) *secureServer {
	t.Helper()
	site := tlstest.New(t)
	store, err := tlsserver.Open(tlsserver.Settings{
		CertFile: site.Path("server.pem"), KeyFile: site.Path("server-key.pem"), CAFile: site.Path("ca.pem"),
		ClientAuth: tls.VerifyClientCertIfGiven, MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS13,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	u.listen = func(ln net.Listener) net.Listener { return store.Listen(ln, tlsserver.Redis) }
	tune := u.tune
	u.tune = func(s *Server) {
		s.tls = store
		if tune != nil {
			tune(s)
		}
	}
	return &secureServer{u.start(t), site, store}
}

// dial connects with a configuration, or without a client certificate if it is nil.
func (s *secureServer) dial(c *tls.Config) *peer {
	s.t.Helper()
	if c == nil {
		c = s.site.Client(nil)
	}
	conn, err := tls.Dial("tcp", s.addr, c)
	if err != nil {
		s.t.Fatalf("dial: %v", err)
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	return newPeer(s.t, conn)
}

// TestTLS checks commands, long pipelines and long arguments with both versions of TLS.
func TestTLS(t *testing.T) {
	s := startSecure(t, setup{})
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		config := s.site.Client(nil)
		config.MaxVersion = version
		p := s.dial(config)
		p.do("+PONG\r\n", "PING")
		const n = 1000
		go func() { _, _ = io.WriteString(p.Conn, strings.Repeat(request("PING"), n)) }()
		p.expect(strings.Repeat("+PONG\r\n", n))
		long := strings.Repeat("x", 200<<10) // several records
		p.do(bulk(long), "ECHO", long)
		for _, part := range []string{"*1\r\n$4", "\r\nPI", "NG\r\n"} { // a record for each
			p.send(part)
		}
		p.expect("+PONG\r\n")
		p.do("+OK\r\n", "QUIT")
		p.closed()
	}
	p := s.dial(nil)
	if got := p.count("stats", "tls_handshakes"); got != 3 {
		t.Errorf("INFO counts %d handshakes, want 3", got)
	}
	if h := s.Statistics().TLS; !h.Used || h.Completed != 3 || h.Failed+h.TimedOut+h.Displaced != 0 {
		t.Errorf("statistics: %+v", h)
	}
}

// TestTLS_Unread checks that replies that a client does not read are queued, as without TLS: the server continues to read
// commands of the client, and other clients are served.
func TestTLS_Unread(t *testing.T) {
	s := startSecure(t, setup{})
	p := s.dial(nil)
	text := strings.Repeat("x", 100<<10)
	const n = 300 // 30 MB of replies, more than the socket buffers
	sent := make(chan error, 1)
	go func() {
		_, err := io.WriteString(p.Conn, strings.Repeat(request("ECHO", text), n))
		sent <- err
	}()
	if err := <-sent; err != nil { // nothing has been read yet
		t.Fatal(err)
	}
	s.dial(nil).do("+PONG\r\n", "PING")
	for range n {
		p.expect(bulk(text))
	}
	p.do("+PONG\r\n", "PING") // after the queue is empty
}

// TestTLS_NotReading checks that a client that does not read its replies is disconnected.
func TestTLS_NotReading(t *testing.T) {
	s := startSecure(t, setup{options: func(o *options.Options) {
		hasty(o)
		o.ClientReplyBufferLimit = 64 << 10
	}})
	p := s.dial(nil)
	_ = p.SetWriteDeadline(time.Now().Add(patience))
	input := request("ECHO", strings.Repeat("x", 100<<10))
	for {
		if _, err := io.WriteString(p.Conn, input); err != nil {
			if isTimeout(err) {
				t.Error("the connection was not closed")
			}
			break
		}
	}
	s.dial(nil).await("clients", "connected_clients", 1)
}

// TestTLS_Push checks messages to subscribers, and commands after them.
func TestTLS_Push(t *testing.T) {
	s := startSecure(t, setup{})
	sub, pub := s.dial(nil), s.dial(nil)
	sub.do("*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n", "SUBSCRIBE", "c")
	for range 100 {
		pub.do(":1\r\n", "PUBLISH", "c", "hello")
		sub.expect("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$5\r\nhello\r\n")
	}
	sub.do("*3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n", "UNSUBSCRIBE", "c")
	sub.do("+PONG\r\n", "PING")
}

// TestTLS_Idle checks that an idle connection is closed by the timeout, and one whose client is gone.
func TestTLS_Idle(t *testing.T) {
	s := startSecure(t, setup{options: func(o *options.Options) { o.Timeout = time.Second }})
	p := s.dial(nil)
	p.do("+PONG\r\n", "PING")
	p.closed()
	gone := s.dial(nil)
	_ = gone.Close()
	s.dial(nil).await("clients", "connected_clients", 1)
}

// TestTLS_Shutdown checks that a client gets the replies to its commands when the server shuts down, and the alert that
// ends the data.
func TestTLS_Shutdown(t *testing.T) {
	s := startSecure(t, setup{})
	p := s.dial(nil)
	p.do("+PONG\r\n", "PING")
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if n, err := p.Read(make([]byte, 1)); n != 0 || err != io.EOF { // any other error means that the alert was missing
		t.Errorf("read %d bytes, error: %v; want io.EOF", n, err)
	}
}

// TestTLS_Kill checks that connections can be closed by commands.
func TestTLS_Kill(t *testing.T) {
	s := startSecure(t, setup{})
	p, other := s.dial(nil), s.dial(nil)
	id := p.ask("CLIENT", "ID").text
	other.do(":1\r\n", "CLIENT", "KILL", "ID", id)
	p.closed()
}

// TestTLS_CertificateUser checks which clients are logged in by their certificate.
func TestTLS_CertificateUser(t *testing.T) {
	for _, test := range []struct {
		option string
		name   string // of the certificate; "" for none
		in     bool
	}{
		{"CN", "default", true}, {"CN", "nobody", false}, {"CN", "", false}, {"off", "default", false},
	} {
		s := startSecure(t, setup{options: func(o *options.Options) {
			withPassword(o)
			o.TLSAuthClientsUser = test.option
		}})
		var config *tls.Config
		if test.name != "" {
			config = s.site.User(test.name)
		}
		p := s.dial(config)
		if got := p.ask("PING"); (got.kind == '+') != test.in {
			t.Errorf("tls-auth-clients-user %s, certificate of %q: PING returns %s, want success: %t", test.option, test.name, got, test.in)
		}
		p.do("+OK\r\n", "AUTH", "secret")
		p.do("+RESET\r\n", "RESET")
		if got := p.ask("PING"); (got.kind == '+') != test.in {
			t.Errorf("tls-auth-clients-user %s, certificate of %q, after RESET: PING returns %s, want success: %t", test.option, test.name, got, test.in)
		}
	}
}

// TestTLS_CertificateOfUser checks that the holder of a certificate for a user has the permissions of this user, with the
// password of no user, and that a disabled user cannot log in.
func TestTLS_CertificateOfUser(t *testing.T) {
	s := startSecure(t, setup{options: func(o *options.Options) { o.TLSAuthClientsUser = "CN" }})
	config := s.site.User("alice")
	s.dial(config).do(bulk("default"), "ACL", "WHOAMI")
	s.dial(nil).do("+OK\r\n", "ACL", "SETUSER", "alice", "on", "+cl.throttle", "+acl|whoami", "~app:*")
	p := s.dial(config)
	p.do(bulk("alice"), "ACL", "WHOAMI")
	p.do(five(0, 3, 2, -1, 60), "CL.THROTTLE", "app:1", "2", "1", "60")
	p.fails("NOPERM", "CL.THROTTLE", "other", "2", "1", "60")
	p.do("+RESET\r\n", "RESET")
	p.do(bulk("alice"), "ACL", "WHOAMI")
	if login, ok := s.CertificateUser("alice"); !ok || login.Name() != "alice" {
		t.Errorf("CertificateUser: %v, %t", login, ok)
	}
	s.dial(nil).do("+OK\r\n", "ACL", "SETUSER", "alice", "off")
	s.dial(config).do(bulk("default"), "ACL", "WHOAMI")
	if _, ok := s.CertificateUser("alice"); ok {
		t.Error("CertificateUser returns a disabled user")
	}
}

// TestTLS_MaxClients checks that silent handshakes take no places of clients, and that a client that is refused gets the
// reason.
func TestTLS_MaxClients(t *testing.T) {
	s := startSecure(t, setup{options: func(o *options.Options) { o.MaxClients = 1 }})
	for range 20 {
		conn, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
	}
	if !eventually(func() bool { return s.store.Stats().Pending == 20 }) {
		t.Fatalf("%+v, want 20 handshakes", s.store.Stats())
	}
	first := s.dial(nil)
	first.do("+PONG\r\n", "PING")
	s.dial(nil).expect(failure(errMaxClients))
}

// TestTLS_Resources checks that the socket uses the descriptor below TLS, and that the memory of TLS is counted.
func TestTLS_Resources(t *testing.T) {
	s := startSecure(t, setup{})
	s.dial(nil).do("+PONG\r\n", "PING")
	for _, c := range s.connections() {
		if c.conn.socket.descriptor() < 0 {
			t.Error("the socket has no descriptor")
		}
		if got := c.conn.usage.total(); got < connectionBytes+secureBytes {
			t.Errorf("%d bytes are counted for the connection, want those of TLS as well", got)
		}
	}
}

// TestTLS_Allocations bounds the memory that a pipeline of decisions allocates with TLS.
func TestTLS_Allocations(t *testing.T) {
	s := startSecure(t, setup{})
	p := s.dial(nil)
	input := strings.Repeat(request("CL.THROTTLE", "user:1234567:api", "1000000", "30", "60", "1"), 16)
	reply := make([]byte, 0, 4096)
	exchange := func() {
		p.send(input)
		reply = reply[:0]
		for range 16 * 6 {
			line, err := p.in.ReadSlice('\n')
			if err != nil {
				t.Fatal(err)
			}
			reply = append(reply, line...)
		}
	}
	exchange()
	// The client of this test allocates as well.
	if got := testing.AllocsPerRun(200, exchange); got > 16 {
		t.Errorf("%.1f allocations per pipeline of 16, want at most one for each command", got)
	}
}
