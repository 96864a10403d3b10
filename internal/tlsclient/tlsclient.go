// Package tlsclient makes the TLS configuration of connections to a server of throttled.
package tlsclient

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"

	"github.com/throttledhq/throttled/cluster/transport/certs"
	"github.com/throttledhq/throttled/internal/fsutil"
)

// Files are the files of a configuration, in PEM, and the names of their options for errors.
type Files struct {
	CA       string // certificates of the CAs of the server; empty: those of the system
	CAOption string
	Cert     string // certificate of the client; empty: none
	Key      string // key of Cert
	// PairOptions names the options of Cert and Key.
	PairOptions string
}

// Config reads the files. The certificate of the server must be for serverName, or for host if serverName is empty.
func (f *Files) Config(serverName, host string) (*tls.Config, error) {
	config := &tls.Config{ServerName: cmp.Or(serverName, host), MinVersion: tls.VersionTLS12}
	if f.CA != "" {
		text, err := fsutil.ReadFile(f.CA)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.CAOption, err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s: %s has no certificate in PEM format", f.CAOption, f.CA)
		}
	}
	if f.Cert != "" {
		pair, err := certs.LoadKeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.PairOptions, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
