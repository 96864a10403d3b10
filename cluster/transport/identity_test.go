package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/cluster/transport/certs"
)

// TestListenCertificates checks that Listen fails with missing, invalid or wrong certificate files.
func TestListenCertificates(t *testing.T) {
	s := newSite(t)
	s.config("n2")
	other := newSite(t)
	now := time.Now()
	junk := filepath.Join(s.dir, "junk.pem")
	if err := os.WriteFile(junk, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	save := func(name string, p certs.Pair) (cert, key string) {
		t.Helper()
		if err := p.Save(s.dir, name); err != nil {
			t.Fatal(err)
		}
		return certs.Files(s.dir, name)
	}
	listenRefuses(t, func() Config { return s.config("n1") }, []refusal{
		{"no file", func(c *Config) { c.CertFile = "none.pem" }, os.ErrNotExist},
		{"no CA", func(c *Config) { c.CAFile = "none.pem" }, os.ErrNotExist},
		{"junk", func(c *Config) { c.CertFile = junk }, ErrFiles},
		{"junk as CA", func(c *Config) { c.CAFile = junk }, ErrFiles},
		{"key of another", func(c *Config) { _, c.KeyFile = certs.Files(s.dir, "n2") }, certs.ErrMismatch},
		{"certificate of another", func(c *Config) { c.CertFile, c.KeyFile = certs.Files(s.dir, "n2") }, ErrOtherNode},
		{"other cluster", func(c *Config) { c.Cluster = "c2" }, ErrOtherCluster},
		{"other CA", func(c *Config) { c.CAFile, _ = certs.CAFiles(other.dir) }, ErrCertificate},
		{"expired", func(c *Config) { c.CertFile, c.KeyFile = save("old", s.issue("n1", "c1", now.AddDate(0, 0, -2))) }, ErrCertificate},
		{"not yet valid", func(c *Config) { c.CertFile, c.KeyFile = save("new", s.issue("n1", "c1", now.AddDate(0, 0, 2))) }, ErrCertificate},
		{"CA as node", func(c *Config) { c.CertFile, c.KeyFile = certs.CAFiles(s.dir) }, nil},
	})
}

// TestReloadUnderUse checks that streams stay open when certificates are replaced, and
// that new streams immediately use the new certificates. It then replaces the CA and
// makes the same checks.
func TestReloadUnderUse(t *testing.T) {
	s := newSite(t)
	n1, n2 := s.link("n1"), s.link("n2")
	out, in := dialed(t, n1, n2, Client)
	first := serial(t, out)
	reload := func() {
		t.Helper()
		if err := errors.Join(n1.certs.read(), n2.certs.read()); err != nil {
			t.Fatal(err)
		}
		flows(t, out, in)
	}

	renewed := s.issue("n2", "c1", time.Now())
	if err := renewed.Save(s.dir, "n2"); err != nil {
		t.Fatal(err)
	}
	reload()
	out2, in2 := dialed(t, n1, n2, Client)
	if got := serial(t, out2); got != serialOf(t, renewed) || got == first {
		t.Errorf("the new stream has the certificate %s; want the new one, %s", got, serialOf(t, renewed))
	}

	// Change of the CA: first all nodes trust both CAs, then they get new certificates,
	// then the old CA is removed.
	next := newSite(t)
	next.dir = s.dir
	s.write("ca.pem", append(next.ca.Pair().Cert, s.ca.Pair().Cert...))
	reload()
	for _, node := range []string{"n1", "n2"} {
		if err := next.issue(node, "c1", time.Now()).Save(s.dir, node); err != nil {
			t.Fatal(err)
		}
		reload()
		o, i := dialed(t, n1, n2, Client)
		flows(t, o, i)
	}
	s.write("ca.pem", next.ca.Pair().Cert)
	reload()
	flows(t, out2, in2)
	out3, in3 := dialed(t, n2, n1, Raft)
	flows(t, out3, in3)
	secure := tls.Client(connect(t, n1), withCert(loaded(t, renewed)))
	_, _ = secure.Write(hello{Control, "c1", "n2", "n1", neverRecovered}.encode())
	if got := closed(t, secure); len(got) > 0 {
		t.Errorf("a peer with a certificate of the removed CA receives %q; want nothing", got)
	}
}

// TestReloadOfBadFiles checks that invalid files cause an error, and that the previous certificate stays in use.
func TestReloadOfBadFiles(t *testing.T) {
	s := newSite(t)
	c := newClock()
	var log lines
	n1 := s.link("n1")
	n2 := s.link("n2", func(cfg *Config) { cfg.Now, cfg.Log = c.now, log.logger() })
	good := s.issue("n2", "c1", time.Now())
	for _, test := range []struct {
		name string
		pair certs.Pair
	}{
		{"empty", certs.Pair{}},
		{"of another node", s.issue("n1", "c1", time.Now())},
		{"of another cluster", s.issue("n2", "c2", time.Now())},
		{"of another CA", newSite(t).issue("n2", "c1", time.Now())},
		{"expired", s.issue("n2", "c1", time.Now().AddDate(0, 0, -2))},
		{"new key only", certs.Pair{Cert: good.Cert, Key: s.issue("n2", "c1", time.Now()).Key}},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := expires(n2)
			s.write("n2.pem", test.pair.Cert)
			s.write("n2-key.pem", test.pair.Key)
			if err := n2.certs.read(); err == nil {
				t.Error("read accepts the files; want an error")
			}
			c.advance(time.Minute)
			connectsBothWays(t, n1, n2) // the handshakes check the files as well
			if got := expires(n2); !got.Equal(before) {
				t.Errorf("the certificate expires at %v; want %v", got, before)
			}
		})
	}
	s.write("n2-key.pem", good.Key)
	s.write("n2.pem", good.Cert)
	if err := n2.certs.read(); err != nil {
		t.Errorf("read of valid files returns %v; want nil", err)
	}
}

