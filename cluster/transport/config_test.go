package transport

import (
	"strings"
	"testing"

	"github.com/throttledhq/throttled/topology"
)

func TestListenRefuses(t *testing.T) {
	listenRefuses(t, func() Config { return plain("n1") }, []refusal{
		{"no cluster", func(c *Config) { c.Cluster = "" }, topology.ErrName},
		{"bad cluster", func(c *Config) { c.Cluster = "c.1" }, topology.ErrName},
		{"no node", func(c *Config) { c.Node = "" }, topology.ErrName},
		{"no address", func(c *Config) { c.Bind = "" }, nil},
		{"no port", func(c *Config) { c.Bind = "127.0.0.1" }, nil},
		{"bad port", func(c *Config) { c.Bind = "127.0.0.1:65536" }, nil},
		{"bad advertised port", func(c *Config) { c.Advertise = "127.0.0.1:x" }, nil},
		{"advertised port 0", func(c *Config) { c.Advertise = "localhost:0" }, nil},
		{"address of another host", func(c *Config) { c.Insecure, c.Bind, c.Advertise = false, "203.0.113.1:0", "203.0.113.1:1" }, nil},
		{"bind to all", func(c *Config) { c.Bind = ":7000" }, nil},
		{"bind to all, advertised", func(c *Config) { c.Bind, c.Advertise = ":0", "127.0.0.1:7000" }, ErrInsecure},
		{"bind to 0.0.0.0", func(c *Config) { c.Bind, c.Advertise = "0.0.0.0:0", "127.0.0.1:7000" }, ErrInsecure},
		{"bind to [::]", func(c *Config) { c.Bind, c.Advertise = "[::]:0", "127.0.0.1:7000" }, ErrInsecure},
		{"bind to another host", func(c *Config) { c.Bind = "192.0.2.1:7000" }, ErrInsecure},
		{"bind to a name", func(c *Config) { c.Bind = "node.example:7000" }, ErrInsecure},
		{"advertise another host", func(c *Config) { c.Advertise = "192.0.2.1:7000" }, ErrInsecure},
		{"advertise a name", func(c *Config) { c.Advertise = "node.example:7000" }, ErrInsecure},
		{"advertise all", func(c *Config) { c.Advertise = "[::ffff:0.0.0.0]:7000" }, nil},
		{"no certificates", func(c *Config) { c.Insecure = false }, ErrNoCertificate},
		{"only a certificate", func(c *Config) { c.Insecure, c.CertFile = false, "x.pem" }, ErrNoCertificate},
	})
}

// TestListenNeedsAddress checks that a node that listens on a wildcard must advertise an address.
func TestListenNeedsAddress(t *testing.T) {
	cfg := newSite(t).config("n1")
	for _, test := range []struct{ bind, advertise string }{
		{":0", ""}, {"0.0.0.0:0", ""}, {"[::]:0", ""}, {"127.0.0.1:0", ":7000"}, {"127.0.0.1:0", "0.0.0.0:7000"},
		{"127.0.0.1:0", "[::]:7000"}, {"127.0.0.1:0", "[::ffff:0.0.0.0]:7000"},
	} {
		cfg.Bind, cfg.Advertise = test.bind, test.advertise
		if l, err := Listen(cfg); err == nil {
			closeLink(t, l)
			t.Errorf("Listen succeeds with the bind address %q and the advertised address %q; want an error", test.bind, test.advertise)
		}
	}
}

// TestNoCertificateHelps checks that the error explains how to create certificates.
func TestNoCertificateHelps(t *testing.T) {
	for _, word := range []string{"throttled certs", "raft-tls-cert", "raft-tls-key", "raft-tls-ca"} {
		if !strings.Contains(ErrNoCertificate.Error(), word) {
			t.Errorf("the text of ErrNoCertificate is %q; want it to contain %s", ErrNoCertificate, word)
		}
	}
}

func TestListenAddresses(t *testing.T) {
	s := newSite(t)
	for _, test := range []struct {
		name, bind, advertise string
		want                  string // the advertised address; "": the listening address
	}{
		{"free port", "127.0.0.1:0", "", ""},
		{"name", "localhost:0", "localhost:7000", "localhost:7000"},
		{"IPv6", "[::1]:0", "", ""},
		{"all", ":0", "node.example:7000", "node.example:7000"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := s.link("n1", func(c *Config) { c.Bind, c.Advertise = test.bind, test.advertise })
			want := test.want
			if want == "" {
				want = l.ln.Addr().String()
			}
			for _, addr := range []string{l.Streams(Raft).Addr().String(), l.Raft().Addr().String()} {
				if addr != want || strings.HasSuffix(addr, ":0") {
					t.Errorf("the advertised address is %s; want %s", addr, want)
				}
			}
			if network := l.Raft().Addr().Network(); network != "tcp" {
				t.Errorf("the network is %s; want tcp", network)
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	var c Config
	c.complete()
	if c.MaxConns != DefaultMaxConns || c.MaxPerPeer != DefaultMaxPerPeer || c.MaxHandshakes != DefaultMaxHandshakes || c.HandshakeTimeout != DefaultHandshakeTimeout {
		t.Errorf("MaxConns is %d, MaxPerPeer %d, MaxHandshakes %d, HandshakeTimeout %v; want the defaults", c.MaxConns, c.MaxPerPeer, c.MaxHandshakes, c.HandshakeTimeout)
	}
	if c.Log == nil || c.Now == nil {
		t.Error("complete leaves Log or Now nil")
	}
	set := Config{MaxConns: 1, MaxPerPeer: 2, MaxHandshakes: 3, HandshakeTimeout: 4}
	set.complete()
	if set.MaxConns != 1 || set.MaxPerPeer != 2 || set.MaxHandshakes != 3 || set.HandshakeTimeout != 4 {
		t.Errorf("complete has changed values that were set: %+v; want them unchanged", set)
	}
}
