package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/throttledhq/throttled/topology"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newCA(t *testing.T) *CA {
	t.Helper()
	ca, err := NewCA("c1", noon)
	if err != nil {
		t.Fatalf("create a CA: %v", err)
	}
	return ca
}

// leaf returns the certificate of a pair, and checks that the key matches it.
func leaf(t *testing.T, p Pair) *x509.Certificate {
	t.Helper()
	both, err := tls.X509KeyPair(p.Cert, p.Key)
	if err != nil {
		t.Fatalf("parse a certificate and its key: %v", err)
	}
	return both.Leaf
}

func issue(t *testing.T, ca *CA, node string, days int) *x509.Certificate {
	t.Helper()
	p, err := ca.Issue(node, "c1", days, noon)
	if err != nil {
		t.Fatalf("issue a certificate: %v", err)
	}
	return leaf(t, p)
}

func TestIssue(t *testing.T) {
	cert := issue(t, newCA(t), "n1", 30)
	if want := []string{"n1.c1.throttled"}; !slices.Equal(cert.DNSNames, want) {
		t.Errorf("the DNS names are %q; want %q", cert.DNSNames, want)
	}
	if len(cert.IPAddresses)+len(cert.URIs)+len(cert.EmailAddresses) > 0 {
		t.Errorf("the certificate has the IP addresses %v, the URIs %v and the email addresses %v; want none", cert.IPAddresses, cert.URIs, cert.EmailAddresses)
	}
	if cert.KeyUsage != x509.KeyUsageDigitalSignature || cert.IsCA || !cert.BasicConstraintsValid {
		t.Errorf("the key usage is %v, IsCA is %v; want only digital signatures, no CA, and valid basic constraints", cert.KeyUsage, cert.IsCA)
	}
	if want := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}; !slices.Equal(cert.ExtKeyUsage, want) {
		t.Errorf("the extended key usages are %v; want %v", cert.ExtKeyUsage, want)
	}
	if !cert.NotBefore.Equal(noon.Add(-time.Hour)) || !cert.NotAfter.Equal(noon.Add(30*24*time.Hour)) {
		t.Errorf("the certificate is valid from %v to %v; want from an hour before %v to 30 days after it", cert.NotBefore, cert.NotAfter, noon)
	}
	if key, ok := cert.PublicKey.(*ecdsa.PublicKey); !ok || key.Curve != elliptic.P256() {
		t.Errorf("the key is %T, want ECDSA on P-256", cert.PublicKey)
	}
}

func TestIssueDiffers(t *testing.T) {
	ca := newCA(t)
	a, b := issue(t, ca, "n1", 30), issue(t, ca, "n1", 30)
	if a.SerialNumber.Cmp(b.SerialNumber) == 0 {
		t.Error("two certificates have the same serial number")
	}
	if a.PublicKey.(*ecdsa.PublicKey).Equal(b.PublicKey) {
		t.Error("two certificates have the same key")
	}
}

func TestCAItself(t *testing.T) {
	cert := leaf(t, newCA(t).Pair())
	if !cert.IsCA || !cert.MaxPathLenZero || cert.KeyUsage != x509.KeyUsageCertSign|x509.KeyUsageCRLSign {
		t.Errorf("IsCA is %v, MaxPathLenZero is %v, the key usage is %v; want true, true, and the signing of certificates and CRLs", cert.IsCA, cert.MaxPathLenZero, cert.KeyUsage)
	}
	if want := noon.AddDate(10, 0, 0); !cert.NotAfter.Equal(want) || !newCA(t).Expires().Equal(want) {
		t.Errorf("the certificate of the CA expires at %v; want %v, and the same time from Expires", cert.NotAfter, want)
	}
}

