// Package tlstest creates the files of a server with TLS, and the configurations of its clients.
//
// Only tests import it.
package tlstest

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/throttledhq/throttled/cluster/transport/certs"
)

// ServerName is the name in the certificate of the server.
const ServerName = "server.c1.throttled"

// Site is a directory with the files of a server, and the CA that signs the certificates of the server and of its clients.
type Site struct {
	t   testing.TB
	dir string
	CA  *certs.CA
}

// New creates the files of a server: server.pem, server-key.pem and ca.pem.
func New(t testing.TB) *Site {
	t.Helper()
	s := &Site{t: t, dir: t.TempDir(), CA: NewCA(t)}
	s.Replace("server", s.Issue("server"))
	s.Write("ca.pem", s.CA.Pair().Cert)
	return s
}

// NewCA returns a CA.
func NewCA(t testing.TB) *certs.CA {
	t.Helper()
	ca, err := certs.NewCA("c1", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// Issue returns a certificate that is valid for a day from now.
func (s *Site) Issue(name string) certs.Pair {
	s.t.Helper()
	return IssueAt(s.t, s.CA, name, time.Now())
}

// IssueAt returns a certificate of a CA that is valid for a day from a time.
func IssueAt(t testing.TB, ca *certs.CA, name string, at time.Time) certs.Pair {
	t.Helper()
	p, err := ca.Issue(name, "c1", 1, at)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// NewFor creates the files of a server whose certificate is valid for IP addresses and for localhost, for clients that do not
// verify ServerName. It is valid for a year: the program does not warn of its expiry.
func NewFor(t testing.TB, ips ...string) *Site {
	t.Helper()
	s := New(t)
	s.Replace("server", s.issueFor(ips))
	return s
}

// issueFor returns a certificate for IP addresses and localhost that is valid for a year.
func (s *Site) issueFor(ips []string) certs.Pair {
	s.t.Helper()
	p := s.Issue("server")
	issuer, own := s.parse(s.CA.Pair()), s.parse(p)
	own.Leaf.DNSNames, own.Leaf.NotAfter = []string{"localhost"}, time.Now().AddDate(1, 0, 0)
	for _, ip := range ips {
		own.Leaf.IPAddresses = append(own.Leaf.IPAddresses, net.ParseIP(ip))
	}
	der, err := x509.CreateCertificate(rand.Reader, own.Leaf, issuer.Leaf, own.Leaf.PublicKey, issuer.PrivateKey)
	if err != nil {
		s.t.Fatal(err)
	}
	p.Cert = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return p
}

func (s *Site) parse(p certs.Pair) tls.Certificate {
	s.t.Helper()
	cert, err := tls.X509KeyPair(p.Cert, p.Key)
	if err != nil {
		s.t.Fatal(err)
	}
	return cert
}

// Path returns the path of a file.
func (s *Site) Path(name string) string { return filepath.Join(s.dir, name) }

// Write writes a file that only its owner can read.
func (s *Site) Write(name string, content []byte) {
	s.t.Helper()
	if err := os.WriteFile(s.Path(name), content, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// Replace writes the files of a certificate: NAME-key.pem and NAME.pem.
func (s *Site) Replace(name string, p certs.Pair) {
	s.t.Helper()
	s.Write(name+"-key.pem", p.Key)
	s.Write(name+".pem", p.Cert)
}

// Args returns the arguments of the program for the files, with client certificates as in the option tls-auth-clients.
func (s *Site) Args(authClients string) []string {
	return []string{
		"--tls-cert-file", s.Path("server.pem"), "--tls-key-file", s.Path("server-key.pem"),
		"--tls-ca-cert-file", s.Path("ca.pem"), "--tls-auth-clients", authClients,
	}
}

// Client returns the configuration of a client, with a certificate if p is not nil.
func (s *Site) Client(p *certs.Pair) *tls.Config {
	s.t.Helper()
	c := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: ServerName}
	c.RootCAs.AppendCertsFromPEM(s.CA.Pair().Cert)
	if p != nil {
		cert := s.parse(*p)
		// Sent although the server may not have listed its CA.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
	}
	return c
}

// User returns the configuration of a client with a certificate for a user.
func (s *Site) User(name string) *tls.Config {
	s.t.Helper()
	p := s.Issue(name)
	return s.Client(&p)
}
