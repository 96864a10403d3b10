package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/throttledhq/throttled/internal/freeport"
)

// httpClient sends requests to the HTTP server of a program.
type httpClient struct {
	t    *testing.T
	base string
}

func (c httpClient) do(method, path, body string, headers ...string) (status int, header http.Header, text string) {
	c.t.Helper()
	req, err := http.NewRequest(method, c.base+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	req.Close = true // the server does not check the password of further requests on a connection
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	b, err := io.ReadAll(response.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return response.StatusCode, response.Header, string(b)
}

const edgeRules = `version: 1
domain: shop
limits:
  login:
    when: {path: /login}
    per: [ip]
    allow: 2 per hour
    algorithm: fixed
`

// startEdges starts a program with rules and an HTTP port.
func startEdges(t *testing.T, args ...string) (*running, httpClient) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(edgeRules), 0o600); err != nil {
		t.Fatal(err)
	}
	port := freeport.Of(t)
	r := start(t, append([]string{"--rules", file, "--http-port", fmt.Sprint(port)}, args...)...)
	return r, httpClient{t, fmt.Sprintf("http://127.0.0.1:%d", port)}
}

// The HTTP server charges the same counters as commands of Redis clients.
func TestHTTP(t *testing.T) {
	r, c := startEdges(t)
	if status, _, text := c.do("GET", "/readyz", ""); status != 200 {
		t.Errorf("readiness: %d, %s", status, text)
	}
	executes(t, exitError, "the port is one for HTTP: specify the address of port", "health", "--addr", strings.TrimPrefix(c.base, "http://"))
	headers := []string{"X-Forwarded-Method", "POST", "X-Forwarded-Uri", "/./login", "X-Forwarded-Host", "shop.example", "X-Forwarded-For", "192.0.2.7"}
	if status, header, text := c.do("GET", "/check/traefik/shop", "", headers...); status != 200 || header.Get("X-RateLimit-Remaining") != "1" {
		t.Errorf("first check: %d, %v, %s", status, header, text)
	}
	if got := r.ask("CL.CHECK shop path /login ip 192.0.2.7"); !strings.HasPrefix(got, "*9\r\n:0\r\n:2\r\n:0\r\n") {
		t.Errorf("CL.CHECK: %q, want an admitted request with nothing remaining", got)
	}
	if status, header, text := c.do("GET", "/check/traefik/shop", "", headers...); status != 429 || header.Get("Retry-After") == "" || !strings.Contains(text, "rate_limited") {
		t.Errorf("third check: %d, %v, %s", status, header, text)
	}
	for _, want := range []string{
		`throttled_decisions_total{domain="shop",limit="login",outcome="admitted"} 2`, `throttled_decisions_total{domain="shop",limit="login",outcome="refused"} 1`,
		`throttled_http_requests_total{code="429",endpoint="/check/traefik"} 1`, "throttled_leader 1",
	} {
		if status, _, text := c.do("GET", "/metrics", ""); status != 200 || !strings.Contains(text, want) {
			t.Errorf("metrics: %d, without %s:\n%s", status, want, text)
		}
	}
	if status, _, text := c.do("GET", "/v1/rules", ""); status != 200 || !strings.Contains(text, `"text":"version: 1\ndomain: shop\n`) {
		t.Errorf("rules: %d, %q", status, text)
	}
	if status, _, text := c.do("POST", "/v1/throttle", `{"key":"user:1","max_burst":15,"count_per_period":30,"period":60}`, "Content-Type", "application/json"); status != 200 || !strings.Contains(text, `"remaining":15`) {
		t.Errorf("throttle: %d, %s", status, text)
	}
	r.wants("*5\r\n:0\r\n:16\r\n:14\r\n:-1\r\n:4\r\n", "CL.THROTTLE user:1 15 30 60")
}

