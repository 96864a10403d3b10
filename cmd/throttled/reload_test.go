package main

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/throttledhq/throttled/cluster/transport/certs"
)

// newServer starts a server as a separate process.
func newServer(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{t: t, id: "server", addr: freeAddr(t), args: args}
	_, port, _ := strings.Cut(p.addr, ":")
	p.args = append(p.args, "--port", port)
	p.start()
	return p
}

// hangUp sends SIGHUP to the process.
func (p *process) hangUp() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		p.t.Fatal(err)
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// waitFile waits until a file contains text.
func waitFile(t *testing.T, path, text string) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for end := time.After(patience); ; {
		got, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(got), text) {
			return
		}
		select {
		case <-ticker.C:
		case <-end:
			t.Fatalf("%s does not contain %q; error %v; its content:\n%s", path, text, err, got)
		}
	}
}

// TestProcess_HangUp checks that SIGHUP reopens the log file and reloads the configuration file without resetting
// limits, and that an invalid file changes nothing.
func TestProcess_HangUp(t *testing.T) {
	dir := t.TempDir()
	config, log := filepath.Join(dir, "throttled.conf"), filepath.Join(dir, "throttled.log")
	lines := "dir " + dir + "\nlogfile throttled.log\n"
	writeFile(t, config, lines+"maxclients 77\n")
	p := newServer(t, config, "--timeout", "500")
	p.askUntil("[0 2 1 ", "CL.THROTTLE", "k", "1", "1", "86400")
	p.askUntil("OK", "CONFIG", "SET", "slowlog-max-len", "55")

	waitFile(t, log, "msg=ready")

	// Rotate the log as logrotate does.
	if err := os.Rename(log, log+".1"); err != nil {
		t.Fatal(err)
	}
	writeFile(t, config, lines+"maxclients 88\ntimeout 600\nsnapshot-fallback yes\n")
	p.hangUp()
	waitFile(t, log, "msg=reloaded file="+config+" changed=[maxclients]")
	waitFile(t, log, "a restart have changed in the configuration file\" options=[snapshot-fallback]")
	p.askUntil("maxclients:88", "CONFIG", "GET", "maxclients")
	p.askUntil("timeout:500", "CONFIG", "GET", "timeout")
	p.askUntil("slowlog-max-len:55", "CONFIG", "GET", "slowlog-max-len")
	if old, err := os.ReadFile(log + ".1"); err != nil || !strings.Contains(string(old), "msg=ready") || strings.Contains(string(old), "reloaded") {
		t.Errorf("the renamed log is %s, error %v; want \"msg=ready\" in it, and no \"reloaded\"", old, err)
	}

	// An error in one line discards all changes.
	writeFile(t, config, lines+"maxclients 99\nmaxmemory lots\n")
	p.hangUp()
	waitFile(t, log, "maxmemory lots ("+config+":4)")
	p.askUntil("maxclients:88", "CONFIG", "GET", "maxclients")
	writeFile(t, config, "dir "+dir+"\nlogfile /nowhere/throttled.log\nmaxclients 99\n")
	p.hangUp()
	waitFile(t, log, config+": logfile: open logfile: open /nowhere/throttled.log")
	p.askUntil("maxclients:88", "CONFIG", "GET", "maxclients")

	p.askUntil("[0 2 0 ", "CL.THROTTLE", "k", "1", "1", "86400")
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code, _ := p.waitExit(patience); code != exitOK {
		t.Errorf("after SIGTERM the server exits with %d, want 0:\n%s", code, p.log)
	}
	waitFile(t, log, "msg=stopped")
}

// TestProcess_LogFile changes the log file by CONFIG SET, to permitted files and to files that must be refused.
func TestProcess_LogFile(t *testing.T) {
	dir := t.TempDir()
	p := newServer(t, "--dir", dir, "--protected-mode", "yes")
	p.waitLog("msg=ready")
	p.askUntil("OK", "CONFIG", "SET", "logfile", "a.log", "loglevel", "debug")
	p.askUntil("PONG", "PING")
	p.hangUp()
	waitFile(t, filepath.Join(dir, "a.log"), "msg=reloaded")
	p.refusesToSet("logfile", "/nowhere/b.log")
	p.refusesToSet("logfile", "/etc/throttled-test.log")
	writeFile(t, filepath.Join(dir, "dump.thr"), "a snapshot")
	p.refusesToSet("logfile", "dump.thr")
	p.askUntil("logfile:a.log", "CONFIG", "GET", "logfile")
	p.askUntil("OK", "CONFIG", "SET", "logfile", "b.log")
	p.hangUp()
	waitFile(t, filepath.Join(dir, "b.log"), "msg=reloaded")
	p.askUntil("OK", "CONFIG", "SET", "logfile", "")
	p.hangUp()
	p.waitLog("msg=reloaded")
	if got, err := os.ReadFile(filepath.Join(dir, "dump.thr")); string(got) != "a snapshot" || err != nil {
		t.Errorf("dump.thr contains %q, error %v; want the unchanged text", got, err)
	}
}

