package rediscell

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/internal/freeport"
)

func TestPassword(t *testing.T) {
	const password = "p@ss/w#rd:1"
	const escaped = "p%40ss%2Fw%23rd:1"
	s := startRedis(t, password, "--requirepass", password)
	tats := s.fill("user:", 10)
	s.do("ACL", "SETUSER", "reader", "on", ">"+password, "~*", "+@read", "+time", "+info", "+scan", "+dbsize")
	for _, user := range []string{"", "default", "reader"} {
		s.url = "redis://" + user + ":" + escaped + "@" + s.addr + "/0"
		got, _ := s.run(Config{})
		got.wantTATs(t, tats, 0)
	}

	// Errors must not contain any part of the password.
	f := func(url, want string) {
		t.Helper()
		_, err := Run(context.Background(), Config{From: []string{url}}, sink{}.put)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("%s: the error is %v; want %q", url, err, want)
		}
		for _, part := range []string{"secret", "5ecret", "12345"} {
			if strings.Contains(err.Error(), part) {
				t.Errorf("%s: the error contains the password: %v", url, err)
			}
		}
	}
	f("redis://:secret@"+s.addr, "WRONGPASS")
	f("redis://nobody:secret@"+s.addr, "WRONGPASS")
	f("redis://"+s.addr, "NOAUTH")
	f("redis://:secret@127.0.0.1:1?max_retries=-1", "127.0.0.1:1: connect: connection refused")
	for _, url := range []string{
		"", "secret", "secret@host", "http://:secret@host", "redis//:secret@host", "redis://:secret@host:port",
		"redis://:secret/5ecret@host", "redis://:12345/5ecret@host", "redis://:12345?5ecret@host", "redis://user:12345#5ecret@host",
		"redis://:secret@host/5ecret", "redis://:secret@host/1/2", "redis://:secret@host?secret=1", "redis://:secret%@host",
		"redis://:secret@ho st", "\x7fredis://:secret@host",
	} {
		f(url, ErrURL.Error())
	}
}

func TestTLS(t *testing.T) {
	cert, key := selfSigned(t)
	port := strconv.Itoa(freeport.Of(t))
	s := startRedis(t, "", "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-auth-clients", "no")
	tats := s.fill("user:", 10)
	s.url = "rediss://127.0.0.1:" + port + "?skip_verify=true"
	got, _ := s.run(Config{})
	got.wantTATs(t, tats, 0)

	_, err := Run(context.Background(), Config{From: []string{"rediss://127.0.0.1:" + port + "?max_retries=-1"}}, sink{}.put)
	if err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an untrusted certificate: %v, want an error about the certificate", err)
	}
}

// selfSigned writes an untrusted certificate for 127.0.0.1.
func selfSigned(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("cert.pem", "CERTIFICATE", cert), write("key.pem", "PRIVATE KEY", private)
}

// TestCluster uses a cluster of one node, which holds all keys. An import from this node must
// succeed. An import from this node and a second source must fail.
func TestCluster(t *testing.T) {
	a := startRedis(t, "", "--cluster-enabled", "yes", "--cluster-node-timeout", "60000")
	a.do("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	waitFor(t, func() bool { return strings.Contains(a.ClusterInfo(context.Background()).Val(), "cluster_state:ok") })
	tats := a.fill("user:", 100)
	got, _ := a.run(Config{})
	got.wantTATs(t, tats, 0)

	other := startRedis(t, "")
	_, err := Run(context.Background(), Config{From: []string{a.url, other.url}}, sink{}.put)
	if !errors.Is(err, ErrPartial) || !strings.Contains(err.Error(), "(masters in the cluster: 1, URLs given: 2)") {
		t.Errorf("two sources for a cluster of one master: %v, want ErrPartial", err)
	}
}

func waitFor(t *testing.T, ready func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(2 * time.Minute)
	for !ready() {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatal("the cluster is not ready in time")
		}
	}
}

// TestRecordTime simulates replies with different delays. The fastest reply so far gives the best bound of
// the clock difference.
func TestRecordTime(t *testing.T) {
	now := uint64(0)
	s, err := dial("redis://localhost", func() uint64 { return now })
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	f := func(serverTime, received, want uint64) {
		t.Helper()
		now = received
		if got := s.recordTime(serverTime); got.source != serverTime || got.ours != want {
			t.Errorf("reply %d received at %d: %+v; want the limiter time %d", serverTime, received, got, want)
		}
	}
	f(1000, 5100, 5100) // the local clock is at most 4100 ahead
	f(2000, 6500, 6100) // no better bound: this reply took longer
	f(3000, 7005, 7005) // the local clock is at most 4005 ahead
	f(4000, 8050, 8005)
}

func TestInfoField(t *testing.T) {
	f := func(info, field, want string) {
		t.Helper()
		if got := infoField(info, field); got != want {
			t.Errorf("%q in %q is %q; want %q", field, info, got, want)
		}
	}
	f("# Cluster\r\ncluster_enabled:1\r\n", "cluster_enabled", "1")
	f("cluster_state:ok\r\ncluster_size:3", "cluster_size", "3")
	f("cluster_enabled:1\r\n", "enabled", "")
	f("", "cluster_enabled", "")
}