func TestHTTP_Password(t *testing.T) {
	_, c := startEdges(t, "--requirepass", "secret", "--auth-failures-per-minute", "1")
	if status, _, _ := c.do("GET", "/v1/rules", ""); status != 401 {
		t.Errorf("without a password: %d, want 401", status)
	}
	if status, _, _ := c.do("GET", "/v1/rules", "", "Authorization", "Bearer secret"); status != 200 {
		t.Errorf("with the password: %d, want 200", status)
	}
	if status, _, _ := c.do("GET", "/v1/rules", "", "Authorization", "Bearer guess"); status != 401 {
		t.Errorf("with a wrong password: %d, want 401", status)
	}
	if status, header, text := c.do("GET", "/v1/rules", "", "Authorization", "Bearer secret"); status != 429 || header.Get("Retry-After") == "" {
		t.Errorf("after too many failures: %d, %v, %s", status, header, text)
	}
}

func TestEdges_InvalidOption(t *testing.T) {
	for _, option := range []string{"--http-port", "--grpc-port", "--tcp-keepalive"} { // the value is checked even if both ports are off
		var out, errs strings.Builder
		args := []string{"--port", "0", option, fmt.Sprint(freeport.Of(t)), "--edge-attributes", "user=heder:X-User"}
		if got := run(args, nil, &out, &errs); got != exitUsage || !strings.Contains(errs.String(), `option edge-attributes: "user=heder:X-User"`) {
			t.Errorf("%s: exit code %d, errors %s", option, got, errs.String())
		}
	}
}

// The error of a port that is in use names the option, also if two options have the same port.
func TestEdges_PortInUse(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	_, used, _ := net.SplitHostPort(ln.Addr().String())
	same := fmt.Sprint(freeport.Of(t))
	for _, c := range []struct {
		option string
		args   []string
	}{
		{"port", []string{"--port", used}},
		{"http-port", []string{"--port", "0", "--http-port", used}},
		{"grpc-port", []string{"--port", "0", "--grpc-port", used}},
		{"http-port", []string{"--port", same, "--http-port", same}},
		{"grpc-port", []string{"--port", "0", "--http-port", same, "--grpc-port", same}},
	} {
		var out, errs strings.Builder
		if got := run(c.args, nil, &out, &errs); got != exitError || !strings.Contains(errs.String(), "option "+c.option+": listen tcp ") {
			t.Errorf("%v: exit code %d, errors %s; want those of option %s", c.args, got, errs.String(), c.option)
		}
	}
}

func TestHTTP_Metrics(t *testing.T) {
	r, c := startEdges(t)
	r.ask("CL.CHECK shop path /login ip ::1", "CL.THROTTLE k 1 1 60")
	c.do("GET", "/nothing", "")
	status, _, text := c.do("GET", "/metrics", "")
	if status != 200 {
		t.Errorf("status %d, want 200", status)
	}
	for _, want := range []string{
		`throttled_decisions_total{domain="shop",limit="login",outcome="admitted"} 1`,
		`throttled_decisions_total{domain="",limit="cl.throttle",outcome="admitted"} 1`,
		`throttled_http_requests_total{code="404",endpoint="none"} 1`, "throttled_leader 1",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the metrics do not have %s", want)
		}
	}
}

func TestGRPC(t *testing.T) {
	port := freeport.Of(t)
	_, _ = startEdges(t, "--grpc-port", fmt.Sprint(port))
	conn, err := grpc.NewClient(fmt.Sprintf("127.0.0.1:%d", port), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	request := &pb.RateLimitRequest{Domain: "shop", Descriptors: []*common.RateLimitDescriptor{{Entries: []*common.RateLimitDescriptor_Entry{
		{Key: "path", Value: "/login"}, {Key: "ip", Value: "192.0.2.7"},
	}}}}
	for i, want := range []pb.RateLimitResponse_Code{pb.RateLimitResponse_OK, pb.RateLimitResponse_OK, pb.RateLimitResponse_OVER_LIMIT} {
		got, err := pb.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), request)
		if err != nil || got.OverallCode != want {
			t.Errorf("request %d: %v, %v, want %v", i, got, err, want)
		}
	}
	if got, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil || got.Status != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("health: %v, %v", got, err)
	}
}
