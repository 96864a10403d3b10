package gatewaystests

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/throttledhq/throttled/internal/freeport"
)

// startTrio starts the nodes of a cluster, and waits until all of them decide requests by a rules file.
func startTrio(t *testing.T, rules string) []*limiter {
	t.Helper()
	nodes := newTrio(t, rules)
	for _, n := range nodes {
		n.start(t)
	}
	for _, n := range nodes {
		n.awaitReady(t)
		n.awaitRules(t)
	}
	return nodes
}

// newTrio returns the nodes of a cluster, which have not been started.
func newTrio(t *testing.T, rules string) []*limiter {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command(program, "certs", "--dir", dir, "--cluster", "trio", "n1", "n2", "n3").CombinedOutput(); err != nil {
		t.Fatalf("certificates: %v\n%s", err, out)
	}
	var members, addresses []string
	for i := range 3 {
		addresses = append(addresses, fmt.Sprintf("127.0.0.1:%d", freeport.Of(t)))
		members = append(members, fmt.Sprintf("n%d=%s", i+1, addresses[i]))
	}
	var nodes []*limiter
	for i, address := range addresses {
		id := fmt.Sprintf("n%d", i+1)
		in := func(name string) string { return filepath.Join(dir, name) }
		nodes = append(nodes, newLimiter(t, "--rules", rules, "--data-dir", in("data-"+id), "--cluster-id", "trio", "--raft-heartbeat", "2000", "--cluster-port", "0", "--sentinel-port", "0", "--leader-port", "0",
			"--node-id", id, "--raft-addr", address, "--bootstrap", strings.Join(members, " "),
			"--raft-tls-cert", in(id+".pem"), "--raft-tls-key", in(id+"-key.pem"), "--raft-tls-ca", in("ca.pem")))
	}
	return nodes
}
