package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/throttledhq/throttled/internal/freeport"
)

// awayRules have a limit without on_failure, of which a quarter is 10, and one that is refused without its server.
const awayRules = `version: 1
domain: shop
limits:
  api: {when: {path: /api}, per: ip, allow: 40 per day, algorithm: fixed}
  login: {when: {path: /login}, allow: 5 per day, on_failure: closed}
`

// startAway starts a server with awayRules, and a sidecar with upstream-away local and a share of a quarter.
func startAway(t *testing.T, args ...string) (up, side *process) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	writeFile(t, file, awayRules)
	up = newServer(t, "--rules", file)
	side = newSidecarOf(t, []*process{up}, append([]string{"--upstream-away", "local", "--upstream-share", "1/4"}, args...)...)
	side.askUntil("rules_active_version:1", "INFO", "rules")
	return up, side
}

// admittedOf sends a command n times over several concurrent connections, and returns the number of admissions.
func (p *process) admittedOf(n int, command ...any) int64 {
	p.t.Helper()
	client := redis.NewClient(&redis.Options{Addr: p.addr, MaxRetries: -1, DisableIdentity: true, Protocol: 2, ReadTimeout: patience})
	defer func() { _ = client.Close() }()
	var admitted atomic.Int64
	var running sync.WaitGroup
	for range 8 {
		running.Go(func() {
			for range n / 8 {
				reply, err := client.Do(p.t.Context(), command...).Result()
				if err != nil {
					p.t.Errorf("%v: %v", command, err)
					return
				}
				if strings.HasPrefix(fmt.Sprint(reply), "[0 ") {
					admitted.Add(1)
				}
			}
		})
	}
	running.Wait()
	return admitted.Load()
}

// TestProcess_SidecarAwayLocal kills and pauses the upstream. The sidecar must admit a quarter of each limit on all its ports
// together, and use the upstream again when it answers.
func TestProcess_SidecarAwayLocal(t *testing.T) {
	http, rpc := freeport.Of(t), freeport.Of(t)
	up, side := startAway(t, "--upstream-leases", "off", "--http-port", fmt.Sprint(http), "--grpc-port", fmt.Sprint(rpc))
	edges := awayEdges{t, httpClient{t, fmt.Sprint("http://127.0.0.1:", http)}, fmt.Sprint("127.0.0.1:", rpc)}
	for _, fault := range []struct {
		name        string
		stop, start func()
	}{
		{"killed", func() { up.kill() }, func() { up.start() }},
		{"paused", func() { up.signal(syscall.SIGSTOP) }, func() { up.signal(syscall.SIGCONT) }},
	} {
		fault.stop()
		key, group := "key:"+fault.name, "group:"+fault.name
		if n := side.admittedOf(80, "CL.THROTTLE", key, 39, 1, 864_000); n != 10 {
			t.Errorf("%s: %d requests were admitted, want 10 of 40", fault.name, n)
		}
		if n := side.admittedOf(80, "CL.ALL", 1, "BUCKET", group, 20, 1, 864_000, "WINDOW", group+":w", 100, 864_000, "FIXED"); n != 5 {
			t.Errorf("%s: %d groups were admitted, want 5 of 20", fault.name, n)
		}
		if n := side.admittedOf(8, "CL.CHECK", "shop", "path", "/api", "ip", fault.name); n != 8 {
			t.Errorf("%s: %d of 8 checks were admitted, want all", fault.name, n)
		}
		edges.check(fault.name, 1, true)
		edges.limit(fault.name, pb.RateLimitResponse_OK)
		edges.limit(fault.name, pb.RateLimitResponse_OVER_LIMIT)
		edges.check(fault.name, 0, false)
		if got := side.ask("CL.CHECK", "shop", "path", "/api", "ip", fault.name); !strings.HasPrefix(got, "[1 10 0 ") || !strings.Contains(got, " api [local] ") {
			t.Errorf("%s: CL.CHECK: got %s, want a refusal by a limit of 10 with the flag local", fault.name, got)
		}
		if got := side.ask("CL.CHECK", "shop", "path", "/login"); !strings.Contains(got, " login [failclosed] ") {
			t.Errorf("%s: CL.CHECK: got %s, want the flag failclosed", fault.name, got)
		}
		edges.policies(side, fault.name)
		fault.start()
		side.askUntil("[0 40 ", "CL.THROTTLE", "new:"+fault.name, 39, 1, 864_000)
		side.askUntil("[0 40 ", "CL.THROTTLE", key, 39, 1, 864_000) // the upstream has not charged the share
	}
	if n := side.infoField("sidecar", "upstream_away_local"); n < 2*(10+5+10) {
		t.Errorf("upstream_away_local is %d, want at least 50", n)
	}
}

// awayEdges sends requests of the limit api to the HTTP and gRPC servers of a sidecar.
type awayEdges struct {
	t    *testing.T
	http httpClient
	rpc  string
}

