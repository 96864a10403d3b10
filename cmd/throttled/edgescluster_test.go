package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/throttledhq/throttled/internal/freeport"
)

const clusterRules = `version: 1
domain: shop
limits:
  login: {when: {path: /login}, per: ip, allow: 6 per day, algorithm: fixed, on_failure: closed}
  search: {when: {path: /search}, per: ip, allow: 6 per day, algorithm: fixed}
`

// edgeNode is a node with HTTP and gRPC servers.
type edgeNode struct {
	*process
	http httpClient
	conn *grpc.ClientConn
}

// startEdgeNodes starts a cluster of three nodes that all use the rules.
func startEdgeNodes(t *testing.T) map[*process]*edgeNode {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(clusterRules), 0o600); err != nil {
		t.Fatal(err)
	}
	ports := map[string][2]int{}
	all := startProcesses(t, []string{"n1", "n2", "n3"}, func(id string) []string {
		ports[id] = [2]int{freeport.Of(t), freeport.Of(t)}
		return []string{"--raft-insecure", "yes", "--raft-heartbeat", "2000", "--rules", file,
			"--http-port", fmt.Sprint(ports[id][0]), "--grpc-port", fmt.Sprint(ports[id][1])}
	})
	nodes := map[*process]*edgeNode{}
	for _, p := range all {
		conn, err := grpc.NewClient(fmt.Sprintf("127.0.0.1:%d", ports[p.id][1]), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		nodes[p] = &edgeNode{p, httpClient{t, fmt.Sprintf("http://127.0.0.1:%d", ports[p.id][0])}, conn}
		p.askUntil("rules_active_version:1\r", "INFO", "rules")
	}
	return nodes
}

// check sends a check request over HTTP, and returns the status, the decision and the state of the limit.
func (n *edgeNode) check(path string) string {
	n.t.Helper()
	status, header, _ := n.http.do("GET", "/check/caddy/shop", "", "X-Forwarded-For", "192.0.2.7", "X-Forwarded-Method", "GET", "X-Forwarded-Uri", path, "X-Forwarded-Host", "a")
	state, _, _ := strings.Cut(header.Get("RateLimit"), ";t=")
	return strings.TrimSpace(fmt.Sprintf("%d %s %s", status, header.Get("X-RateLimit-Decision"), state))
}

// shouldLimit sends the same request over gRPC.
func (n *edgeNode) shouldLimit(path string) string {
	n.t.Helper()
	r, err := pb.NewRateLimitServiceClient(n.conn).ShouldRateLimit(n.t.Context(), &pb.RateLimitRequest{Domain: "shop", Descriptors: []*common.RateLimitDescriptor{
		{Entries: []*common.RateLimitDescriptor_Entry{{Key: "path", Value: path}, {Key: "ip", Value: "192.0.2.7"}}},
	}})
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%v %d", r.OverallCode, r.Statuses[0].LimitRemaining)
}

// awaitReady waits until a node has a readiness in both protocols.
func (n *edgeNode) awaitReady(status int, health healthpb.HealthCheckResponse_ServingStatus) {
	t := n.t
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for end := time.After(patience); ; {
		got, _, text := n.http.do("GET", "/readyz", "")
		h, err := healthpb.NewHealthClient(n.conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
		if err == nil && got == status && h.Status == health {
			return
		}
		select {
		case <-ticker.C:
		case <-end:
			t.Fatalf("%s: readiness %d %s, health %v, %v; want %d, %v", n.id, got, text, h, err, status, health)
		}
	}
}

// TestEdges_Cluster checks that all nodes answer HTTP and gRPC requests with the same counters, and that a node that has
// lost the others answers by on_failure.
func TestEdges_Cluster(t *testing.T) {
	nodes := startEdgeNodes(t)
	all := make([]*process, 0, len(nodes))
	for p := range nodes {
		all = append(all, p)
	}
	leader, followers := leaderOf(t, all)
	remaining := 6
	for _, p := range append(followers, leader) {
		nodes[p].awaitReady(200, healthpb.HealthCheckResponse_SERVING)
		remaining--
		if got, want := nodes[p].check("/login"), fmt.Sprintf(`200 allow "login";r=%d`, remaining); got != want {
			t.Errorf("%s over HTTP: %s, want %s", p.id, got, want)
		}
		remaining--
		if got, want := nodes[p].shouldLimit("/login"), fmt.Sprintf("OK %d", remaining); got != want {
			t.Errorf("%s over gRPC: %s, want %s", p.id, got, want)
		}
	}
	leader.kill()
	followers[0].kill()
	last := nodes[followers[1]]
	last.awaitReady(503, healthpb.HealthCheckResponse_NOT_SERVING)
	for _, x := range []struct{ got, want string }{
		{last.check("/login"), "429 fail-closed"}, {last.shouldLimit("/login"), "OVER_LIMIT 0"},
		{last.check("/search"), "200 fail-open"}, {last.shouldLimit("/search"), "OK 0"},
	} {
		if x.got != x.want {
			t.Errorf("without a leader: %s, want %s", x.got, x.want)
		}
	}
	status, _, text := last.http.do("POST", "/v1/throttle", `{"key":"k","max_burst":1,"count_per_period":1,"period":60}`, "Content-Type", "application/json")
	if status != 503 || !strings.Contains(text, "no leader") {
		t.Errorf("a limit without a policy: %d %s, want 503", status, text)
	}
	_, _, text = last.http.do("GET", "/metrics", "")
	for _, want := range []string{`throttled_failure_policy_decisions_total{policy="closed"} 2`, `throttled_failure_policy_decisions_total{policy="open"} 2`} {
		if !strings.Contains(text, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
}
