package main

import (
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/throttledhq/throttled/internal/testserve"
)

// executes runs a command of the program, and checks its exit code and a text in its output, which includes the errors.
func executes(t *testing.T, code int, want string, args ...string) {
	t.Helper()
	var out bytes.Buffer
	if got := run(args, nil, &out, &out); got != code || !strings.Contains(out.String(), want) {
		t.Errorf("%q exits with %d and prints %q; want %d and %q", args, got, &out, code, want)
	}
}

func TestHealth(t *testing.T) {
	r := start(t)
	executes(t, exitOK, "ready", "health", "--addr", r.addr)
	port := portOf(r.addr)
	config := filepath.Join(t.TempDir(), "throttled.conf")
	writeFile(t, config, "bind *\nport "+port+"\n")
	executes(t, exitOK, "ready", "health", "--config", config)
	t.Setenv("THROTTLED_PORT", port)
	executes(t, exitOK, "ready", "health")
}

func TestHealth_Password(t *testing.T) {
	r := start(t, "--requirepass", "secret")
	file := filepath.Join(t.TempDir(), "password")
	writeFile(t, file, "secret\n")
	executes(t, exitError, "requires a password", "health", "--addr", r.addr)
	executes(t, exitOK, "ready", "health", "--addr", r.addr, "--password-file", file)
	t.Setenv("THROTTLED_REQUIREPASS", "wrong")
	executes(t, exitError, "WRONGPASS", "health", "--addr", r.addr)
	t.Setenv("THROTTLED_REQUIREPASS", "secret")
	executes(t, exitOK, "ready", "health", "--addr", r.addr)
	t.Setenv("THROTTLED_REQUIREPASS", "")
	t.Setenv("THROTTLED_REQUIREPASS_FILE", file)
	executes(t, exitOK, "ready", "health", "--addr", r.addr)
}

// TestHealth_Unreachable checks servers that refuse connections, that do not answer, and that are not throttled.
func TestHealth_Unreachable(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	executes(t, exitError, "does not answer in time", "health", "--addr", silent.Addr().String(), "--timeout", "50ms")
	executes(t, exitError, "refused", "health", "--addr", freeAddr(t))
	if err := readiness("redis_version:7.0.15\r\n"); err == nil || !strings.Contains(err.Error(), "not throttled") {
		t.Errorf("INFO of Redis: error %v, want one that the server is not throttled", err)
	}
}

// TestProcess_HealthCluster checks a node of a cluster that has no leader, and then has one.
func TestProcess_HealthCluster(t *testing.T) {
	all := newProcesses(t, []string{"n1", "n2", "n3"}, "--raft-heartbeat", "1000")
	for _, p := range all {
		p.askUntil("ready:1", "INFO", "server")
		executes(t, exitOK, "ready", "health", "--addr", p.addr)
	}
	all[0].kill()
	all[1].kill()
	all[2].askUntil("ready:0", "INFO", "server")
	executes(t, exitError, "throttled health: the cluster has no leader\n", "health", "--addr", all[2].addr)
}

func TestHealth_Usage(t *testing.T) {
	executes(t, exitOK, "--addr HOST:PORT", "health", "--help")
	executes(t, exitUsage, "wrong number of arguments", "health", "x")
	executes(t, exitUsage, "--timeout", "health", "--timeout", "0s")
	executes(t, exitUsage, "throttled health --help", "health", "--adr", "x")
	executes(t, exitUsage, errClientTLS.Error(), "health", "--cacert", "x")
	executes(t, exitUsage, errClientTLS.Error(), "health", "--tls", "--cert", "x")
	executes(t, exitUsage, `--addr must be HOST:PORT, not "localhost"`, "health", "--addr", "localhost")
	executes(t, exitUsage, `--from must be HOST:PORT, not "localhost:"`, "backup", "--out", "x", "--from", "localhost:")
	executes(t, exitUsage, errClientTLS.Error(), "health", "--sni", "x")
	executes(t, exitError, "--password-file: open /nowhere", "health", "--password-file", "/nowhere")
	executes(t, exitError, "/nowhere", "health", "--config", "/nowhere")
}

// terminateTLS listens with TLS in front of a server, and returns its address and the file with the certificate of its CA.
func terminateTLS(t *testing.T, addr string) (front, ca string) {
	t.Helper()
	pair := httptest.NewTLSServer(nil) // has a certificate for 127.0.0.1
	pair.Close()
	ca = filepath.Join(t.TempDir(), "ca.pem")
	writeFile(t, ca, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate().Raw})))
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: pair.TLS.Certificates, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	return testserve.Each(t, ln, func(c net.Conn) { relay(c, addr) }), ca
}

// relay copies the bytes of a connection to a server, and its replies.
func relay(c net.Conn, addr string) {
	defer func() { _ = c.Close() }()
	to, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	go func() { _, _ = io.Copy(c, to) }()
	_, _ = io.Copy(to, c)
}

// TestHealth_FailedConnection checks that a connection that fails is not repeated until the timeout.
func TestHealth_FailedConnection(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan int)
	go func() {
		n := 0
		for c, err := ln.Accept(); err == nil; c, err = ln.Accept() {
			n++
			_ = c.Close()
		}
		accepted <- n
	}()
	executes(t, exitError, ln.Addr().String()+": the server has closed the connection: if the port is not one for Redis clients", "health", "--addr", ln.Addr().String(), "--tls", "--timeout", "1m")
	_ = ln.Close()
	if n := <-accepted; n > 2 { // go-redis opens a second one to find out whether the server is back
		t.Errorf("%d connections, want 1 or 2", n)
	}
}

func TestHealth_TLS(t *testing.T) {
	r := start(t)
	addr, ca := terminateTLS(t, r.addr)
	executes(t, exitOK, "ready", "health", "--addr", addr, "--tls", "--cacert", ca)
	executes(t, exitError, "certificate", "health", "--addr", addr, "--tls")
	port := portOf(addr)
	executes(t, exitError, "certificate", "health", "--addr", "localhost:"+port, "--tls", "--cacert", ca)
	executes(t, exitOK, "ready", "health", "--addr", "localhost:"+port, "--tls", "--cacert", ca, "--sni", "127.0.0.1")
	executes(t, exitError, "other.example", "health", "--addr", addr, "--tls", "--cacert", ca, "--sni", "other.example")
	executes(t, exitError, addr+": the server has closed the connection: if the port is one for TLS, specify --tls", "health", "--addr", addr)
	executes(t, exitError, r.addr+": the port is not one for TLS: omit --tls", "health", "--addr", r.addr, "--tls", "--cacert", ca)
	out := filepath.Join(t.TempDir(), "backup.thr")
	executes(t, exitError, "read the backup: the server has closed the connection: if the port is one for TLS", "backup", "--out", out, "--from", addr)
	executes(t, exitError, "read the rules: the port is not one for TLS", "backup", "--out", out, "--rules-out", out+".yaml", "--from", r.addr, "--tls")
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	executes(t, exitError, "no certificate in PEM format", "health", "--addr", addr, "--tls", "--cacert", empty)

	// The port of the configuration, for a server without a plain port.
	config := filepath.Join(t.TempDir(), "throttled.conf")
	writeFile(t, config, "port 0\ntls-port "+port+"\ntls-cert-file a\ntls-key-file b\ntls-auth-clients no\n")
	executes(t, exitOK, "ready", "health", "--config", config, "--tls", "--cacert", ca)
	executes(t, exitError, errTLSOnly.Error(), "health", "--config", config)
}