// refusesToSet checks that CONFIG SET fails and changes nothing.
func (p *process) refusesToSet(option, value string) {
	p.t.Helper()
	client := redis.NewClient(&redis.Options{Addr: p.addr, MaxRetries: -1, DisableIdentity: true})
	defer func() { _ = client.Close() }()
	before, err := client.ConfigGet(p.t.Context(), option).Result()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := client.ConfigSet(p.t.Context(), option, value).Err(); err == nil || !strings.Contains(err.Error(), "'"+option+"'") {
		p.t.Errorf("CONFIG SET %s %s: %v, want an error that names the option", option, value, err)
	}
	if after, err := client.ConfigGet(p.t.Context(), option).Result(); err != nil || after[option] != before[option] {
		p.t.Errorf("after a refused CONFIG SET, CONFIG GET %s returns %q, error %v; want the previous value", option, after, err)
	}
}

// TestReload_Heartbeat checks that the log names the command that changes the heartbeat of a cluster, since a restart
// does not change the heartbeat.
func TestReload_Heartbeat(t *testing.T) {
	const command = "CL.CLUSTER SET raft-heartbeat MS"
	const restart = "a restart have changed in the configuration file\" options="
	raft := freeAddr(t)
	member := []string{"--cluster-port", "0", "--sentinel-port", "0", "--data-dir", t.TempDir(), "--cluster-id", "test", "--node-id", "n1",
		"--raft-addr", raft, "--bootstrap", "n1=" + raft, "--raft-insecure", "yes"}
	for _, tt := range []struct {
		args        []string
		lines       string
		want, never string
	}{
		{member, "raft-heartbeat 500\n", command, restart},
		{member, "raft-heartbeat 500\nsnapshot-fallback yes\n", restart + "[snapshot-fallback]", restart + "[raft-heartbeat"},
		{nil, "raft-heartbeat 500\n", restart + "[raft-heartbeat]", command},
	} {
		config := filepath.Join(t.TempDir(), "throttled.conf")
		writeFile(t, config, "")
		r := start(t, append([]string{config}, tt.args...)...)
		writeFile(t, config, tt.lines)
		r.reload()
		if log := r.log.String(); !strings.Contains(log, tt.want) || strings.Contains(log, tt.never) {
			t.Errorf("with the lines %q in the file, the log lacks the wanted text, or contains the text that must be absent:\n%s", tt.lines, log)
		}
		r.stop()
		r.wait()
	}
}

// TestProcess_HangUpCertificates reloads the certificate of a node twice. The first file is invalid, and the node must
// keep its certificate. The second file is valid, and the node must use it.
func TestProcess_HangUpCertificates(t *testing.T) {
	dir := t.TempDir()
	mustMakeCerts(t, "--dir", dir, "--cluster", "test", "n1")
	cert, key := certs.Files(dir, "n1")
	ca, _ := certs.CAFiles(dir)
	raft := freeAddr(t)
	p := newServer(t, "--cluster-port", "0", "--sentinel-port", "0", "--data-dir", t.TempDir(), "--cluster-id", "test", "--node-id", "n1",
		"--raft-addr", raft, "--bootstrap", "n1="+raft, "--raft-tls-cert", cert, "--raft-tls-key", key, "--raft-tls-ca", ca)
	p.askUntil("", "CL.THROTTLE", "k", "1", "1", "86400")
	first := serialOf(t, raft)
	good, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, cert, "no certificate")
	p.hangUp()
	p.waitLog("the certificates were not reloaded")
	if serial := serialOf(t, raft); serial != first {
		t.Error("after a reload of an invalid certificate, the previous certificate is no longer in use")
	}
	writeFile(t, cert, string(good))
	mustMakeCerts(t, "--dir", dir, "--cluster", "test", "--renew", "n1")
	lines := strings.Count(p.log.String(), "msg=reloaded")
	p.hangUp()
	p.waitLogCount("msg=reloaded", lines+1)
	if serial := serialOf(t, raft); serial == first {
		t.Error("after a reload of a valid certificate, the new certificate is not in use")
	}
}

// waitLogCount waits until the log contains text the given number of times.
func (p *process) waitLogCount(text string, times int) {
	p.t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for end := time.After(patience); strings.Count(p.log.String(), text) < times; {
		select {
		case <-ticker.C:
		case <-end:
			p.t.Fatalf("the log of %s does not contain %q %d times:\n%s", p.id, text, times, p.log)
		}
	}
}

// serialOf returns the serial number of the certificate that a node presents.
func serialOf(t *testing.T, addr string) (serial string) {
	t.Helper()
	config := &tls.Config{
		InsecureSkipVerify: true, // only the serial number is read
		VerifyPeerCertificate: func(list [][]byte, _ [][]*x509.Certificate) error {
			cert, err := x509.ParseCertificate(list[0])
			if err == nil {
				serial = cert.SerialNumber.String()
			}
			return err
		},
	}
	conn, err := tls.Dial("tcp", addr, config)
	if err == nil {
		_ = conn.Close() // in TLS 1.3, Dial may succeed before the node rejects the client, which has no certificate
	}
	if serial == "" {
		t.Fatalf("%s shows no certificate: %v", addr, err)
	}
	return serial
}
