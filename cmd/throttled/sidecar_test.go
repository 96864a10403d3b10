package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/throttledhq/throttled/internal/freeport"
	"github.com/throttledhq/throttled/internal/tlstest"
)

// newSidecarOf starts a sidecar of servers, with a timeout that a busy machine does not exceed.
func newSidecarOf(t *testing.T, upstreams []*process, args ...string) *process {
	t.Helper()
	var addrs []string
	for _, p := range upstreams {
		addrs = append(addrs, p.addr)
	}
	side := newServer(t, append([]string{"--upstream", strings.Join(addrs, ","), "--upstream-timeout", "500"}, args...)...)
	side.id = "sidecar"
	side.askUntil("upstream_link_status:up", "INFO", "sidecar")
	return side
}

// TestProcess_Sidecar kills, restarts and pauses the upstream of a sidecar. Meanwhile upstream-away must apply, and
// afterwards the upstream must decide again.
func TestProcess_Sidecar(t *testing.T) {
	up := newServer(t)
	side := newSidecarOf(t, []*process{up}, "--upstream-away", "closed", "--upstream-leases", "off")
	side.askUntil("[0 3 2 -1 ", "CL.THROTTLE", "k", 2, 1, 3600)
	up.askUntil("1", "EXISTS", "k")

	up.kill()
	side.askUntil("[1 3 0 1 1]", "CL.THROTTLE", "k", 2, 1, 3600)
	side.askUntil("upstream_link_status:down", "INFO", "sidecar")
	if _, err := side.do("TTL", "k"); err == nil || !strings.HasPrefix(err.Error(), "LOADING the upstream server does not answer") {
		t.Errorf("TTL without the upstream: got error %v, want LOADING", err)
	}
	up.start()
	side.askUntil("[0 3 3 -1 0]", "CL.THROTTLE", "k", 2, 1, 3600, 0) // a peek, since the upstream has no snapshot
	side.askUntil("[0 3 1 -1 7", "CL.THROTTLE", "used", 2, 1, 3600, 2)

	up.signal(syscall.SIGSTOP)
	side.mustDo("CONFIG", "SET", "upstream-away", "open")
	side.askUntil("[0 3 2 -1 0]", "CL.THROTTLE", "k", 2, 1, 3600)
	side.askUntil("upstream_away_open:", "INFO", "sidecar")
	up.signal(syscall.SIGCONT)
	side.askUntil("[0 3 1 -1 7", "CL.THROTTLE", "used", 2, 1, 3600, 0) // only the upstream knows the used units
	side.waitLog("the upstream was lost")
}

// TestProcess_SidecarOfCluster kills two leaders of a cluster of three. The sidecar must use the next leader, and limits must be
// enforced.
func TestProcess_SidecarOfCluster(t *testing.T) {
	all := newProcesses(t, []string{"n1", "n2", "n3"}, "--raft-heartbeat", "2000") // avoids elections on a busy machine
	leader, _ := leaderOf(t, all)
	side := newSidecarOf(t, all, "--http-port", "0")
	side.askUntil("upstream_address:"+leader.addr, "INFO", "sidecar")
	side.askUntil("[0 ", "CL.THROTTLE", "k", 2, 1, 36000)
	side.askUntil("[0 ", "CL.THROTTLE", "k", 2, 1, 36000)
	leader.kill()
	// The charges are committed, so at most one more request is admitted. While there is no leader, the request is refused
	// with a retry time of one second; the refusals of the limit have a longer one.
	side.askUntil("[1 3 0 3", "CL.THROTTLE", "k", 2, 1, 36000)
	leader.start()
	next, _ := leaderOf(t, all)
	side.askUntil("upstream_address:"+next.addr, "INFO", "sidecar")
	next.kill()
	side.askUntil("[1 3 0 3", "CL.THROTTLE", "k", 2, 1, 36000)
}

