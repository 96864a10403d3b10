package main

import (
	"bytes"
	"context"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/throttledhq/throttled/internal/tlstest"
)

// TestRun_OptionFiles starts the program with a pipe, and with a path without a file, for each file that it reads at the
// start. The start must not block: it must fail with the exit code of wrong settings, and the error must name the option
// and the path.
func TestRun_OptionFiles(t *testing.T) {
	site := tlstest.New(t)
	pipe, missing := filepath.Join(t.TempDir(), "pipe"), filepath.Join(t.TempDir(), "missing")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	clients, secured, node := tlsArgs(site, "server", "server")
	sidecar := []string{"--upstream", "127.0.0.1:1"}
	for option, args := range map[string][]string{
		"requirepass-file": nil, "aclfile": nil, "rules": nil,
		"tls-cert-file": clients, "tls-key-file": clients, "tls-ca-cert-file": clients, "tls-revoked-file": clients,
		"upstream-password-file": sidecar, "upstream-tls-cert-file": secured, "upstream-tls-key-file": secured, "upstream-tls-ca-cert-file": secured,
		"raft-tls-cert": node, "raft-tls-key": node, "raft-tls-ca": node, "raft-tls-revoked": node,
	} {
		for path, want := range map[string]string{pipe: "is not a regular file", missing: "no such file"} {
			given := append([]string{"--port", "0", "--dir", t.TempDir(), "--" + option, path}, without(args, "--"+option)...)
			checkRefused(t, exitUsage, given, option, path, want)
		}
	}
	checkRefused(t, exitUsage, []string{pipe}, "configuration file", pipe, "is not a regular file")
}

// TestRun_UnusableCertificates starts the program with well-formed certificates that cannot be used now. The exit code must be
// that of errors after which a supervisor restarts the program: the clock may be wrong, or a renewal may be in progress.
func TestRun_UnusableCertificates(t *testing.T) {
	site, now := tlstest.New(t), time.Now()
	site.Replace("old", tlstest.IssueAt(t, site.CA, "server", now.AddDate(0, 0, -2)))
	site.Replace("early", tlstest.IssueAt(t, site.CA, "server", now.AddDate(0, 0, 2)))
	site.Replace("foreign", tlstest.IssueAt(t, tlstest.NewCA(t), "server", now))
	site.Replace("other", site.Issue("other"))
	clients, secured, node := tlsArgs(site, "server", "other")
	for option, args := range map[string][]string{"tls-cert-file": clients, "upstream-tls-cert-file": secured, "raft-tls-cert": node} {
		checkRefused(t, exitError, append([]string{"--port", "0", "--dir", t.TempDir()}, args...), option, "the key does not match the certificate")
	}
	for name, want := range map[string]string{
		"old": "expired or is not yet valid", "early": "expired or is not yet valid", "foreign": "unknown authority", "other": "wrong node",
	} {
		_, _, node := tlsArgs(site, name, name)
		checkRefused(t, exitError, append([]string{"--port", "0", "--dir", t.TempDir()}, node...), "raft-tls-cert", site.Path(name+".pem"), want)
	}
	_, _, node = tlsArgs(site, "server", "server")
	pair := site.Issue("server")
	site.Replace("server", pair)
	serial, err := pair.Serial()
	if err != nil {
		t.Fatal(err)
	}
	site.Write("revoked", []byte(serial))
	checkRefused(t, exitError, append([]string{"--port", "0", "--dir", t.TempDir(), "--raft-tls-revoked", site.Path("revoked")}, node...), "raft-tls-cert", "revoked")
}

// tlsArgs returns the arguments of a server with TLS, of a sidecar and of a node, with a certificate and a key of a site.
func tlsArgs(site *tlstest.Site, certName, keyName string) (clients, sidecar, node []string) {
	cert, key, ca := site.Path(certName+".pem"), site.Path(keyName+"-key.pem"), site.Path("ca.pem")
	clients = []string{"--tls-port", "6390", "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", ca}
	sidecar = []string{"--upstream", "127.0.0.1:1", "--upstream-tls", "yes", "--upstream-tls-cert-file", cert, "--upstream-tls-key-file", key}
	node = []string{
		"--cluster-id", "c1", "--node-id", "server", "--data-dir", "data", "--raft-addr", "127.0.0.1:1", "--bootstrap", "server=127.0.0.1:1",
		"--raft-tls-cert", cert, "--raft-tls-key", key, "--raft-tls-ca", ca,
	}
	return clients, sidecar, node
}

// without returns args without a flag and its value.
func without(args []string, flag string) (rest []string) {
	for i := 0; i < len(args); i += 2 {
		if args[i] != flag {
			rest = append(rest, args[i], args[i+1])
		}
	}
	return rest
}

// checkRefused runs the program, which must exit with the given code, and an error with all the given texts.
func checkRefused(t *testing.T, want int, args []string, texts ...string) {
	t.Helper()
	t.Chdir(t.TempDir()) // --dir changes the working directory; Chdir restores it after the test
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out, errs bytes.Buffer
	done := make(chan int, 1)
	go func() { done <- serve(ctx, args, nil, &out, &errs) }()
	select {
	case code := <-done:
		text := errorLine(errs.String())
		lacks := func(s string) bool { return !strings.Contains(text, s) }
		if code != want || slices.ContainsFunc(texts, lacks) {
			t.Errorf("%q exits with %d, want %d, and an error with %q:\n%s", args, code, want, texts, &errs)
		}
	case <-time.After(patience):
		t.Fatalf("%q does not exit: its start blocks, or it serves clients", args)
	}
}

// errorLine returns the line with the error of the program.
func errorLine(output string) (text string) {
	for line := range strings.Lines(output) {
		if strings.HasPrefix(line, "throttled: ") {
			text = line
		}
	}
	return text
}