// connectsBothWays checks that streams can be opened in both directions.
func connectsBothWays(t *testing.T, a, b *Link) {
	t.Helper()
	for _, pair := range [][2]*Link{{a, b}, {b, a}} {
		out, in := dialed(t, pair[0], pair[1], Control)
		flows(t, out, in)
	}
}

// TestReloadByItself checks that a handshake reads changed files, and that the files are checked at
// most once a second.
func TestReloadByItself(t *testing.T) {
	s := newSite(t)
	c := newClock()
	var log lines
	n1 := s.link("n1")
	n2 := s.link("n2", func(cfg *Config) { cfg.Now, cfg.Log = c.now, log.logger() })
	shown := func() string {
		t.Helper()
		out, _ := dialed(t, n1, n2, Control)
		return serial(t, out)
	}
	first := shown()
	renewed := s.issue("n2", "c1", time.Now())
	if err := renewed.Save(s.dir, "n2"); err != nil {
		t.Fatal(err)
	}
	c.advance(checkEvery - 1)
	if got := shown(); got != first {
		t.Errorf("within a second after the last check, the certificate is %s; want the old one, %s", got, first)
	}
	c.advance(1)
	if got := shown(); got != serialOf(t, renewed) {
		t.Errorf("a second after the last check, the certificate is %s; want the new one, %s", got, serialOf(t, renewed))
	}

	// If a certificate is saved before its key, an error is logged. The certificate is used after the key
	// has been saved.
	third := s.issue("n2", "c1", time.Now())
	s.write("n2.pem", third.Cert)
	c.advance(time.Minute)
	if got := shown(); got != serialOf(t, renewed) {
		t.Errorf("before the new key is saved, the certificate is %s; want the old one, %s", got, serialOf(t, renewed))
	}
	if len(log.with("cannot load the changed certificate files")) != 1 {
		t.Errorf("the log is %q; want exactly one line about files that cannot be loaded", log.with(""))
	}
	s.write("n2-key.pem", third.Key)
	c.advance(checkEvery)
	if got := shown(); got != serialOf(t, third) {
		t.Errorf("after the new key is saved, the certificate is %s; want the new one, %s", got, serialOf(t, third))
	}
}

// TestExpiry checks that certificates expire according to the clock of the verifying node,
// and that a warning is logged before the expiry.
func TestExpiry(t *testing.T) {
	s := newSite(t)
	c := newClock()
	var log lines
	n1 := s.link("n1", func(cfg *Config) { cfg.Log = log.logger() })
	n2 := s.link("n2", func(cfg *Config) { cfg.Now, cfg.Log = c.now, log.logger() })
	long, err := s.ca.Issue("n2", "c1", 30, c.now())
	if err != nil {
		t.Fatal(err)
	}
	if err := long.Save(s.dir, "n2"); err != nil {
		t.Fatal(err)
	}
	if err := n2.certs.read(); err != nil {
		t.Fatal(err)
	}
	out, in := dialed(t, n1, n2, Raft)
	if n := len(log.with("expires soon")); n != 1 {
		t.Errorf("the log has %d lines about a certificate that expires soon; want 1, from n1", n)
	}
	if left := expires(n1).Sub(c.now()); left > 24*time.Hour || left < 23*time.Hour {
		t.Errorf("the certificate of n1 expires in %v; want 23 to 24 hours", left)
	}
	c.advance(25 * time.Hour)
	_, err = dial(t, n2, "n1", n1, Raft)
	refused(t, err, ErrCertificate)
	if errors.Is(err, ErrRefused) {
		t.Errorf("Dial returns %v, a refusal by the peer; want a refusal by the dialing node", err)
	}
	_, err = dial(t, n1, "n2", n2, Raft)
	refused(t, err, ErrRefused, ErrCertificate)
	flows(t, out, in) // open streams stay open
}

