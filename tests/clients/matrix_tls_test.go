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

// tlsFiles has the paths of a certificate for 127.0.0.1, of its key, and of the certificate of its CA.
type tlsFiles struct{ cert, key, ca string }

// makeTLSFiles creates a CA and a certificate that it has signed.
func makeTLSFiles(t *testing.T) tlsFiles {
	t.Helper()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	caKey, serverKey := makeKey(t), makeKey(t)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "127.0.0.1"}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
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

// testTLS runs the checks of a client with a server that has a TLS port only.
func testTLS(t *testing.T, d *driver) {
	t.Helper()
	files := makeTLSFiles(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(ln.Addr().String()) // the address of a listener is valid
	_ = ln.Close()                                      // nothing has connected
	srv := launch(t, matrixPassword, "--port", "0", "--tls-port", port, "--tls-cert-file", files.cert, "--tls-key-file", files.key, "--tls-auth-clients", "no")
	srv.awaitReady(t)
	args := append(target(modePlain, d.name+" TLS", matrixPassword, "127.0.0.1:"+port), "--tls-ca", files.ca)
	expectAll(t, d.check(t, d.supported("connect", "pipeline", "transaction", "error"), args...))
}
