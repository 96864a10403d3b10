package tlsserver

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/throttledhq/throttled/cluster/transport/certs"
	"github.com/throttledhq/throttled/internal/fsutil"
)

// Settings are the files and the requirements for connections.
type Settings struct {
	CertFile, KeyFile string // PEM; CertFile may contain a chain, the certificate of the server first
	CAFile            string // PEM certificates of the CAs that sign client certificates; required unless ClientAuth is tls.NoClientCert
	RevokedFile       string // serial numbers of revoked client certificates, see certs.ParseSerials; empty means none

	ClientAuth             tls.ClientAuthType
	MinVersion, MaxVersion uint16 // such as tls.VersionTLS12
}

// Errors of invalid settings and files. They are wrapped.
var (
	ErrNoFiles = errors.New("TLS needs a certificate: set tls-cert-file and tls-key-file")
	ErrNoCA    = errors.New("client certificates cannot be verified without a CA: set tls-ca-cert-file, or set tls-auth-clients to no")
	ErrExpired = errors.New("expired, or not valid yet")
	ErrRevoked = errors.New("the certificate is revoked")
)

// files returns the names of the files, without empty ones.
func (s Settings) files() []string {
	var list []string
	for _, name := range []string{s.CertFile, s.KeyFile, s.CAFile, s.RevokedFile} {
		if name != "" {
			list = append(list, name)
		}
	}
	return list
}

// identity is the content of the files of Settings. It is immutable.
type identity struct {
	settings Settings
	cert     tls.Certificate
	roots    *x509.CertPool // nil if client certificates are not verified
	caEnd    time.Time      // earliest expiry time of a CA; zero if there is none
	revoked  map[string]struct{}
	configs  map[string]*tls.Config // by the protocol of ALPN
}

// load reads the files.
func (s Settings) load() (*identity, error) {
	id := &identity{settings: s}
	if s.CertFile == "" || s.KeyFile == "" {
		return nil, ErrNoFiles
	}
	var err error
	if id.cert, err = certs.LoadKeyPair(s.CertFile, s.KeyFile); err != nil {
		return nil, fmt.Errorf("tls-cert-file %s and tls-key-file %s: %w", s.CertFile, s.KeyFile, err)
	}
	if err := errors.Join(id.loadCA(), id.loadRevoked()); err != nil {
		return nil, err
	}
	id.configs = map[string]*tls.Config{}
	for _, protocol := range []string{Redis, HTTP, GRPC} {
		id.configs[protocol] = id.config(protocol)
	}
	return id, nil
}

func (id *identity) loadCA() error {
	s := &id.settings
	switch {
	case s.ClientAuth == tls.NoClientCert:
		return nil
	case s.CAFile == "":
		return ErrNoCA
	}
	text, err := fsutil.ReadFile(s.CAFile)
	if err != nil {
		return fmt.Errorf("tls-ca-cert-file: %w", err)
	}
	id.roots = x509.NewCertPool()
	if !id.roots.AppendCertsFromPEM(text) {
		return fmt.Errorf("tls-ca-cert-file: %s contains no certificate in PEM", s.CAFile)
	}
	id.caEnd = certs.EarliestExpiry(text)
	return nil
}

func (id *identity) loadRevoked() error {
	if id.settings.RevokedFile == "" {
		return nil
	}
	text, err := fsutil.ReadFile(id.settings.RevokedFile)
	if err == nil {
		id.revoked, err = certs.ParseSerials(string(text))
	}
	if err != nil {
		return fmt.Errorf("tls-revoked-file: %w", err)
	}
	return nil
}

// checkTime returns an error that wraps ErrExpired if the certificate is not valid now.
func (id *identity) checkTime(now time.Time) error {
	if leaf := id.cert.Leaf; now.Before(leaf.NotBefore) || now.After(leaf.NotAfter) {
		return fmt.Errorf("tls-cert-file: the certificate in %s is %w: it is valid from %s to %s", id.settings.CertFile, ErrExpired,
			leaf.NotBefore.Format(time.RFC3339), leaf.NotAfter.Format(time.RFC3339))
	}
	return nil
}

// Protocols of ALPN. Clients of Redis do not use ALPN.
const (
	Redis = ""
	HTTP  = "http/1.1"
	GRPC  = "h2"
)

// config returns the configuration of connections of a protocol.
func (id *identity) config(protocol string) *tls.Config {
	c := &tls.Config{
		Certificates: []tls.Certificate{id.cert},
		ClientAuth:   id.settings.ClientAuth,
		ClientCAs:    id.roots,
		MinVersion:   id.settings.MinVersion,
		MaxVersion:   id.settings.MaxVersion,
		// A resumed session would have the client certificate of an earlier connection, which may have expired or been
		// revoked since. Sessions are resumed only if there are no client certificates.
		SessionTicketsDisabled:      id.settings.ClientAuth != tls.NoClientCert,
		DynamicRecordSizingDisabled: true, // replies are short, and clients need all of them
		VerifyConnection:            id.checkRevoked,
	}
	if protocol != "" {
		c.NextProtos = []string{protocol}
	}
	return c
}

// checkRevoked returns an error that wraps ErrRevoked if a certificate of the client is revoked.
func (id *identity) checkRevoked(state tls.ConnectionState) error {
	for _, c := range state.PeerCertificates {
		if _, listed := id.revoked[certs.SerialOf(c)]; listed {
			return fmt.Errorf("%w: serial number %s of %.200q", ErrRevoked, certs.SerialOf(c), c.Subject.CommonName)
		}
	}
	return nil
}
