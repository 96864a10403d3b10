package options

import "errors"

// UsesTLS reports whether a port for TLS is set that the server listens on.
func (o *Options) UsesTLS() bool {
	clustered := o.ClusterID != "" && (o.TLSClusterPort > 0 || o.TLSSentinelPort > 0)
	return o.TLSPort > 0 || o.TLSHTTPPort > 0 || o.TLSGRPCPort > 0 || clustered
}

// ServesPlain reports whether the server listens on Port: without a port for TLS, also if Port is 0.
func (o *Options) ServesPlain() bool { return o.Port > 0 || o.TLSPort == 0 }

// ServedTLSLeaderPort is like [Options.ServedLeaderPort], for clients with TLS.
func (o *Options) ServedTLSLeaderPort() int {
	if o.TLSSentinelPort == 0 {
		return 0
	}
	return o.TLSLeaderPort
}

// CheckTLS returns an error if a port for TLS is set, and the files for it are not. The program calls it at startup, and
// [Store.Reload] calls it for the values that it has read.
func (o *Options) CheckTLS() error {
	switch {
	case !o.UsesTLS():
		return nil
	case o.TLSCertFile == "" || o.TLSKeyFile == "":
		return errors.New("the ports for TLS require tls-cert-file and tls-key-file")
	case o.TLSAuthClients != "no" && o.TLSCACertFile == "":
		return errors.New("client certificates require tls-ca-cert-file: set it, or set tls-auth-clients to no")
	case o.TLSAuthClients == "no" && o.TLSAuthClientsUser != "off":
		return errors.New("tls-auth-clients-user requires client certificates: set tls-auth-clients to yes or optional")
	}
	return nil
}