// TestCertificateNames checks which names in the certificate of a peer match the name in its
// hello.
func TestCertificateNames(t *testing.T) {
	cfg := plain("n1")
	for _, test := range []struct {
		names string
		node  string
		want  error
	}{
		{"n2.c1.throttled", "n2", nil},
		{"n2.c1.throttled", "", nil},
		{"n3.c1.throttled n2.c1.throttled", "n2", nil},
		{"n2.c1.throttled", "n3", ErrOtherNode},
		{"n2.c1.throttled", "N2", ErrOtherNode},
		{"n2.c2.throttled", "n2", ErrOtherCluster},
		{"n2.c2.throttled", "", ErrOtherCluster},
		{"n2.c2.throttled n3.c1.throttled", "n2", ErrOtherNode},
		{"*.c1.throttled", "n2", ErrOtherCluster},
		{"*.c1.throttled", "", ErrOtherCluster},
		{"n2.*.throttled", "", ErrOtherCluster},
		{".c1.throttled", "", ErrOtherCluster},
		{"x.n2.c1.throttled", "n2", ErrOtherCluster},
		{"n2.c1.throttled.example", "n2", ErrOtherCluster},
		{"n2", "n2", ErrOtherCluster},
		{"localhost", "", ErrOtherCluster},
		{"", "n2", ErrOtherCluster},
	} {
		leaf := *loaded(t, newSite(t).issue("n2", "c1", time.Now())).Leaf
		leaf.DNSNames = strings.Fields(test.names)
		leaf.Subject.CommonName = "n2.c1.throttled" // must be ignored
		if err := cfg.checkNames(&leaf, test.node); !errors.Is(err, test.want) {
			t.Errorf("node %q with a certificate for %q: checkNames returns %v; want %v", test.node, test.names, err, test.want)
		}
	}
}

// TestOldTLS checks that only TLS 1.3 is accepted, on both sides.
func TestOldTLS(t *testing.T) {
	s := newSite(t)
	l := s.link("n1")
	cert := loaded(t, s.issue("n2", "c1", time.Now()))
	for v := uint16(tls.VersionTLS10); v <= tls.VersionTLS13; v++ {
		name := tls.VersionName(v)
		c := withCert(cert)
		c.MinVersion, c.MaxVersion = v, v
		err := tls.Client(connect(t, l), c).HandshakeContext(t.Context())
		if (err == nil) != (v == tls.VersionTLS13) {
			t.Errorf("%s: the handshake of a client returns %v; want success with TLS 1.3 only", name, err)
		}

		c = &tls.Config{MinVersion: v, MaxVersion: v, Certificates: []tls.Certificate{cert}}
		ln, err := tls.Listen("tcp", "127.0.0.1:0", c)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			peer, err := ln.Accept()
			if err == nil {
				err = errors.Join(peer.(*tls.Conn).HandshakeContext(t.Context()), peer.Close())
			}
			done <- err
		}()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		_, dialErr := l.Dial(ctx, "n2", ln.Addr().String(), Raft)
		cancel()
		if err := <-done; (err == nil) != (v == tls.VersionTLS13) || dialErr == nil {
			t.Errorf("%s: the handshake of a server returns %v, and Dial returns %v; want a handshake with TLS 1.3 only, and no stream", name, err, dialErr)
		}
		if err := ln.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestNoResumption checks that a link issues no session tickets and resumes no session.
func TestNoResumption(t *testing.T) {
	s := newSite(t)
	l := s.link("n1")
	c := withCert(loaded(t, s.issue("n2", "c1", time.Now())))
	cache := &countingCache{}
	c.ClientSessionCache, c.ServerName = cache, "n1.c1.throttled"
	for range 2 {
		secure := connectTLS(t, l, c)
		if _, err := secure.Write(hello{Control, "c1", "n2", "n1", neverRecovered}.encode()); err != nil {
			t.Fatal(err)
		}
		if a, err := readAnswer(secure); err != nil || a.code != codeOK {
			t.Fatalf("the answer is %+v, error %v; want codeOK", a, err)
		}
		if secure.ConnectionState().DidResume {
			t.Error("the link has resumed a session")
		}
		if err := accepted(t, l, Control).Close(); err != nil {
			t.Error(err)
		}
		closed(t, secure)
	}
	if cache.puts > 0 {
		t.Errorf("the link has issued %d session tickets; want 0", cache.puts)
	}
}

// countingCache stores no sessions, and counts calls of Put.
type countingCache struct{ puts int }

func (c *countingCache) Get(string) (*tls.ClientSessionState, bool) { return nil, false }
func (c *countingCache) Put(_ string, s *tls.ClientSessionState) {
	if s != nil {
		c.puts++
	}
}

// TestExpiryTimes checks the expiry times of the certificates, and that an insecure Link has none.
func TestExpiryTimes(t *testing.T) {
	s := newSite(t)
	l := s.link("n1")
	node, ca, ok := l.Expiry()
	if left := time.Until(node); !ok || left < 22*time.Hour || left > 25*time.Hour || !ca.Equal(s.ca.Expires()) {
		t.Errorf("got %v, %v and %t, want a day, and %v for the CA", left, ca, ok, s.ca.Expires())
	}
	if _, _, ok := open(t, plain("n2")).Expiry(); ok {
		t.Error("an insecure Link has an expiry time")
	}
}
