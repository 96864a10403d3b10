package clienttests

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"path/filepath"
	"testing"
	"time"
)

// tlsFiles has the paths of a certificate for some addresses, of its key, and of the certificate of its CA.
type tlsFiles struct{ cert, key, ca string }

// makeTLSFiles creates a CA, and a certificate for addresses that it has signed.
func makeTLSFiles(t *testing.T, hosts ...string) tlsFiles {
	t.Helper()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	caKey, serverKey := makeKey(t), makeKey(t)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: hosts[0]}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{"localhost"},
	}
	for _, host := range hosts {
		leaf.IPAddresses = append(leaf.IPAddresses, net.ParseIP(host))
	}
	writePEM(t, in("ca.pem"), "CERTIFICATE", sign(t, ca, ca, caKey, caKey))
	writePEM(t, in("cert.pem"), "CERTIFICATE", sign(t, leaf, ca, serverKey, caKey))
	der, err := x509.MarshalPKCS8PrivateKey(serverKey)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, in("key.pem"), "PRIVATE KEY", der)
	return tlsFiles{cert: in("cert.pem"), key: in("key.pem"), ca: in("ca.pem")}
}

func makeKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// sign returns a certificate with the key of its owner, signed with the key of the issuer.
func sign(t *testing.T, cert, issuer *x509.Certificate, own, issuing *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, cert, issuer, &own.PublicKey, issuing)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	write(t, path, string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
}

// options returns the options of a server that uses the files, and accepts clients without certificates.
func (f tlsFiles) options() []string {
	return []string{"--tls-cert-file", f.cert, "--tls-key-file", f.key, "--tls-auth-clients", "no"}
}

// freePort returns a port of 127.0.0.1 that no server uses.
func freePort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(ln.Addr().String()) // the address of a listener is valid
	_ = ln.Close()                                      // nothing has connected
	return port
}
