package tlsserver

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/throttledhq/throttled/internal/testserve"
	"github.com/throttledhq/throttled/internal/tlstest"
)

// patience is the maximum time that a test waits for an expected event. It is much longer than any event takes.
const patience = time.Minute

// site is a tlstest.Site with settings.
type site struct{ *tlstest.Site }

func newSite(t testing.TB) *site {
	t.Helper()
	return &site{tlstest.New(t)}
}

// settings returns settings for the files of the site, without client certificates.
func (s *site) settings() Settings {
	return Settings{
		CertFile: s.Path("server.pem"), KeyFile: s.Path("server-key.pem"), CAFile: s.Path("ca.pem"),
		ClientAuth: tls.NoClientCert, MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS13,
	}
}

func (s *site) verified() Settings {
	o := s.settings()
	o.ClientAuth = tls.RequireAndVerifyClientCert
	return o
}

// logText is a log that is read by tests.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logText) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Count(l.text.Bytes(), []byte(text))
}

func (l *logText) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// echoServer accepts connections, and echoes their bytes.
type echoServer struct {
	*Store
	t    testing.TB
	addr string
	log  *logText
}

func startEcho(t testing.TB, s Settings, protocol string) *echoServer {
	t.Helper()
	log := &logText{}
	store, err := Open(s, log.logger())
	if err != nil {
		t.Fatal(err)
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln := store.Listen(tcp, protocol)
	testserve.Each(t, ln, echo)
	return &echoServer{store, t, tcp.Addr().String(), log}
}

// echo sends the name of the user, and then everything it receives.
func echo(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte("<" + Of(conn).User() + ">")); err != nil {
		return
	}
	buf := make([]byte, 1024)
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return
		}
		if _, err := conn.Write(buf[:n]); err != nil {
			return
		}
	}
}

// dial returns a connection, or the error of the handshake or of the first read, which reports alerts of TLS 1.3.
func (e *echoServer) dial(c *tls.Config) (conn *tls.Conn, greeting string, err error) {
	e.t.Helper()
	conn, err = tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", e.addr, c)
	if err != nil {
		return nil, "", err
	}
	e.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	buf := make([]byte, 100)
	n, err := conn.Read(buf)
	return conn, string(buf[:n]), err
}

func (e *echoServer) raw() net.Conn {
	e.t.Helper()
	conn, err := net.Dial("tcp", e.addr)
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return conn
}

// await waits until a condition is true.
func await(t testing.TB, what string, reached func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(patience); !reached(); <-ticker.C {
		if time.Now().After(deadline) {
			t.Fatalf("not reached: %s", what)
		}
	}
}
