package transport

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttledhq/throttled/cluster/transport/certs"
)

// patience is the timeout for events that must happen. Tests that pass do not reach it.
const patience = 2 * time.Minute

// site is a directory with the CA of the cluster c1 and the certificates of its nodes.
type site struct {
	t   testing.TB
	dir string
	ca  *certs.CA
}

func newSite(t testing.TB) *site {
	t.Helper()
	ca, err := certs.NewCA("c1", time.Now())
	if err != nil {
		t.Fatalf("create a CA: %v", err)
	}
	s := &site{t: t, dir: t.TempDir(), ca: ca}
	if err := ca.Save(s.dir); err != nil {
		t.Fatalf("save the CA: %v", err)
	}
	return s
}

// issue issues a certificate for a node of a cluster, valid for a day from the given time.
func (s *site) issue(node, cluster string, at time.Time) certs.Pair {
	s.t.Helper()
	p, err := s.ca.Issue(node, cluster, 1, at)
	if err != nil {
		s.t.Fatalf("issue a certificate: %v", err)
	}
	return p
}

// config issues and saves a certificate for a node, and returns the configuration of the node.
func (s *site) config(node string) Config {
	s.t.Helper()
	if err := s.issue(node, "c1", time.Now()).Save(s.dir, node); err != nil {
		s.t.Fatalf("save a certificate: %v", err)
	}
	cfg := plain(node)
	cfg.Insecure = false
	cfg.CertFile, cfg.KeyFile = certs.Files(s.dir, node)
	cfg.CAFile, _ = certs.CAFiles(s.dir)
	return cfg
}

// link opens the link of a node, with changes to its configuration.
func (s *site) link(node string, changes ...func(c *Config)) *Link {
	s.t.Helper()
	return open(s.t, s.config(node), changes...)
}

// plain returns the configuration of an insecure node. The handshake timeout is long enough for a loaded
// machine.
func plain(node string) Config {
	return Config{
		Cluster: "c1", Node: node, Bind: "127.0.0.1:0", Insecure: true, Log: slog.New(slog.DiscardHandler), HandshakeTimeout: patience,
	}
}

func open(t testing.TB, cfg Config, changes ...func(c *Config)) *Link {
	t.Helper()
	for _, change := range changes {
		change(&cfg)
	}
	l, err := Listen(cfg)
	if err != nil {
		t.Fatalf("open a link: %v", err)
	}
	t.Cleanup(func() { closeLink(t, l) })
	return l
}

// refusal is a change to a configuration for which Listen must fail.
type refusal struct {
	name   string
	change func(c *Config)
	want   error // nil: any error
}

// listenRefuses checks that Listen fails for each of the changes to a configuration.
func listenRefuses(t *testing.T, config func() Config, tests []refusal) {
	t.Helper()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			cfg := config()
			test.change(&cfg)
			l, err := Listen(cfg)
			if err == nil {
				closeLink(t, l)
				t.Fatal("Listen succeeds; want an error")
			}
			if test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("Listen returns %v; want %v", err, test.want)
			}
		})
	}
}

func closeLink(t testing.TB, l *Link) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Errorf("close the link of %s: %v", l.cfg.Node, err)
	}
}

// loaded returns a certificate and its key as a tls.Certificate.
func loaded(t testing.TB, p certs.Pair) tls.Certificate {
	t.Helper()
	c, err := tls.X509KeyPair(p.Cert, p.Key)
	if err != nil {
		t.Fatalf("parse a certificate and its key: %v", err)
	}
	return c
}

// withCert returns the TLS configuration of a client that accepts any peer, and sends the certificate
// if one is given.
func withCert(chain ...tls.Certificate) *tls.Config {
	c := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}
	if len(chain) > 0 {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &chain[0], nil }
	}
	return c
}

// connect opens a plain TCP connection to a link.
func connect(t testing.TB, l *Link) net.Conn {
	t.Helper()
	return connectFrom(t, l, "127.0.0.1")
}

func connectFrom(t testing.TB, l *Link, host string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(host)}}
	c, err := d.DialContext(t.Context(), "tcp", l.ln.Addr().String())
	if err != nil {
		t.Fatalf("connect to a link: %v", err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return c
}

// connectTLS opens a TLS connection to a link.
func connectTLS(t testing.TB, l *Link, c *tls.Config) *tls.Conn {
	t.Helper()
	secure := tls.Client(connect(t, l), c)
	if err := secure.HandshakeContext(t.Context()); err != nil {
		t.Fatalf("TLS handshake: %v", err)
	}
	return secure
}

// closed checks that the peer closes a connection, and returns the bytes that the peer has sent before.
func closed(t testing.TB, c net.Conn) []byte {
	t.Helper()
	got, err := io.ReadAll(io.LimitReader(c, 1<<20))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("the peer has not closed the connection before the deadline")
	}
	return got
}

