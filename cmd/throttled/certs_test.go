package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/cluster/transport"
	"github.com/throttledhq/throttled/cluster/transport/certs"
)

// makeCerts runs "throttled certs" with the given arguments.
func makeCerts(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = words("certs").run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

// mustMakeCerts runs "throttled certs", which must succeed, and returns its standard
// output.
func mustMakeCerts(t *testing.T, args ...string) string {
	t.Helper()
	code, stdout, stderr := makeCerts(t, args...)
	if code != exitOK || stderr != "" {
		t.Fatalf("certs %q exits with %d, want 0 and nothing on stderr: %s", args, code, stderr)
	}
	return stdout
}

// readFiles returns the contents of the files in a directory, by file name.
func readFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatalf("read %s: %v", dir, err)
	}
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatalf("read %s: %v", e.Name(), err)
		}
		files[e.Name()] = string(content)
	}
	return files
}

func TestCertsFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "certs")
	stdout := mustMakeCerts(t, "--dir", dir, "--cluster", "c1", "--days", "30", "n1", "n2")
	modes := map[string]fs.FileMode{
		"ca.pem": 0o644, "ca-key.pem": 0o600, "n1.pem": 0o644, "n1-key.pem": 0o600, "n2.pem": 0o644, "n2-key.pem": 0o600, "issued": 0o644,
	}
	files := readFiles(t, dir)
	if len(files) != len(modes) {
		t.Errorf("the directory has %d files, want %d", len(files), len(modes))
	}
	for name, want := range modes {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != want {
			t.Errorf("%s has mode %v, want %v", name, info.Mode(), want)
		}
		if !strings.Contains(stdout, filepath.Join(dir, name)) {
			t.Errorf("%s is not in the output %q", name, stdout)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory has mode %v (error %v), want 0700", info.Mode(), err)
	}
	for _, option := range []string{"--raft-tls-ca", "--raft-tls-cert", "--raft-tls-key", "--cluster-id c1", "--node-id n2"} {
		if !strings.Contains(stdout, option) {
			t.Errorf("%s is not in the output %q", option, stdout)
		}
	}
	for _, node := range []string{"n1", "n2"} {
		serial, err := certs.Serial(dir, node)
		if err != nil || !strings.Contains("\n"+files["issued"], "\n"+serial+" # "+node+".c1.throttled ") {
			t.Errorf("serial number %s of node %s (error %v) is not in the file of issued certificates: %q", serial, node, err, files["issued"])
		}
	}
	pair, err := tls.X509KeyPair([]byte(files["n1.pem"]), []byte(files["n1-key.pem"]))
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(pair.Leaf.NotAfter); left > 30*24*time.Hour || left < 30*24*time.Hour-time.Minute {
		t.Errorf("the certificate is valid for %v, want 30 days", left)
	}
}

// TestCertsServeNodes checks that nodes can connect to each other with the certificates
// that "throttled certs" creates. It then renews the certificate of n2, creates a certificate for
// n3, keeps the certificate of n1, and checks the connections again.
func TestCertsServeNodes(t *testing.T) {
	dir := t.TempDir()
	mustMakeCerts(t, "--dir", dir, "--cluster", "c1", "n1", "n2")
	n1 := openLink(t, dir, "n1")
	exchange(t, n1, openLink(t, dir, "n2"))
	before := readFiles(t, dir)
	stdout := mustMakeCerts(t, "--dir", dir, "--cluster", "c1", "--renew", "n2", "n3")
	after := readFiles(t, dir)
	for name, content := range before {
		renewed := strings.HasPrefix(name, "n2") || name == "issued"
		if changed := after[name] != content; changed != renewed {
			t.Errorf("%s changed: %v, want %v", name, changed, renewed)
		}
	}
	if !strings.Contains(stdout, "(existing)") {
		t.Errorf("the output does not report the existing CA: %q", stdout)
	}
	n2, n3 := openLink(t, dir, "n2"), openLink(t, dir, "n3")
	exchange(t, n1, n2)
	exchange(t, n3, n2)
	exchange(t, n2, n3)
}

