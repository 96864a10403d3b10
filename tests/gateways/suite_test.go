package gatewaystests

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// allowed is the number of requests to /login that the rules of the examples admit.
const allowed = 5

// test tests a gateway.
func (g gateway) test(t *testing.T) {
	t.Run("decisions", g.testDecisions)
	t.Run("password", g.testPassword)
	t.Run("limiter down", g.testDown)
	t.Run("limiter down, fail closed", g.testDownClosed)
	t.Run("limiter slow", g.testSlow)
	t.Run("no leader", g.testNoLeader)
}

// testDecisions tests a gateway whose limiter answers.
func (g gateway) testDecisions(t *testing.T) {
	s := g.play(t, []*limiter{startLimiter(t, g.example)}, nil, patient)
	t.Run("limits", s.testLimits)
	t.Run("concurrent", s.testConcurrent)
	t.Run("paths", s.testPaths)
	t.Run("spoofed headers", s.testSpoofed)
	t.Run("query", s.testQuery)
	t.Run("body", s.testBody)
	t.Run("keep-alive", s.testKeepAlive)
	s.checkDecided(t)
}

// testLimits sends more requests than the limit: the first ones reach the application, and all have the headers.
func (s *scene) testLimits(t *testing.T) {
	s.application.take()
	c := s.newClient()
	for i := range allowed {
		r := c.get(t, "/login")
		if r.status != http.StatusOK || r.body != "hello\n" {
			t.Fatalf("request %d: got %d %q, want the response of the application", i+1, r.status, r.body)
		}
		if !s.hidden {
			s.checkHeaders(t, r, allowed-1-i)
		}
	}
	for range 3 {
		r := c.get(t, "/login")
		if r.status != http.StatusTooManyRequests {
			t.Fatalf("got %d above the limit, want 429", r.status)
		}
		s.checkHeaders(t, r, 0)
		wait, err := strconv.Atoi(r.header.Get("Retry-After"))
		if err != nil || wait < 1 || wait > 720 { // the limit restores a request in 12 minutes
			t.Errorf("Retry-After: got %q, want 1 to 720", r.header.Get("Retry-After"))
		}
	}
	if got := len(s.application.take()); got != allowed {
		t.Errorf("%d requests have reached the application, want %d", got, allowed)
	}
	if r := c.get(t, "/other"); r.status != http.StatusOK {
		t.Errorf("another path: got %d, want 200", r.status)
	}
	if r := s.newClient().get(t, "/login"); r.status != http.StatusOK {
		t.Errorf("another client: got %d, want 200", r.status)
	}
}

// checkHeaders checks the headers of a response to a request to /login.
func (s *scene) checkHeaders(t *testing.T, r reply, remaining int) {
	t.Helper()
	limit := "^5$"
	if s.dialect {
		limit = `^5, .*\b5;w=3600;name="login"`
	}
	for name, pattern := range map[string]string{
		"RateLimit-Policy":      `(^|,\s*)"login";q=5;w=3600($|,)`,
		"RateLimit":             fmt.Sprintf(`^"login";r=%d;t=\d+$`, remaining),
		"X-RateLimit-Limit":     limit,
		"X-RateLimit-Remaining": fmt.Sprintf("^%d$", remaining),
		"X-RateLimit-Reset":     `^\d{1,4}$`,
	} {
		if got := r.header.Get(name); !regexp.MustCompile(pattern).MatchString(got) {
			t.Errorf("%s: got %q in a response %d, want a match of %s", name, got, r.status, pattern)
		}
	}
}

// testConcurrent sends many requests at the same time: exactly the limit is admitted.
func (s *scene) testConcurrent(t *testing.T) {
	const requests = 40
	c := s.newClient()
	var group sync.WaitGroup
	statuses := make(chan int, requests)
	for range requests {
		group.Go(func() {
			r, err := c.try(http.MethodGet, "/login", "")
			if err != nil {
				t.Error(err)
			}
			statuses <- r.status
		})
	}
	group.Wait()
	close(statuses)
	count := map[int]int{}
	for status := range statuses {
		count[status]++
	}
	if count[http.StatusOK] != allowed || count[http.StatusTooManyRequests] != requests-allowed {
		t.Errorf("got %v, want %d admitted and the others refused", count, allowed)
	}
}

// exhaust returns a client that has used up the limit of /login.
func (s *scene) exhaust(t *testing.T) *client {
	t.Helper()
	c := s.newClient()
	for i := range allowed {
		if r := c.get(t, "/login"); r.status != http.StatusOK {
			t.Fatalf("request %d: got %d, want 200", i+1, r.status)
		}
	}
	return c
}