// TestProcess_SidecarOverTLS authenticates a sidecar by a client certificate and as a user, and decides requests over HTTP.
func TestProcess_SidecarOverTLS(t *testing.T) {
	site := tlstest.New(t)
	site.Replace("app", site.Issue("app"))
	port := freeport.Of(t)
	file := filepath.Join(t.TempDir(), "rules.yaml")
	writeFile(t, file, "version: 1\ndomain: shop\nlimits:\n  login: {per: [ip], allow: 1 per 1h}\n")
	up := newServer(t, append(site.Args("yes"), "--tls-port", fmt.Sprint(port), "--rules", file)...)
	up.askUntil("OK", "ACL", "SETUSER", "app", "on", ">secret", "~*", "+@all", "alldomains")
	password := filepath.Join(t.TempDir(), "password")
	writeFile(t, password, "secret\n")
	http := freeport.Of(t)
	tlsUp := &process{t: t, addr: fmt.Sprint("127.0.0.1:", port)}
	side := newSidecarOf(t, []*process{tlsUp}, "--upstream-user", "app", "--upstream-password-file", password, "--http-port", fmt.Sprint(http),
		"--upstream-tls", "yes", "--upstream-tls-ca-cert-file", site.Path("ca.pem"), "--upstream-tls-cert-file", site.Path("app.pem"),
		"--upstream-tls-key-file", site.Path("app-key.pem"), "--upstream-tls-server-name", tlstest.ServerName)
	side.askUntil("limited:0", "CL.CHECK", "shop", "ip", "1")
	side.askUntil("limited:1", "CL.CHECK", "shop", "ip", "1")
	client := httpClient{t, fmt.Sprint("http://127.0.0.1:", http)}
	for _, want := range []string{`"allowed":true`, `"allowed":false`} {
		status, _, text := client.do("POST", "/v1/check", `{"domain":"shop","attributes":{"ip":"2"}}`, "Content-Type", "application/json")
		if !strings.Contains(strings.ReplaceAll(text, " ", ""), want) {
			t.Errorf("POST /v1/check: got %d %s, want %s", status, text, want)
		}
	}
	if status, _, text := client.do("GET", "/readyz", ""); status != 200 {
		t.Errorf("GET /readyz: got %d %s, want 200", status, text)
	}
}

// TestProcess_SidecarOptions starts sidecars with options that exclude each other, or with files that are missing.
func TestProcess_SidecarOptions(t *testing.T) {
	for args, want := range map[string]string{
		"--upstream 127.0.0.1:1 --data-dir x":               "upstream and data-dir exclude each other",
		"--upstream nowhere":                                "host:port",
		"--upstream 127.0.0.1:1 --upstream-password-file x": "upstream-password-file",
		"--upstream-tls yes":                                "upstream-tls requires upstream",
		"--upstream 127.0.0.1:1 --maxmemory 1gb":            "upstream and maxmemory exclude each other",
	} {
		p := &process{t: t, id: "sidecar", addr: freeAddr(t), args: append(strings.Fields(args), "--port", "0", "--dir", t.TempDir())}
		p.start()
		if code, _ := p.waitExit(patience); code != exitUsage || !strings.Contains(p.log.String(), want) {
			t.Errorf("%s: exits with %d, want %d and %q:\n%s", args, code, exitUsage, want, p.log)
		}
	}
	side := newServer(t, "--upstream", "127.0.0.1:1")
	for _, pair := range [][2]string{{"maxmemory", "10mb"}, {"maxmemory-policy", "evict-smallest-debt"}, {"save", "1 1"}} {
		side.askUntil("upstream_link_status:down", "INFO", "sidecar")
		if _, err := side.do("CONFIG", "SET", pair[0], pair[1]); err == nil || !strings.Contains(err.Error(), "a sidecar holds no state, set "+pair[0]+" on 127.0.0.1:1") {
			t.Errorf("CONFIG SET %s: got error %v, want that of a sidecar", pair[0], err)
		}
	}
	side.mustDo("CONFIG", "SET", "maxclients", "100", "window-log-max-entries", "10")
	server := newServer(t)
	server.askUntil("PONG", "PING")
	if _, err := server.do("CONFIG", "SET", "upstream-away", "open"); err == nil || !strings.Contains(err.Error(), "upstream-away requires upstream") {
		t.Errorf("CONFIG SET upstream-away without upstream: got error %v, want that it requires upstream", err)
	}
	if _, err := os.Stat(filepath.Join(side.dir, "dump.thr")); err == nil {
		t.Error("the sidecar has written a snapshot")
	}
}