// dialed opens a stream, which must succeed, and returns both ends.
func dialed(t testing.TB, from, to *Link, p Purpose) (out, in net.Conn) {
	t.Helper()
	out, err := dial(t, from, to.cfg.Node, to, p)
	if err != nil {
		t.Fatal(err)
	}
	return out, accepted(t, to, p)
}

// dial opens a stream between two links. node is the name of the intended node, which may differ from
// the node that is dialed.
func dial(t testing.TB, from *Link, node string, to *Link, p Purpose) (net.Conn, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := from.Dial(ctx, node, to.ln.Addr().String(), p)
	if err == nil {
		t.Cleanup(func() { _ = c.Close() })
	}
	return c, err
}

func accepted(t testing.TB, l *Link, p Purpose) net.Conn {
	t.Helper()
	c, err := l.Streams(p).Accept()
	if err != nil {
		t.Fatalf("accept a stream: %v", err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// refused checks that the error of a dial wraps all of the given errors.
func refused(t testing.TB, err error, want ...error) {
	t.Helper()
	for _, w := range want {
		if !errors.Is(err, w) {
			t.Errorf("Dial returns %v; want %v", err, w)
		}
	}
}

// flows checks that the ends of a stream exchange bytes, in both directions.
func flows(t testing.TB, a, b net.Conn) {
	t.Helper()
	for _, pair := range [][2]net.Conn{{a, b}, {b, a}} {
		sent := make(chan error, 1)
		go func() {
			_, err := io.WriteString(pair[0], "ping")
			sent <- err
		}()
		var got [4]byte
		if _, err := io.ReadFull(pair[1], got[:]); err != nil || string(got[:]) != "ping" {
			t.Errorf("one end reads %q, error %v; want \"ping\"", got, err)
		}
		if err := <-sent; err != nil {
			t.Errorf("the write at one end fails: %v", err)
		}
	}
}

// clock is a clock that a test advances.
type clock struct {
	start  time.Time
	offset atomic.Int64
}

func newClock() *clock { return &clock{start: time.Now()} }

func (c *clock) now() time.Time          { return c.start.Add(time.Duration(c.offset.Load())) }
func (c *clock) advance(d time.Duration) { c.offset.Add(int64(d)) }

// lines is a log in memory.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// with returns the lines that contain a text.
func (l *lines) with(text string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.buf.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// pipes is a listener whose connections are pipes, which work with the fake time of
// package synctest. A test can set the errors that Accept returns.
type pipes struct {
	conns chan net.Conn
	shut  chan struct{}
	once  sync.Once
	fails []error     // errors for the next calls of Accept
	calls []time.Time // times of the calls of Accept
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), shut: make(chan struct{})} }

func (l *pipes) Accept() (net.Conn, error) {
	l.calls = append(l.calls, time.Now())
	if len(l.fails) > 0 {
		err := l.fails[0]
		l.fails = l.fails[1:]
		return nil, err
	}
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.shut:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error {
	l.once.Do(func() { close(l.shut) })
	return nil
}

func (l *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "unix"} }

// connect returns the remote end of a new connection.
func (l *pipes) connect() net.Conn {
	far, near := net.Pipe()
	l.conns <- near
	return far
}

// piped opens a link whose connections are pipes.
func piped(t *testing.T, cfg Config, ln *pipes) *Link {
	t.Helper()
	cfg.Bind = "127.0.0.1:7000"
	l, err := newLink(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l.start(ln)
	t.Cleanup(func() { closeLink(t, l) })
	return l
}

// write atomically replaces a file in the directory of a site.
func (s *site) write(name string, content []byte) {
	s.t.Helper()
	temp := filepath.Join(s.dir, "temp")
	if err := os.WriteFile(temp, content, 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(temp, filepath.Join(s.dir, name)); err != nil {
		s.t.Fatal(err)
	}
}

// serial returns the serial number of the certificate of the peer of a stream.
func serial(t testing.TB, c net.Conn) string {
	t.Helper()
	state := c.(*conn).Conn.(*tls.Conn).ConnectionState()
	return fmt.Sprint(state.PeerCertificates[0].SerialNumber)
}

// serialOf returns the serial number of the certificate of a pair.
func serialOf(t testing.TB, p certs.Pair) string {
	t.Helper()
	leaf, err := x509.ParseCertificate(loaded(t, p).Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(leaf.SerialNumber)
}

// expires returns the expiry time of the certificate of a node.
func expires(l *Link) time.Time {
	id, _ := l.certs.get() // the error is ignored here: each handshake logs it
	return id.expires()
}
