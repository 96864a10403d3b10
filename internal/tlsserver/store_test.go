package tlsserver

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/cluster/transport/certs"
	"github.com/throttledhq/throttled/internal/tlstest"
)

func TestOpen_Invalid(t *testing.T) {
	s := newSite(t)
	s.Write("junk", []byte("junk"))
	s.Replace("other", s.Issue("other"))
	for _, test := range []struct {
		name   string
		change func(o *Settings)
		err    error
		text   string
	}{
		{"no certificate", func(o *Settings) { o.CertFile = "" }, ErrNoFiles, "set tls-cert-file and tls-key-file"},
		{"no key", func(o *Settings) { o.KeyFile = "" }, ErrNoFiles, ""},
		{"missing certificate", func(o *Settings) { o.CertFile = s.Path("none") }, fs.ErrNotExist, "tls-cert-file"},
		{"junk", func(o *Settings) { o.CertFile = s.Path("junk") }, nil, "failed to find any PEM data"},
		{"key of another certificate", func(o *Settings) { o.KeyFile = s.Path("other-key.pem") }, certs.ErrMismatch, "tls-key-file"},
		{"no CA", func(o *Settings) { o.CAFile = "" }, ErrNoCA, "set tls-ca-cert-file"},
		{"missing CA", func(o *Settings) { o.CAFile = s.Path("none") }, fs.ErrNotExist, "tls-ca-cert-file"},
		{"junk as CA", func(o *Settings) { o.CAFile = s.Path("junk") }, nil, "contains no certificate"},
		{"missing list", func(o *Settings) { o.RevokedFile = s.Path("none") }, fs.ErrNotExist, "tls-revoked-file"},
		{"junk as list", func(o *Settings) { o.RevokedFile = s.Path("junk") }, certs.ErrSerials, "line 1"},
	} {
		o := s.verified()
		test.change(&o)
		_, err := Open(o, nil)
		if err == nil || test.err != nil && !errors.Is(err, test.err) || !strings.Contains(err.Error(), test.text) {
			t.Errorf("%s: got %v, want %v with %q", test.name, err, test.err, test.text)
		}
	}
	o := s.settings()
	o.CAFile = ""
	if _, err := Open(o, nil); err != nil {
		t.Errorf("without client certificates, no CA is needed: %v", err)
	}
}

// serverSerial returns the serial number of the certificate that new connections get.
func (e *echoServer) serverSerial(c *tls.Config) string {
	e.t.Helper()
	conn, _, err := e.dial(c)
	if err != nil {
		e.t.Fatal(err)
	}
	return certs.SerialOf(conn.ConnectionState().PeerCertificates[0])
}

func serialOf(t *testing.T, p certs.Pair) string {
	t.Helper()
	serial, err := p.Serial()
	if err != nil {
		t.Fatal(err)
	}
	return serial
}

// TestWatch replaces the files of a server, while a connection stays open. Files that are not valid are not used, and
// are reported once.
func TestWatch(t *testing.T) {
	s := newSite(t)
	first, second := s.Issue("server"), s.Issue("server")
	s.Replace("server", first)
	e := startEcho(t, s.settings(), Redis)
	kept, _, err := e.dial(s.Client(nil))
	if err != nil {
		t.Fatal(err)
	}
	go e.Watch(t.Context())

	s.Write("server.pem", second.Cert) // its key is still the first one
	await(t, "a report", func() bool { return e.log.count("cannot be used") > 0 })
	if got := e.serverSerial(s.Client(nil)); got != serialOf(t, first) {
		t.Errorf("a certificate without its key is used")
	}
	expired := tlstest.IssueAt(t, s.CA, "server", time.Now().Add(-48*time.Hour))
	s.Replace("server", expired)
	await(t, "a report of the expired certificate", func() bool { return e.log.count("expired, or not valid yet") > 0 })
	if got := e.serverSerial(s.Client(nil)); got != serialOf(t, first) {
		t.Errorf("an expired certificate is used")
	}
	s.Replace("server", second)
	await(t, "the second certificate", func() bool { return e.log.count("loaded changed files") > 0 })
	if got := e.serverSerial(s.Client(nil)); got != serialOf(t, second) {
		t.Errorf("the second certificate is not used")
	}
	if got := e.log.count("cannot be used"); got != 2 {
		t.Errorf("%d reports of files that cannot be used, want 2", got)
	}
	if _, err := kept.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	if n, err := kept.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("the connection is not open: %v", err)
	}
}

