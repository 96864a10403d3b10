package tlsserver

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/throttledhq/throttled/cluster/transport/certs"
)

// patience is the maximum time that a test waits for an expected event. It is much longer than any event takes.
const patience = time.Minute

// site is a directory with the files of a server, and the CA that has signed them.
type site struct {
	t   testing.TB
	dir string
	ca  *certs.CA
}

func newSite(t testing.TB) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir(), ca: newCA(t)}
	s.replace("server", s.issue("server"))
	s.write("ca.pem", s.ca.Pair().Cert)
	return s
}

func newCA(t testing.TB) *certs.CA {
	t.Helper()
	ca, err := certs.NewCA("c1", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// issue returns a certificate that is valid for a day.
func (s *site) issue(name string) certs.Pair { return issueAt(s.t, s.ca, name, time.Now()) }

func issueAt(t testing.TB, ca *certs.CA, name string, at time.Time) certs.Pair {
	t.Helper()
	p, err := ca.Issue(name, "c1", 1, at)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (s *site) path(name string) string { return filepath.Join(s.dir, name) }

func (s *site) write(name string, content []byte) {
	s.t.Helper()
	if err := os.WriteFile(s.path(name), content, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// replace writes a certificate and its key.
func (s *site) replace(name string, p certs.Pair) {
	s.write(name+"-key.pem", p.Key)
	s.write(name+".pem", p.Cert)
}

// settings returns settings for the files of the site, without client certificates.
func (s *site) settings() Settings {
	return Settings{
		CertFile: s.path("server.pem"), KeyFile: s.path("server-key.pem"), CAFile: s.path("ca.pem"),
		ClientAuth: tls.NoClientCert, MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS13,
	}
}

func (s *site) verified() Settings {
	o := s.settings()
	o.ClientAuth = tls.RequireAndVerifyClientCert
	return o
}

// client returns the configuration of a client, with a certificate if p is not nil.
func (s *site) client(p *certs.Pair) *tls.Config {
	s.t.Helper()
	c := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: certs.Name("server", "c1")}
	c.RootCAs.AppendCertsFromPEM(s.ca.Pair().Cert)
	if p != nil {
		cert, err := tls.X509KeyPair(p.Cert, p.Key)
		if err != nil {
			s.t.Fatal(err)
		}
		// Sent although the server has not listed its CA.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
	}
	return c
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

// echoServer accepts connections, and sends back what they send.
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
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go echo(conn)
		}
	}()
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
