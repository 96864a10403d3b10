package metrics

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/throttledhq/throttled/internal/freeport"
)

// patience is the timeout for events that must happen. Tests that pass do not reach it.
const patience = 2 * time.Minute

// rulesText has limits with several outcomes.
const rulesText = `
version: 1
domain: shop
limits:
  login: {when: {path: /login}, per: [ip], allow: 1 per 1h, on_failure: closed}
  api: {when: {path: /api/*}, allow: 1000 per 1m}
`

// node is one server process.
type node struct {
	id                       string
	client, raft, http, grpc string // addresses
	state                    string // data directory
	process                  *exec.Cmd
}

// startCluster starts three nodes with certificates and rules, and waits until all are ready.
func startCluster(t *testing.T) []*node {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "throttled")
	run(t, "go", "build", "-C", "../..", "-o", program, "./cmd/throttled")
	certs := filepath.Join(dir, "certs")
	run(t, program, "certs", "--dir", certs, "--cluster", "c1", "n1", "n2", "n3")
	rules := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(rules, []byte(rulesText), 0o600); err != nil {
		t.Fatal(err)
	}
	var nodes []*node
	var members []string
	for i := range 3 {
		address := func() string { return fmt.Sprint("127.0.0.1:", freeport.Of(t)) }
		n := &node{id: fmt.Sprint("n", i+1), client: address(), raft: address(), http: address(), grpc: address()}
		n.state = filepath.Join(dir, n.id)
		nodes = append(nodes, n)
		members = append(members, n.id+"="+n.raft)
	}
	for _, n := range nodes {
		n.start(t, program, "--rules", rules, "--bootstrap", strings.Join(members, " "),
			"--raft-tls-cert", filepath.Join(certs, n.id+".pem"), "--raft-tls-key", filepath.Join(certs, n.id+"-key.pem"), "--raft-tls-ca", filepath.Join(certs, "ca.pem"))
	}
	return nodes
}

// start starts the process of a node.
func (n *node) start(t *testing.T, program string, args ...string) {
	t.Helper()
	if err := os.Mkdir(n.state, 0o700); err != nil {
		t.Fatal(err)
	}
	n.launch(t, program, append(args, "--data-dir", n.state, "--cluster-id", "c1", "--node-id", n.id, "--raft-addr", n.raft, "--maxmemory", "64mb",
		"--cluster-port", "0", "--sentinel-port", "0")...)
}

// startSidecar starts a sidecar of a cluster, and waits until it uses a node.
func startSidecar(t *testing.T, nodes []*node) *node {
	t.Helper()
	address := func() string { return fmt.Sprint("127.0.0.1:", freeport.Of(t)) }
	n := &node{id: "sidecar", client: address(), http: address(), grpc: address(), state: t.TempDir()}
	n.launch(t, filepath.Join(filepath.Dir(nodes[0].state), "throttled"), "--upstream", nodes[0].client+","+nodes[1].client, "--upstream-timeout", "5000")
	await(t, "the sidecar uses a node", func() bool { return n.value(t, "throttled_upstream_answers") == 1 })
	return n
}

// launch starts a process that serves the addresses of a node for clients.
func (n *node) launch(t *testing.T, program string, args ...string) {
	t.Helper()
	n.process = exec.CommandContext(t.Context(), program, append(args, "--dir", n.state,
		"--port", portOf(n.client), "--http-port", portOf(n.http), "--grpc-port", portOf(n.grpc))...)
	log, err := os.Create(filepath.Join(n.state, "log"))
	if err != nil {
		t.Fatal(err)
	}
	n.process.Stdout, n.process.Stderr = log, log
	if err := n.process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = n.process.Process.Kill()
		_ = n.process.Wait() // killed
		_ = log.Close()
		if text, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("%s:\n%s", n.id, text)
		}
	})
}

func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
}

// ask sends inline commands to a node, and returns the first line of each reply.
func (n *node) ask(t *testing.T, commands ...string) (lines []string) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", n.client, patience)
	if err != nil {
		return []string{"-" + err.Error()}
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(patience)) // a connection of TCP has deadlines
	in := bufio.NewReader(conn)
	for _, c := range commands {
		// PING ends the reply, whose length depends on the command.
		if _, err := fmt.Fprintf(conn, "%s\r\nPING\r\n", c); err != nil {
			t.Fatal(err)
		}
		first := ""
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				t.Fatalf("%s: %v", c, err)
			}
			line = strings.TrimSpace(line)
			if line == "+PONG" {
				break
			}
			if first == "" {
				first = line
			}
		}
		lines = append(lines, first)
	}
	return lines
}

// call calls a method of the gRPC server of a node.
func (n *node) call(t *testing.T) {
	t.Helper()
	conn, err := grpc.NewClient(n.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
		t.Errorf("%s: %v", n.id, err)
	}
}

// scrape returns the metrics of a node, or nil if the node does not answer.
func (n *node) scrape(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+n.http+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		t.Fatalf("%s: the scrape has status %d", n.id, res.StatusCode)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(res.Body)
	if err != nil {
		t.Fatalf("%s: parse the metrics: %v", n.id, err)
	}
	return families
}

// await waits until a condition is true.
func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for end := time.After(patience); !condition(); {
		select {
		case <-ticker.C:
		case <-end:
			t.Fatalf("timeout: %s", what)
		}
	}
}

// value returns the sum of the values of a metric on a node whose labels include some labels, such as "policy=open".
func (n *node) value(t *testing.T, name string, labels ...string) (sum float64) {
	t.Helper()
	family := n.scrape(t)[name]
	for _, m := range family.GetMetric() {
		if hasLabels(m, labels) {
			sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return sum
}

func hasLabels(m *dto.Metric, labels []string) bool {
	found := 0
	for _, pair := range m.GetLabel() {
		for _, l := range labels {
			if l == pair.GetName()+"="+pair.GetValue() {
				found++
			}
		}
	}
	return found == len(labels)
}