// TestReplace_CA replaces the CA of clients. A client of the previous CA is refused then.
func TestReplace_CA(t *testing.T) {
	s := newSite(t)
	e := startEcho(t, s.verified(), Redis)
	other := tlstest.NewCA(t)
	ours, theirs := s.Issue("alice"), tlstest.IssueAt(t, other, "bob", time.Now())
	greeting := func(p certs.Pair) string {
		_, got, err := e.dial(s.Client(&p))
		if err != nil {
			return "refused"
		}
		return got
	}
	if a, b := greeting(ours), greeting(theirs); a != "<alice>" || b != "refused" {
		t.Errorf("before: %s, %s", a, b)
	}
	s.Write("ca.pem", other.Pair().Cert)
	if err := e.Reload(); err != nil {
		t.Fatal(err)
	}
	if a, b := greeting(ours), greeting(theirs); a != "refused" || b != "<bob>" {
		t.Errorf("after: %s, %s", a, b)
	}
	if _, ca := e.Expiry(); !ca.Equal(other.Expires()) {
		t.Errorf("the CA expires at %v, want %v", ca, other.Expires())
	}
	s.Write("ca.pem", nil)
	if err := e.Reload(); err == nil || greeting(theirs) != "<bob>" {
		t.Errorf("an empty file: %v; want an error, and the previous CA", err)
	}
}

// TestOpen_Warnings checks the warnings about an exposed key and an expired certificate.
func TestOpen_Warnings(t *testing.T) {
	s := newSite(t)
	log := &logText{}
	if _, err := Open(s.settings(), log.logger()); err != nil || log.count("level=") != 0 {
		t.Fatalf("error: %v; warnings: %d, want none", err, log.count("level="))
	}
	if err := os.Chmod(s.Path("server-key.pem"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(s.settings(), log.logger()); err != nil || log.count("readable by all users") != 1 {
		t.Errorf("error: %v; want a warning about the key", err)
	}
	s.Replace("server", tlstest.IssueAt(t, s.CA, "server", time.Now().Add(-48*time.Hour)))
	store, err := Open(s.settings(), log.logger())
	if err != nil || log.count("clients will refuse TLS connections") != 1 {
		t.Errorf("error: %v; want an error about the expired certificate in the log", err)
	}
	if err := store.Reload(); !errors.Is(err, ErrExpired) {
		t.Errorf("reload of an expired certificate: %v, want ErrExpired", err)
	}
	store.warnExpiry(time.Now())
	store.warnExpiry(time.Now())
	if got := log.count("expires soon"); got != 1 {
		t.Errorf("%d warnings about the expiry, want 1", got)
	}
}

// TestExpiry checks the times for metrics.
func TestExpiry(t *testing.T) {
	s := newSite(t)
	p := s.Issue("server")
	s.Replace("server", p)
	cert, err := tls.X509KeyPair(p.Cert, p.Key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(cert.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, settings := range []Settings{s.settings(), s.verified()} {
		store, err := Open(settings, nil)
		if err != nil {
			t.Fatal(err)
		}
		server, ca := store.Expiry()
		if !server.Equal(leaf.NotAfter) || ca.IsZero() != (settings.ClientAuth == tls.NoClientCert) {
			t.Errorf("got %v and %v, want %v, and a CA only for client certificates", server, ca, leaf.NotAfter)
		}
	}
}
