package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net"

	"github.com/throttledhq/throttled/cluster/transport/certs"
	"github.com/throttledhq/throttled/internal/tlsserver"
	"github.com/throttledhq/throttled/options"
	"github.com/throttledhq/throttled/server"
)

// authClients maps the values of the option tls-auth-clients.
var authClients = map[string]tls.ClientAuthType{
	"yes": tls.RequireAndVerifyClientCert, "optional": tls.VerifyClientCertIfGiven, "no": tls.NoClientCert,
}

// tlsSettings returns the settings of TLS in the options.
func tlsSettings(o *options.Options) tlsserver.Settings {
	s := tlsserver.Settings{
		CertFile: o.TLSCertFile, KeyFile: o.TLSKeyFile, CAFile: o.TLSCACertFile, RevokedFile: o.TLSRevokedFile,
		ClientAuth: authClients[o.TLSAuthClients], MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS13,
	}
	if len(o.TLSProtocols) == 1 {
		s.MinVersion = map[string]uint16{"TLSv1.2": tls.VersionTLS12, "TLSv1.3": tls.VersionTLS13}[o.TLSProtocols[0]]
		s.MaxVersion = s.MinVersion
	}
	return s
}

// openTLS loads the files of TLS, if there is a port for TLS.
func (p *program) openTLS(o *options.Options) (err error) {
	if !o.UsesTLS() {
		return nil
	}
	if p.tls, err = tlsserver.Open(tlsSettings(o), p.log); err != nil {
		return fileError(err)
	}
	return nil
}

// fileError returns a usageError for an error of the files that options name. If a certificate and its key do not match, it
// returns err: the files are replaced one after the other, so a later start can succeed.
func fileError(err error) error {
	if errors.Is(err, certs.ErrMismatch) {
		return err
	}
	return &usageError{err}
}

// listenTLS binds the addresses of the listeners for Redis clients with TLS.
func (p *program) listenTLS(o *options.Options) error {
	err := p.bindIf("tls-port", o.TLSPort, o.Bind, bySecureServer((*server.Server).Serve))
	if o.ClusterID == "" {
		return err
	}
	return errors.Join(err,
		p.bindIf("tls-cluster-port", o.TLSClusterPort, o.Bind, bySecureServer((*server.Server).ServeCluster)),
		p.bindIf("tls-leader-port", o.ServedTLSLeaderPort(), o.Bind, bySecureServer((*server.Server).ServeLeader)),
		p.bindIf("tls-sentinel-port", o.TLSSentinelPort, o.Bind, bySecureServer((*server.Server).ServeSentinel)))
}

// bySecureServer is like byServer, for connections with TLS.
func bySecureServer(serve func(*server.Server, net.Listener) error) serveFunc {
	plain := byServer(serve)
	return func(ctx context.Context, p *program, ln net.Listener) error {
		return plain(ctx, p, p.tls.Listen(ln, tlsserver.Redis))
	}
}

// applyTLS applies changed options of TLS. If they have not changed, it reads the files again: CONFIG SET with the same
// value is a request to do so. Connections that are open are not affected.
func (p *program) applyTLS(old, o *options.Options) error {
	if p.tls == nil {
		return nil
	}
	if err := o.CheckTLS(); err != nil {
		return err
	}
	if now := tlsSettings(o); tlsSettings(old) != now {
		return p.tls.Replace(now)
	}
	_ = p.tls.Reload() // it logs its error
	return nil
}
