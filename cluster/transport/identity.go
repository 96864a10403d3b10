package transport

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/throttledhq/throttled/cluster/transport/certs"
	"github.com/throttledhq/throttled/internal/fsutil"
	"github.com/throttledhq/throttled/topology"
)

const (
	checkEvery  = time.Second // interval of checks of the certificate files
	expiresSoon = 14 * 24 * time.Hour
)

// identity is the parsed content of the certificate files. It is immutable.
type identity struct {
	cert  tls.Certificate
	chain []*x509.Certificate // cert, parsed
	roots *x509.CertPool
	caEnd time.Time // earliest expiry time of a certificate in roots
}

// certReloader loads the certificate files, and reloads them when they change.
type certReloader struct {
	cfg *Config

	mu      sync.Mutex
	current *identity
	seen    [3]os.FileInfo // the files when they were last read
	checked time.Time      // time of the last check
}

// read reads the files. After an error the previous identity stays in use.
func (p *certReloader) read() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.readLocked(p.stat())
}

// readLocked reads the files. The argument files must be a result of stat from before the call, so
// that a later change of the files causes another read.
func (p *certReloader) readLocked(files [3]os.FileInfo) error {
	p.seen = files
	id, err := p.cfg.parseFiles()
	if err == nil {
		err = p.cfg.checkOwn(id)
	}
	if err != nil {
		return err
	}
	p.current = id
	return nil
}

// get returns the current identity. At most once a second, it checks whether the files
// have changed. If the changed files are invalid, it returns the previous identity with
// the error.
func (p *certReloader) get() (*identity, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.cfg.Now()
	if since := now.Sub(p.checked); since >= 0 && since < checkEvery {
		return p.current, nil
	}
	p.checked = now
	files := p.stat()
	if slices.EqualFunc(files[:], p.seen[:], fsutil.SameState) {
		return p.current, nil
	}
	err := p.readLocked(files)
	return p.current, err
}

func (p *certReloader) stat() (files [3]os.FileInfo) {
	for i, name := range []string{p.cfg.CertFile, p.cfg.KeyFile, p.cfg.CAFile} {
		if info, err := os.Stat(name); err == nil {
			files[i] = info
		}
	}
	return files
}

// parseFiles reads and parses the certificate files. The error wraps certs.ErrMismatch or ErrFiles.
func (c *Config) parseFiles() (*identity, error) {
	cert, err := certs.LoadKeyPair(c.CertFile, c.KeyFile)
	if err != nil {
		err = fmt.Errorf("raft-tls-cert %s and raft-tls-key %s: %w", c.CertFile, c.KeyFile, err)
		if errors.Is(err, certs.ErrMismatch) {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %w", ErrFiles, err)
	}
	ca, err := fsutil.ReadFile(c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("%w: raft-tls-ca: %w", ErrFiles, err)
	}
	id := &identity{cert: cert, roots: x509.NewCertPool(), caEnd: certs.EarliestExpiry(ca)}
	if !id.roots.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("%w: raft-tls-ca: %s contains no certificate", ErrFiles, c.CAFile)
	}
	id.chain = []*x509.Certificate{cert.Leaf}
	for _, der := range cert.Certificate[1:] {
		link, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("%w: raft-tls-cert: %s: %w", ErrFiles, c.CertFile, err)
		}
		id.chain = append(id.chain, link)
	}
	return id, nil
}

// checkOwn verifies that the certificate is valid for this node. The error does not wrap ErrFiles, because the same options can
// be correct later: after the clock is set, or after a renewal is complete.
func (c *Config) checkOwn(id *identity) error {
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		if err := c.verify(id.roots, id.chain, usage, c.Node); err != nil {
			return fmt.Errorf("raft-tls-cert: %s is not valid for node %s of cluster %s: %w", c.CertFile, c.Node, c.Cluster, err)
		}
	}
	return nil
}

// verify checks that a certificate chain is valid for a node of this cluster, or for any
// node if node is "". It ignores the address of the peer.
func (c *Config) verify(roots *x509.CertPool, chain []*x509.Certificate, usage x509.ExtKeyUsage, node string) error {
	if len(chain) == 0 {
		return fmt.Errorf("%w: none was presented", ErrCertificate)
	}
	opts := x509.VerifyOptions{
		Roots: roots, Intermediates: x509.NewCertPool(), CurrentTime: c.Now(),
		KeyUsages: []x509.ExtKeyUsage{usage},
	}
	for _, link := range chain[1:] {
		opts.Intermediates.AddCert(link)
	}
	if _, err := chain[0].Verify(opts); err != nil {
		return fmt.Errorf("%w: %w", ErrCertificate, err)
	}
	return c.checkNames(chain[0], node)
}

// checkNames checks that a certificate is for a node of this cluster, or for any node if
// node is "". Names are compared literally: a certificate with a wildcard is valid for no
// node.
func (c *Config) checkNames(leaf *x509.Certificate, node string) error {
	if node != "" && slices.Contains(leaf.DNSNames, certs.Name(node, c.Cluster)) {
		return nil
	}
	ours := slices.ContainsFunc(leaf.DNSNames, func(name string) bool {
		other, _, _ := strings.Cut(name, ".")
		return topology.CheckName(other) == nil && name == certs.Name(other, c.Cluster)
	})
	switch {
	case !ours:
		return fmt.Errorf("%w: the certificate is for %.200q", ErrOtherCluster, leaf.DNSNames)
	case node != "":
		return fmt.Errorf("%w: the certificate is for %.200q", ErrOtherNode, leaf.DNSNames)
	}
	return nil
}

// server returns the TLS configuration for accepted connections. The name in the certificate of
// the peer is checked later, against its hello.
func (id *identity) server(c *Config) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{id.cert},
		ClientAuth:             tls.RequireAndVerifyClientCert,
		ClientCAs:              id.roots,
		SessionTicketsDisabled: true, // every connection must present a certificate
		Time:                   c.Now,
	}
}

// client returns the TLS configuration for dialing a node, or any node of the cluster if
// node is "".
func (id *identity) client(c *Config, node string) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		SessionTicketsDisabled: true,
		Time:                   c.Now,
		// Send the certificate regardless of the CAs that the peer lists, so that the peer
		// can report why the certificate is invalid.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &id.cert, nil },
		// This setting disables only the default verification, which would compare the certificate with the
		// address of the peer. VerifyConnection verifies the certificate instead.
		InsecureSkipVerify: true, // #nosec G402 -- VerifyConnection verifies the certificate
		VerifyConnection: func(state tls.ConnectionState) error {
			return c.verify(id.roots, state.PeerCertificates, x509.ExtKeyUsageServerAuth, node)
		},
	}
}

// expires returns the expiry time of the certificate of this node.
func (id *identity) expires() time.Time { return id.cert.Leaf.NotAfter }

// isRemoteAlert reports whether an error of TLS is an alert from the peer.
func isRemoteAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}
