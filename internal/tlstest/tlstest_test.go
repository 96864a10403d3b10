package tlstest

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"testing"
)

// TestNewFor checks for which names the certificates of servers are valid.
func TestNewFor(t *testing.T) {
	for _, tt := range []struct {
		site           *Site
		valid, invalid []string
	}{
		{New(t), []string{ServerName}, []string{"127.0.0.1", "localhost"}},
		{NewFor(t, "127.0.0.1", "127.0.0.2"), []string{"127.0.0.1", "127.0.0.2", "localhost"}, []string{"127.0.0.3", ServerName}},
	} {
		pair, err := tls.LoadX509KeyPair(tt.site.Path("server.pem"), tt.site.Path("server-key.pem"))
		if err != nil {
			t.Fatal(err)
		}
		ca, err := os.ReadFile(tt.site.Path("ca.pem"))
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(ca)
		verify := func(name string) error {
			_, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots})
			return err
		}
		for _, name := range tt.valid {
			if err := verify(name); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, name := range tt.invalid {
			if verify(name) == nil {
				t.Errorf("%s is accepted, want only %q", name, tt.valid)
			}
		}
	}
}