// testPaths sends other spellings of a path that is used up.
func (s *scene) testPaths(t *testing.T) {
	c := s.exhaust(t)
	s.application.take()
	for _, target := range []string{
		"/login", "//login", "///login", "/%6cogin", "/%6C%6F%67%69%6E", "/./login", "/x/../login", "/x/%2e%2e/login", "/login;x",
		"/login/", "/login/.", "/../login", "/x/../../login", "/../../other/login/../../login", "/login?x=/other", "/login?domain=other&cost=0", "/login#/other", "http://site.example/login", "/%2Flogin", "/x%2F..%2Flogin",
	} {
		if r := c.get(t, target); !refused(r) {
			t.Errorf("%s: got %d, want 429 or 400", target, r.status)
		}
	}
	for _, r := range s.application.take() {
		t.Errorf("%s has reached the application", r.target)
	}
}

// spoofed are header lines of a client that claim another client or path, or a decision.
func spoofed(victim string) []string {
	return []string{
		"X-Forwarded-For: " + victim, "X-Forwarded-For: " + victim + ", 127.0.0.1", "Forwarded: for=" + victim,
		"X-Real-IP: " + victim, "X-Client-IP: " + victim, "True-Client-IP: " + victim, "X-Envoy-External-Address: " + victim,
		"X-Original-URI: /other", "X-Original-URL: /other", "X-Original-Method: OPTIONS", "X-Rewrite-URL: /other", "X-Envoy-Original-Path: /other",
		"X-Forwarded-Uri: /other", "X-Forwarded-Method: OPTIONS", "X-Forwarded-Host: other.example", "X-Forwarded-Prefix: /other",
		"X-Throttled-Token: wrong", "Authorization: Bearer wrong", "X-RateLimit-Decision: allow", "X-RateLimit-Limit: 1000", "RateLimit: \"login\";r=9;t=1",
		"Connection: X-Forwarded-For, X-Forwarded-Uri, X-Original-URI, X-Original-Method", "X-HTTP-Method-Override: PUT",
	}
}

// refused reports whether the limiter has refused a request, or the gateway considers it malformed.
func refused(r reply) bool {
	return r.status == http.StatusTooManyRequests || r.status == http.StatusBadRequest
}

// testSpoofed sends headers that only the gateway may set: they neither avoid the limit nor charge another client.
func (s *scene) testSpoofed(t *testing.T) {
	c, victim := s.exhaust(t), s.newClient()
	s.application.take()
	for _, line := range spoofed(victim.address) {
		if r := c.get(t, "/login", line); !refused(r) {
			t.Errorf("%s: got %d, want 429 or 400", line, r.status)
		}
	}
	if r := c.get(t, "/login", spoofed(victim.address)...); !refused(r) {
		t.Errorf("all headers: got %d, want 429 or 400", r.status)
	}
	for _, r := range s.application.take() {
		t.Errorf("%s has reached the application with %v", r.target, r.header)
	}
	for i := range allowed {
		if r := victim.get(t, "/login"); r.status != http.StatusOK {
			t.Errorf("request %d of the client whose address was claimed: got %d, want 200", i+1, r.status)
		}
	}
}

// testQuery sends parameters that would select a domain or a cost: each request has the cost 1.
func (s *scene) testQuery(t *testing.T) {
	c := s.newClient()
	for i := range allowed + 1 {
		want := http.StatusOK
		if i == allowed {
			want = http.StatusTooManyRequests
		}
		target := fmt.Sprintf("/login?domain=other&cost=%d&rule=none&dry_run=1&peek=1", i*2)
		if r := c.get(t, target, "X-Throttled-Cost: 100", "X-Throttled-Domain: other"); r.status != want {
			t.Errorf("request %d: got %d, want %d", i+1, r.status, want)
		}
	}
}

// testBody sends a request with a body: the application gets it unchanged.
func (s *scene) testBody(t *testing.T) {
	s.application.take()
	body := strings.Repeat("0123456789abcdef", 8<<10)
	if r := s.newClient().send(t, http.MethodPost, "/upload?a=b%20c", body); r.status != http.StatusOK {
		t.Fatalf("got %d, want 200", r.status)
	}
	got := s.application.take()
	if len(got) != 1 || got[0].body != body || got[0].method != http.MethodPost || got[0].target != "/upload?a=b%20c" {
		t.Fatalf("got %d requests at the application, want the one with its method, target and body", len(got))
	}
	for _, name := range []string{"X-Throttled-Token"} {
		if value := got[0].header.Get(name); value != "" {
			t.Errorf("the application has got %s: %s", name, value)
		}
	}
}