// namedLink is a link with the id of its node. A link is the endpoint of a node for streams
// to and from other nodes.
type namedLink struct {
	*transport.Link
	node string
}

func openLink(t *testing.T, dir, node string) namedLink {
	t.Helper()
	cert, key := certs.Files(dir, node)
	ca, _ := certs.CAFiles(dir)
	l, err := transport.Listen(transport.Config{Cluster: "c1", Node: node, Bind: "127.0.0.1:0", CertFile: cert, KeyFile: key, CAFile: ca})
	if err != nil {
		t.Fatalf("open a link: %v", err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return namedLink{l, node}
}

// exchange sends a message from one node to another, and checks the identities that both nodes see.
func exchange(t *testing.T, from, to namedLink) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := from.Dial(ctx, to.node, to.Streams(transport.Control).Addr().String(), transport.Control)
	if err != nil {
		t.Fatal(err)
	}
	in, err := to.Streams(transport.Control).Accept()
	if err != nil {
		t.Fatal(err)
	}
	if transport.PeerOf(in) != from.node || transport.PeerOf(out) != to.node {
		t.Errorf("node %s sees the peer %q, node %s sees the peer %q; want each node to see the id of the other node", to.node, transport.PeerOf(in), from.node, transport.PeerOf(out))
	}
	if _, err := io.WriteString(out, "hello"); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(in); err != nil || string(got) != "hello" {
		t.Errorf("node %s reads %q (error %v), want hello", to.node, got, err)
	}
	_ = in.Close() // out, the other end, is closed already
}

func TestCertsUsage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	for _, test := range []struct {
		name, want string
		args       []string
	}{
		{"no arguments", "--cluster is missing", nil},
		{"no cluster", "--cluster is missing", []string{"n1"}},
		{"no node", "no node is specified", []string{"--cluster", "c1"}},
		{"dot in cluster", "invalid name", []string{"--cluster", "c.1", "n1"}},
		{"path as node", "invalid name", []string{"--cluster", "c1", "../n1"}},
		{"CA as node", "would conflict with", []string{"--cluster", "c1", "ca"}},
		{"key as node", "would conflict with", []string{"--cluster", "c1", "n1", "n1-key"}},
		{"same node twice", "given twice", []string{"--cluster", "c1", "n1", "n2", "n1"}},
		{"option as node", "invalid name", []string{"--cluster", "c1", "n1", "--", "--renew"}},
		{"no days", "must be between 1 and", []string{"--cluster", "c1", "--days", "0", "n1"}},
		{"many days", "must be between 1 and", []string{"--cluster", "c1", "--days", "100000", "n1"}},
		{"unknown option", "unknown flag --clutser, did you mean --cluster?", []string{"--clutser", "c1", "n1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, stdout, stderr := makeCerts(t, append([]string{"--dir", dir}, test.args...)...)
			if code != exitUsage || stdout != "" || !strings.Contains(stderr, test.want) {
				t.Errorf("exits with %d, stdout %q, stderr %q; want %d, no stdout, and %q in stderr", code, stdout, stderr, exitUsage, test.want)
			}
			if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("os.Stat of the directory returns %v, want fs.ErrNotExist", err)
			}
		})
	}
}

func TestCertsHelp(t *testing.T) {
	code, stdout, stderr := makeCerts(t, "--help")
	if code != exitOK || stderr != "" {
		t.Fatalf("certs --help exits with %d, want 0 and nothing on stderr: %s", code, stderr)
	}
	for _, want := range []string{"Usage: throttled certs", "--dir DIR", "--cluster NAME", "--days N", " 365 ", "--renew"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("help lacks %q:\n%s", want, stdout)
		}
	}
}

