package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

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
	cert, key, ca := site.Path("server.pem"), site.Path("server-key.pem"), site.Path("ca.pem")
	clients := []string{"--tls-port", "6390", "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", ca}
	sidecar := []string{"--upstream", "127.0.0.1:1"}
	secured := append(sidecar, "--upstream-tls", "yes", "--upstream-tls-cert-file", cert, "--upstream-tls-key-file", key)
	node := []string{"--cluster-id", "c1", "--node-id", "server", "--raft-addr", "127.0.0.1:1", "--bootstrap", "server=127.0.0.1:1", "--raft-tls-cert", cert, "--raft-tls-key", key, "--raft-tls-ca", ca}
	for option, args := range map[string][]string{
		"requirepass-file": nil, "aclfile": nil, "rules": nil,
		"tls-cert-file": clients, "tls-key-file": clients, "tls-ca-cert-file": clients, "tls-revoked-file": clients,
		"upstream-password-file": sidecar, "upstream-tls-cert-file": secured, "upstream-tls-key-file": secured, "upstream-tls-ca-cert-file": secured,
		"raft-tls-cert": node, "raft-tls-key": node, "raft-tls-ca": node, "raft-tls-revoked": node,
	} {
		for path, want := range map[string]string{pipe: "is not a regular file", missing: "no such file"} {
			given := append([]string{"--port", "0", "--" + option, path}, without(args, "--"+option)...)
			if option[:4] == "raft" {
				given = append(given, "--data-dir", filepath.Join(t.TempDir(), "data"))
			}
			checkRefused(t, option, path, want, given)
		}
	}
	checkRefused(t, "configuration file", pipe, "is not a regular file", []string{pipe})
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

// checkRefused runs the program, which must exit with exitUsage, and an error with all the given texts.
func checkRefused(t *testing.T, option, path, want string, args []string) {
	t.Helper()
	var out, errs bytes.Buffer
	code, text := run(args, nil, &out, &errs), ""
	for line := range strings.Lines(errs.String()) {
		if strings.HasPrefix(line, "throttled: ") {
			text = line
		}
	}
	if code != exitUsage || !strings.Contains(text, option) || !strings.Contains(text, path) || !strings.Contains(text, want) {
		t.Errorf("%q exits with %d, want %d, and an error with %q, %s and %q:\n%s", args, code, exitUsage, option, path, want, &errs)
	}
}