// TestIssueEndsWithCA checks that no certificate expires later than its CA, since it
// becomes invalid together with the CA.
func TestIssueEndsWithCA(t *testing.T) {
	ca := newCA(t)
	p, err := ca.Issue("n1", "c1", MaxDays, noon.AddDate(5, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	if got := leaf(t, p).NotAfter; !got.Equal(ca.Expires()) {
		t.Errorf("the certificate expires at %v; want %v, the expiry time of the CA", got, ca.Expires())
	}
}

func TestVerify(t *testing.T) {
	ca := newCA(t)
	other := newCA(t)
	cert := issue(t, ca, "n1", 30)
	for _, test := range []struct {
		name  string
		ca    *CA
		at    time.Time
		usage x509.ExtKeyUsage
		want  any // nil, an x509.InvalidReason, or an error of the wanted type
	}{
		{"as server", ca, noon, x509.ExtKeyUsageServerAuth, nil},
		{"as client", ca, noon, x509.ExtKeyUsageClientAuth, nil},
		{"for code", ca, noon, x509.ExtKeyUsageCodeSigning, x509.IncompatibleUsage},
		{"other CA of the same name", other, noon, x509.ExtKeyUsageServerAuth, x509.UnknownAuthorityError{}},
		{"clock behind", ca, noon.Add(-59 * time.Minute), x509.ExtKeyUsageServerAuth, nil},
		{"clock far behind", ca, noon.Add(-61 * time.Minute), x509.ExtKeyUsageServerAuth, x509.Expired},
		{"last day", ca, noon.Add(30*24*time.Hour - time.Second), x509.ExtKeyUsageServerAuth, nil},
		{"too late", ca, noon.Add(30*24*time.Hour + time.Second), x509.ExtKeyUsageServerAuth, x509.Expired},
	} {
		t.Run(test.name, func(t *testing.T) {
			roots := x509.NewCertPool()
			roots.AppendCertsFromPEM(test.ca.Pair().Cert)
			_, err := cert.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: test.at, KeyUsages: []x509.ExtKeyUsage{test.usage}})
			var invalid x509.CertificateInvalidError
			var unknown x509.UnknownAuthorityError
			switch want := test.want.(type) {
			case nil:
				if err != nil {
					t.Errorf("Verify returns %v; want nil", err)
				}
			case x509.InvalidReason:
				if !errors.As(err, &invalid) || invalid.Reason != want {
					t.Errorf("Verify returns %v; want an error with the reason %v", err, want)
				}
			default:
				if !errors.As(err, &unknown) {
					t.Errorf("Verify returns %v; want an error of type %T", err, want)
				}
			}
		})
	}
}

// TestNodeCannotSign checks that the certificate of a node is not accepted as a CA, neither by ParseCA nor
// by the verification of a certificate chain.
func TestNodeCannotSign(t *testing.T) {
	ca := newCA(t)
	node, err := ca.Issue("n1", "c1", 30, noon)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ParseCA(node, noon); !errors.Is(err, ErrNotCA) {
		t.Errorf("ParseCA of the certificate of a node returns %v; want %v", err, ErrNotCA)
	}
	both, err := tls.X509KeyPair(node.Cert, node.Key)
	if err != nil {
		t.Fatal(err)
	}
	rogue := &CA{pair: node, cert: both.Leaf, key: both.PrivateKey.(*ecdsa.PrivateKey)}
	forged := issue(t, rogue, "n2", 1)
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.Pair().Cert)
	between.AddCert(both.Leaf)
	if _, err := forged.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: noon}); err == nil {
		t.Error("a certificate signed by a node is valid")
	}
}

func TestIssueRefuses(t *testing.T) {
	ca := newCA(t)
	for _, test := range []struct {
		node, cluster string
		days          int
		want          error
	}{
		{"", "c1", 1, topology.ErrName},
		{"n1", "", 1, topology.ErrName},
		{"n.1", "c1", 1, topology.ErrName},
		{"*", "c1", 1, topology.ErrName},
		{"n1", "c1", 0, ErrDays},
		{"n1", "c1", -1, ErrDays},
		{"n1", "c1", MaxDays + 1, ErrDays},
	} {
		if _, err := ca.Issue(test.node, test.cluster, test.days, noon); !errors.Is(err, test.want) {
			t.Errorf("Issue(%q, %q, %d) returns %v; want %v", test.node, test.cluster, test.days, err, test.want)
		}
	}
	if _, err := NewCA("c.1", noon); !errors.Is(err, topology.ErrName) {
		t.Errorf("NewCA with an invalid name returns %v; want %v", err, topology.ErrName)
	}
}

func TestParseCARefuses(t *testing.T) {
	pair, other := newCA(t).Pair(), newCA(t).Pair()
	for _, test := range []struct {
		name string
		pair Pair
		at   time.Time
		want error
	}{
		{"nothing", Pair{}, noon, ErrNotCA},
		{"garbage", Pair{[]byte("x"), []byte("y")}, noon, ErrNotCA},
		{"key of another", Pair{pair.Cert, other.Key}, noon, ErrNotCA},
		{"expired", pair, noon.AddDate(10, 0, 1), ErrExpired},
		{"not yet", pair, noon.AddDate(0, 0, -1), ErrExpired},
	} {
		if _, err := ParseCA(test.pair, test.at); !errors.Is(err, test.want) {
			t.Errorf("%s: ParseCA returns %v; want %v", test.name, err, test.want)
		}
	}
	if _, err := ParseCA(pair, noon); err != nil {
		t.Errorf("ParseCA of a valid CA returns %v; want nil", err)
	}
}

func TestCheckCluster(t *testing.T) {
	ca := newCA(t)
	if err := ca.CheckCluster("c1"); err != nil {
		t.Errorf("the CA of c1 is refused for c1: %v", err)
	}
	for _, other := range []string{"c", "c11", "C1", ""} {
		if err := ca.CheckCluster(other); !errors.Is(err, ErrOtherCluster) {
			t.Errorf("the CA of c1 for %q: %v; want %v", other, err, ErrOtherCluster)
		}
	}
	ca.cert.Subject.CommonName = "Example Root CA"
	if err := ca.CheckCluster("c1"); err != nil {
		t.Errorf("a CA that NewCA has not created is refused: %v", err)
	}
}
