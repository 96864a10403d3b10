package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/throttledhq/throttled/topology"
)

// CAYears is the validity of the certificate of a CA in years.
const CAYears = 10

// NodeDays is the default validity of the certificate of a node in days.
const NodeDays = 365

// MaxDays is the maximum validity of the certificate of a node in days.
const MaxDays = 366 * CAYears

// skew is the maximum time by which the clock of a node may be behind the clock of the issuing machine.
const skew = time.Hour

var (
	// ErrDays is wrapped if the validity of a certificate is not between 1 and MaxDays days.
	ErrDays = fmt.Errorf("must be between 1 and %d days", MaxDays)
	// ErrNotCA is wrapped if a certificate cannot sign node certificates, because it is not
	// a CA certificate or the key does not match it.
	ErrNotCA = errors.New("not a CA certificate with a matching key")
	// ErrMismatch is wrapped if a key does not match its certificate. Both are well-formed.
	ErrMismatch = errors.New("the key does not match the certificate")
	errNoPEM    = errors.New("not a PEM certificate")
	// ErrOtherCluster is wrapped if a CA was created for another cluster.
	ErrOtherCluster = errors.New("the CA was created for another cluster")
	// ErrExpired is wrapped if a CA has expired, or is not valid yet.
	ErrExpired = errors.New("expired or not valid yet")
)

// Pair is a certificate with its key, both in PEM.
type Pair struct {
	Cert, Key []byte
}

// CA signs the certificates of nodes.
type CA struct {
	pair Pair
	cert *x509.Certificate
	key  crypto.Signer
}

// namePrefix begins the common name of a CA that NewCA has created. The name of its cluster follows.
const namePrefix = "throttled CA of "

// NewCA creates a CA for a cluster. It expires CAYears years after now. The error wraps topology.ErrName.
func NewCA(cluster string, now time.Time) (*CA, error) {
	if err := topology.CheckName(cluster); err != nil {
		return nil, fmt.Errorf("cluster %w", err)
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: namePrefix + cluster},
		NotBefore:             now.Add(-skew),
		NotAfter:              now.AddDate(CAYears, 0, 0),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	pair, err := sign(template, nil)
	if err != nil {
		return nil, fmt.Errorf("create a CA: %w", err)
	}
	return ParseCA(pair, now)
}

// ParseCA parses a CA. Errors wrap ErrNotCA, or ErrExpired if the CA is not valid at the time now.
func ParseCA(pair Pair, now time.Time) (*CA, error) {
	both, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotCA, err)
	}
	key, ok := both.PrivateKey.(crypto.Signer)
	if !ok || !both.Leaf.IsCA || both.Leaf.KeyUsage&x509.KeyUsageCertSign == 0 {
		return nil, fmt.Errorf("%q is %w", both.Leaf.Subject.CommonName, ErrNotCA)
	}
	if now.Before(both.Leaf.NotBefore) || now.After(both.Leaf.NotAfter) {
		return nil, fmt.Errorf("the CA %q is %w", both.Leaf.Subject.CommonName, ErrExpired)
	}
	return &CA{pair: pair, cert: both.Leaf, key: key}, nil
}

// Pair returns the certificate of the CA and its key.
func (ca *CA) Pair() Pair { return ca.pair }

// Expires returns the expiry time of the CA. No certificate that the CA has signed expires later.
func (ca *CA) Expires() time.Time { return ca.cert.NotAfter }

// CheckCluster returns an error that wraps ErrOtherCluster if NewCA has created the CA for another cluster. A CA of another
// origin may sign for any cluster.
func (ca *CA) CheckCluster(cluster string) error {
	if own, named := strings.CutPrefix(ca.cert.Subject.CommonName, namePrefix); named && own != cluster {
		return fmt.Errorf("%w, %s, and not for %s", ErrOtherCluster, own, cluster)
	}
	return nil
}

// Issue issues a certificate for a node of a cluster, with a new key. The certificate is valid for
// the given number of 24-hour days from now, but not longer than the CA. Errors wrap
// topology.ErrName or ErrDays.
func (ca *CA) Issue(node, cluster string, days int, now time.Time) (Pair, error) {
	if err := topology.CheckName(node); err != nil {
		return Pair{}, fmt.Errorf("node %w", err)
	}
	if err := topology.CheckName(cluster); err != nil {
		return Pair{}, fmt.Errorf("cluster %w", err)
	}
	if days < 1 || days > MaxDays {
		return Pair{}, fmt.Errorf("the validity %w", ErrDays)
	}
	until := now.Add(time.Duration(days) * 24 * time.Hour)
	if until.After(ca.cert.NotAfter) {
		until = ca.cert.NotAfter
	}
	name := Name(node, cluster)
	pair, err := sign(&x509.Certificate{
		Subject:               pkix.Name{CommonName: node},
		DNSNames:              []string{name},
		NotBefore:             now.Add(-skew),
		NotAfter:              until,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
	}, ca)
	if err != nil {
		return Pair{}, fmt.Errorf("create a certificate for %s: %w", name, err)
	}
	return pair, nil
}

// Serial returns the serial number of the certificate of a pair, in hexadecimal digits. It returns an
// error if the certificate cannot be parsed.
func (p Pair) Serial() (string, error) {
	block, _ := pem.Decode(p.Cert)
	if block == nil {
		return "", fmt.Errorf("read the serial number: %w", errNoPEM)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return "", fmt.Errorf("read the serial number: %w", err)
	}
	return cert.SerialNumber.Text(16), nil
}

// sign creates a key and a certificate for it, signed by ca, or self-signed if ca is
// nil. The serial number is random.
func sign(template *x509.Certificate, ca *CA) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	parent, signer := template, crypto.Signer(key)
	if ca != nil {
		parent, signer = ca.cert, ca.key
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return Pair{}, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, err
	}
	return Pair{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
	}, nil
}