// TestCertsRefusals checks that the command fails and changes no file if the CA is
// incomplete, invalid or expired, or if a file of a node exists and --renew is not given.
func TestCertsRefusals(t *testing.T) {
	nothing := func(*testing.T, string) {}
	remove := func(name string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, test := range []struct {
		name, want string
		change     func(t *testing.T, dir string)
		args       []string
	}{
		{"certificate of the node exists", "specify --renew to replace it", nothing, []string{"n2", "n1"}},
		{"key is there", "n1-key.pem already exists", remove("n1.pem"), []string{"n1"}},
		{"key of the CA is missing", "not a CA certificate with a matching key", remove("ca-key.pem"), []string{"n2"}},
		{"certificate of the CA is missing", "not a CA certificate with a matching key", remove("ca.pem"), []string{"n2"}},
		{"certificate of a node as CA", "not a CA certificate with a matching key", useNodeAsCA, []string{"n2"}},
		{"CA of another cluster", "the CA was created for another cluster, c1, and not for c2; specify another --dir", nothing, []string{"n2", "--cluster", "c2"}},
		{"CA has expired", "expired or not valid yet", useOldCA, []string{"n2"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			mustMakeCerts(t, "--dir", dir, "--cluster", "c1", "n1")
			test.change(t, dir)
			before := readFiles(t, dir)
			code, stdout, stderr := makeCerts(t, append([]string{"--dir", dir, "--cluster", "c1"}, test.args...)...)
			if code != exitError || stdout != "" || !strings.Contains(stderr, test.want) {
				t.Errorf("exits with %d, stdout %q, stderr %q; want %d, no stdout, and %q in stderr", code, stdout, stderr, exitError, test.want)
			}
			after := readFiles(t, dir)
			if len(after) != len(before) {
				t.Errorf("the directory has %d files after the command, want %d as before it", len(after), len(before))
			}
			for name, content := range before {
				if after[name] != content {
					t.Errorf("file %s has changed, want no change", name)
				}
			}
		})
	}
}

func useNodeAsCA(t *testing.T, dir string) {
	t.Helper()
	for from, to := range map[string]string{"n1.pem": "ca.pem", "n1-key.pem": "ca-key.pem"} {
		if err := os.Rename(filepath.Join(dir, from), filepath.Join(dir, to)); err != nil {
			t.Fatal(err)
		}
	}
}

func useOldCA(t *testing.T, dir string) {
	t.Helper()
	ca, err := certs.NewCA("c1", time.Now().AddDate(-certs.CAYears, 0, -1))
	if err != nil {
		t.Fatal(err)
	}
	if err := ca.Save(dir); err != nil {
		t.Fatal(err)
	}
}

// TestCertsInterrupted checks that the command stops when its context is canceled.
func TestCertsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	dir := t.TempDir()
	if code := words("certs").run(ctx, []string{"--dir", dir, "--cluster", "c1", "n1"}, &out, &errs); code != exitError || !strings.Contains(errs.String(), "interrupted before node n1") {
		t.Errorf("with a canceled context certs exits with %d, stderr %q; want 1, and in stderr the node whose certificate was not created", code, errs.String())
	}
	if _, err := os.Stat(filepath.Join(dir, "n1.pem")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("os.Stat of n1.pem returns %v, want fs.ErrNotExist", err)
	}
}

// TestCertsDNSName checks that a certificate contains one DNS name, which is made
// of the ids of the node and its cluster.
func TestCertsDNSName(t *testing.T) {
	for _, name := range [][2]string{{"n1", "c1"}, {"other", "c2"}} {
		dir, node, cluster := t.TempDir(), name[0], name[1]
		mustMakeCerts(t, "--dir", dir, "--cluster", cluster, node)
		cert, key := certs.Files(dir, node)
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := pair.Leaf.DNSNames, certs.Name(node, cluster); len(got) != 1 || got[0] != want {
			t.Errorf("the DNS names of the certificate are %q, want only %q", got, want)
		}
		if pair.Leaf.PublicKeyAlgorithm != x509.ECDSA {
			t.Errorf("the key is %v, want ECDSA", pair.Leaf.PublicKeyAlgorithm)
		}
	}
}