// check sends a request over HTTP, and checks the result and the units that remain.
func (e awayEdges) check(ip string, remaining int, allowed bool) {
	e.t.Helper()
	_, _, text := e.http.do("POST", "/v1/check", `{"domain":"shop","attributes":{"path":"/api","ip":"`+ip+`"}}`, "Content-Type", "application/json")
	text = strings.ReplaceAll(text, " ", "")
	for _, want := range []string{fmt.Sprintf(`"allowed":%t`, allowed), fmt.Sprintf(`"remaining":%d`, remaining), `"local"`} {
		if !strings.Contains(text, want) {
			e.t.Errorf("POST /v1/check: got %s, want %s", text, want)
		}
	}
}

// policies sends requests that name their limits over HTTP, with each value of upstream-away. At the end, it is local.
func (e awayEdges) policies(side *process, fault string) {
	e.t.Helper()
	for _, c := range []struct {
		policy, target, body string
		status               int
		word, flag, limit    string
	}{
		{"open", "/v1/throttle", `"max_burst":39,"count_per_period":1`, 200, "fail-open", "failopen", ""},
		{"open", "/v1/window", `"limit":40`, 200, "fail-open", "failopen", ""},
		{"closed", "/v1/throttle", `"max_burst":39,"count_per_period":1`, 429, "fail-closed", "failclosed", ""},
		{"closed", "/v1/window", `"limit":40`, 429, "fail-closed", "failclosed", ""},
		{"local", "/v1/throttle", `"max_burst":39,"count_per_period":1`, 200, "allow", "local", "10"},
		{"local", "/v1/throttle", `"max_burst":39,"count_per_period":1,"quantity":40`, 429, "deny", "local", "10"},
	} {
		side.mustDo("CONFIG", "SET", "upstream-away", c.policy)
		status, header, text := e.http.do("POST", c.target, `{"key":"`+fault+c.target+`","period":864000,`+c.body+`}`, "Content-Type", "application/json")
		word, limit := header.Get("X-RateLimit-Decision"), header.Get("X-RateLimit-Limit")
		if flags := `"flags":["` + c.flag + `"]`; status != c.status || word != c.word || limit != c.limit || !strings.Contains(text, flags) {
			e.t.Errorf("%s, %s, %s: status %d, decision %s, limit %q, body %s; want %d, %s, %q and %s", fault, c.policy, c.target, status, word, limit, text, c.status, c.word, c.limit, flags)
		}
	}
}

// limit sends a request over gRPC.
func (e awayEdges) limit(ip string, want pb.RateLimitResponse_Code) {
	e.t.Helper()
	conn, err := grpc.NewClient(e.rpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		e.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	got, err := pb.NewRateLimitServiceClient(conn).ShouldRateLimit(e.t.Context(), &pb.RateLimitRequest{
		Domain: "shop", Descriptors: []*common.RateLimitDescriptor{{Entries: []*common.RateLimitDescriptor_Entry{{Key: "path", Value: "/api"}, {Key: "ip", Value: ip}}}},
	})
	if err != nil || got.OverallCode != want {
		e.t.Errorf("ShouldRateLimit: got %v, error %v, want %v", got, err, want)
	}
}

// TestProcess_SidecarAwayLeases kills the upstream of a sidecar with units in hand. The sidecar must spend these first, and
// then its share.
func TestProcess_SidecarAwayLeases(t *testing.T) {
	up, side := startAway(t, "--upstream-share", "1/1000")
	var command []any
	var killed time.Time
	keys := 0
	until(t, "units in hand are used after the upstream was killed", func() bool { // on a busy machine, a lease can end before
		if keys++; keys > 1 {
			up.start()
			side.askUntil("upstream_link_status:up", "INFO", "sidecar")
		}
		command = []any{"CL.THROTTLE", fmt.Sprintf("k%d", keys), 99_999, 1000, 1}
		for side.infoField("sidecar", "lessee_units") < 50 {
			side.mustDo(command...)
		}
		side.mustDo("CONFIG", "RESETSTAT")
		up.kill()
		killed = time.Now()
		return strings.HasPrefix(side.ask(command...), "[0 100000 ")
	})
	side.askUntil("[1 100 ", command...) // the share is used up
	restored := int64(time.Since(killed).Seconds()) + 1
	if n := side.infoField("sidecar", "upstream_away_local"); n < 100 || n > 100+restored {
		t.Errorf("%d requests were admitted with the share, want 100 to %d", n, 100+restored)
	}
}

// TestProcess_SidecarReturn starts the upstream again while many clients use the sidecar. They must use it over a few
// connections.
func TestProcess_SidecarReturn(t *testing.T) {
	up, side := startAway(t, "--upstream-leases", "off")
	up.kill()
	side.askUntil("[1 10 ", "CL.THROTTLE", "k", 39, 1, 864_000)
	stop := make(chan struct{})
	side.demand(50, stop, "CL.THROTTLE", "load", 999_999, 1, 864_000)
	up.start()
	side.askUntil("[0 40 ", "CL.THROTTLE", "k", 39, 1, 864_000)
	side.askUntil("upstream_link_status:up", "INFO", "sidecar")
	close(stop)
	if n := up.infoField("stats", "total_connections_received"); n > 30 {
		t.Errorf("the upstream has accepted %d connections of a sidecar with 50 clients, want at most 30", n)
	}
}
