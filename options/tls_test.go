package options

import "testing"

// withTLS sets the options of a server with TLS.
func withTLS(o *Options) {
	o.TLSPort, o.TLSCertFile, o.TLSKeyFile, o.TLSCACertFile = 6390, "cert", "key", "ca"
}

func TestCheckTLS(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(o *Options)
		want   string // "" for no error
	}{
		{"no port", func(o *Options) { o.TLSPort, o.TLSCertFile = 0, "" }, ""},
		{"complete", func(*Options) {}, ""},
		{"no certificate", func(o *Options) { o.TLSCertFile = "" }, "the ports for TLS require tls-cert-file and tls-key-file"},
		{"no key", func(o *Options) { o.TLSKeyFile = "" }, "the ports for TLS require tls-cert-file and tls-key-file"},
		{"no CA", func(o *Options) { o.TLSCACertFile = "" }, "client certificates require tls-ca-cert-file: set it, or set tls-auth-clients to no"},
		{"no CA, optional", func(o *Options) { o.TLSCACertFile, o.TLSAuthClients = "", "optional" }, "client certificates require tls-ca-cert-file: set it, or set tls-auth-clients to no"},
		{"no client certificates", func(o *Options) { o.TLSCACertFile, o.TLSAuthClients = "", "no" }, ""},
		{"user without client certificates", func(o *Options) { o.TLSAuthClients, o.TLSAuthClientsUser = "no", "CN" }, "tls-auth-clients-user requires client certificates: set tls-auth-clients to yes or optional"},
		{"HTTP only", func(o *Options) { o.TLSPort, o.TLSHTTPPort, o.TLSKeyFile = 0, 6391, "" }, "the ports for TLS require tls-cert-file and tls-key-file"},
		{"gRPC only", func(o *Options) { o.TLSPort, o.TLSGRPCPort, o.TLSKeyFile = 0, 6393, "" }, "the ports for TLS require tls-cert-file and tls-key-file"},
		{"cluster port of a standalone server", func(o *Options) { o.TLSPort, o.TLSClusterPort, o.TLSKeyFile = 0, 6394, "" }, ""},
		{"cluster port of a node", func(o *Options) { o.TLSPort, o.TLSClusterPort, o.TLSKeyFile, o.ClusterID = 0, 6394, "", "c1" }, "the ports for TLS require tls-cert-file and tls-key-file"},
	} {
		o := Default()
		withTLS(&o)
		tt.change(&o)
		if err := o.CheckTLS(); tt.want != "" {
			wantError(t, err, tt.want)
		} else if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestServedPorts(t *testing.T) {
	for _, tt := range []struct {
		port, tlsPort int
		want          bool
	}{{6380, 0, true}, {0, 0, true}, {6380, 6390, true}, {0, 6390, false}} {
		if o := (Options{Port: tt.port, TLSPort: tt.tlsPort}); o.ServesPlain() != tt.want {
			t.Errorf("port %d, tls-port %d: the plain port is served: %t, want %t", tt.port, tt.tlsPort, !tt.want, tt.want)
		}
	}
	for _, tt := range []struct{ sentinel, leader, want int }{{0, 0, 0}, {0, 6396, 0}, {26390, 0, 0}, {26390, 6396, 6396}} {
		o := Options{TLSSentinelPort: tt.sentinel, TLSLeaderPort: tt.leader}
		if got := o.ServedTLSLeaderPort(); got != tt.want {
			t.Errorf("tls-sentinel-port %d, tls-leader-port %d: got %d, want %d", tt.sentinel, tt.leader, got, tt.want)
		}
	}
}

// TestTLSProtocols checks the versions of TLS that can be set, in the spelling of Redis.
func TestTLSProtocols(t *testing.T) {
	s := mustLoad(t, nil, "--tls-protocols", "tlsv1.3")
	if o := s.Get(); len(o.TLSProtocols) != 1 || o.TLSProtocols[0] != "TLSv1.3" {
		t.Errorf("got %q, want TLSv1.3", o.TLSProtocols)
	}
	for _, text := range []string{"TLSv1.1", "TLSv1", "SSLv3", "TLSv1.2 TLSv1.2", "TLSv1.2,TLSv1.3"} {
		if err := s.Set([]Pair{{"tls-protocols", text}}); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}