// testKeepAlive checks that the gateway does not open a connection to the limiter for each request.
func (s *scene) testKeepAlive(t *testing.T) {
	port := s.limiter.httpPort
	if s.grpc {
		port = s.limiter.grpcPort
	}
	const requests = 100
	before, c := connectionsTo(t, port), s.newClient()
	for range requests {
		if r := c.get(t, "/many"); r.status != http.StatusOK {
			t.Fatalf("got %d, want 200", r.status)
		}
	}
	// HAProxy also opens connections for health checks.
	if opened := connectionsTo(t, port) - before; opened > requests/4 {
		t.Errorf("%d requests have opened %d connections to the limiter", requests, opened)
	}
}

// connectionsTo returns the number of connections to a port, including those that were closed within the last minute.
func connectionsTo(t *testing.T, port int) (n int) {
	t.Helper()
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	remote := fmt.Sprintf("0100007F:%04X", port)
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); len(fields) > 2 && (fields[2] == remote || fields[1] == remote && fields[3] == "06") {
			n++
		}
	}
	return n
}

// testPassword checks that the gateway presents its own password, and not a header of the client.
func (g gateway) testPassword(t *testing.T) {
	s := g.play(t, []*limiter{startLimiter(t, g.example, "--requirepass", password)}, variant{"password"}, patient)
	c := s.newClient()
	for i := range allowed + 1 {
		want := http.StatusOK
		if i == allowed {
			want = http.StatusTooManyRequests
		}
		if r := c.get(t, "/login", "X-Throttled-Token: wrong", "Authorization: Bearer wrong"); r.status != want {
			t.Errorf("request %d: got %d, want %d", i+1, r.status, want)
		}
	}
	s.checkDecided(t)
}

// testDown kills the limiter: requests are admitted, and the gateway reports it.
func (g gateway) testDown(t *testing.T) {
	s := g.play(t, []*limiter{startLimiter(t, g.example)}, nil, exact)
	s.limiter.kill()
	c := s.newClient()
	const requests = 2 * allowed
	for i := range requests {
		if r := c.send(t, http.MethodPost, "/login", "body"); r.status != http.StatusOK || r.body != "hello\n" {
			t.Fatalf("request %d: got %d %q, want the response of the application", i+1, r.status, r.body)
		}
	}
	got := s.application.take()
	if len(got) != requests || got[0].body != "body" {
		t.Errorf("%d requests have reached the application, want %d with their body", len(got), requests)
	}
	s.awaitUndecided(t, requests)
}

// testDownClosed kills the limiter of a gateway that then refuses requests.
func (g gateway) testDownClosed(t *testing.T) {
	s := g.play(t, []*limiter{startLimiter(t, g.example)}, variant{"fail closed"}, patient)
	s.limiter.kill()
	for range 3 {
		if r := s.newClient().get(t, "/login"); r.status < http.StatusInternalServerError {
			t.Errorf("got %d, want 5xx", r.status)
		}
	}
	if got := s.application.take(); len(got) > 0 {
		t.Errorf("%d requests have reached the application, want none", len(got))
	}
	s.awaitUndecided(t, 3)
}

// testSlow stops the limiter with SIGSTOP: requests are admitted after the deadline of 50 ms.
func (g gateway) testSlow(t *testing.T) {
	s := g.play(t, []*limiter{startLimiter(t, g.example)}, nil, exact)
	s.limiter.freeze(t)
	const requests, deadline = 20, 50 * time.Millisecond
	c, fastest, slowest := s.newClient(), patience, time.Duration(0)
	for range requests {
		r := c.get(t, "/login")
		if r.status != http.StatusOK {
			t.Fatalf("got %d, want 200", r.status)
		}
		fastest, slowest = min(fastest, r.took), max(slowest, r.took)
	}
	t.Logf("%s: %d requests while the limiter was stopped took %v to %v", g.example, requests, fastest, slowest)
	if fastest > 2*deadline { // a busy machine delays some requests, but not all
		t.Errorf("the fastest request took %v, want about the deadline of %v", fastest, deadline)
	}
	s.awaitUndecided(t, requests)
}

// testNoLeader stops two of three nodes: the last one decides by on_failure of the rules, and a metric counts these decisions.
func (g gateway) testNoLeader(t *testing.T) {
	nodes := startTrio(t, rulesOf(t, g.example))
	s := g.play(t, nodes[:1], nil, patient)
	nodes[1].kill()
	nodes[2].kill()
	c := s.newClient()
	await(t, "a decision without a leader", func() error {
		if r := c.get(t, "/other"); r.status != http.StatusOK {
			t.Fatalf("got %d, want 200", r.status)
		}
		if nodes[0].metric(t, "throttled_failure_policy_decisions_total", `policy="open"`) == 0 {
			return fmt.Errorf("no decision by on_failure is counted")
		}
		return nil
	})
}
