package metrics

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/throttledhq/throttled/cluster"
	"github.com/throttledhq/throttled/internal/histogram"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/ruleset"
	"github.com/throttledhq/throttled/ruleset/counts"
	"github.com/throttledhq/throttled/server/statistics"
	"github.com/throttledhq/throttled/topology"
)

// fakeNode is the leader n1 of a cluster with the follower n2 and the nonvoter n3.
type fakeNode struct{}

func (fakeNode) View() *topology.View {
	return &topology.View{Cluster: "c1", Self: "n1", Leader: "n1", Leading: true, Term: 7, Members: []topology.Member{
		{ID: "n1", Voter: true}, {ID: "n2", Voter: true}, {ID: "n3"},
	}}
}

func (fakeNode) Status() topology.Status {
	return topology.Status{
		Last: 50, Committed: 49, Applied: 48, Snapshot: 40, Waiting: 1, Unflushed: 250 * time.Millisecond, Entries: 60, Changes: 6000, Rollbacks: 2,
		Behind: time.Second, RoundTrips: topology.RoundTrips{Answered: 10, Slow: 3},
		Followers: []topology.Follower{{ID: "n2", Answers: true, Last: 45, Silent: time.Second}, {ID: "n3", Last: 60}},
	}
}

func (fakeNode) CommitStats() cluster.CommitStats {
	var decisions, latency histogram.Histogram
	decisions.AddNumber(3)
	decisions.AddNumber(100_000)
	latency.AddDurations(3*time.Millisecond, 3)
	return cluster.CommitStats{Decisions: decisions.Load(), Latency: latency.Load()}
}

// fakeServer returns statistics of which each counter has another value.
func fakeServer() statistics.Server {
	var times histogram.Histogram
	times.AddDurations(time.Nanosecond, 1)
	times.AddDurations(2*time.Millisecond, 2)
	times.AddDurations(time.Hour, 1)
	return statistics.Server{
		TLS: statistics.TLS{Used: true, Completed: 71, Failed: 72, TimedOut: 73, Displaced: 74, Pending: 75},
		Upstream: statistics.Upstream{Used: true, Answers: true, Silence: 2 * time.Second, Connects: 80, Failures: 81, Open: 82, Closed: 83, Local: 94, LocalRefused: 95, Lessee: topology.Lessee{
			Admitted: 84, Refused: 85, Forwarded: 86, Units: 87, Drawn: 88, Returned: 89, Lost: 90, Draws: 91, Returns: 92, Failures: 93,
		}},
		Clients: 11, MaxClients: 12, Peers: 13, Connections: 14, Rejected: 15, Displaced: 16, EvictedClients: 17, TimedOut: 18, Users: 3, UsersVersion: 77, ProtocolErrors: 19, Overloaded: 76, Waiting: 77,
		Panics: 20, ReadBytes: 21, WrittenBytes: 22, AuthFailed: 23, AuthRefused: 24, ClientMemory: 25, ClientMemoryMax: 26, MaxMemory: 27,
		SnapshotFailed: true, SnapshotTime: time.Unix(28, 0), SnapshotsEnabled: true, Loading: true,
		Errors:  map[string]int64{"ERR": 29, "bad\xff": 1},
		Forward: statistics.Forward{Answered: 30, Uncertain: 31, Failed: 32, Retries: 33},
		Rules:   statistics.Rules{Unmatched: 34, Soft: 35, Banned: 36, Bans: 37, ShadowLimited: 38, ShadowErrors: 39, FailOpen: 40, FailClosed: 41, Local: 42},
		Usage: limiter.Usage{Keys: 43, Bytes: 44, Hits: 45, Misses: 46, Expired: 47, Evicted: 48, GrantedUnits: 96, ReturnedUnits: 97, Pauses: limiter.Pauses{
			Growth: time.Second, Compaction: 2 * time.Second, Eviction: 3 * time.Second, Sweep: 4 * time.Second, Copy: 5 * time.Second,
		}},
		Commands: []statistics.Command{
			{Name: "cl.throttle", Limiter: true, Calls: 10, Failed: 2, Rejected: 1, Admitted: 5, Limited: 3, Times: times.Load()},
			{Name: "cl.check", Limiter: true, Rules: true, Calls: 9, Admitted: 6, Limited: 2},
			{Name: "cl.report", Limiter: true, Rules: true, Calls: 1, Admitted: 1},
			{Name: "ping", Calls: 3},
			{Name: "get", Rejected: 4},
		},
	}
}

// fakeSources returns sources in which all metrics have values.
func fakeSources(t testing.TB) Sources {
	t.Helper()
	store := ruleset.NewStore()
	const text = "version: 1\ndomain: shop\ndefault: {allow: 1/s}\nlimits:\n  login: {allow: 1/s}\n  api: {allow: 1/s}\n"
	store.Counts().SetMax(2)
	if _, err := ruleset.NewLocal(store, time.Now).Propose(t.Context(), ruleset.Proposal{Name: "test", Text: text}); err != nil {
		t.Fatal(err)
	}
	store.SetFile(ruleset.RulesFile{Hash: ruleset.HashOf(text), Problem: errors.New("problem")})
	limits := store.Active().Counts
	limits.At(0).Add(counts.Admitted, 70)
	limits.At(0).Add(counts.Banned, 1)
	limits.At(1).Add(counts.Refused, 5)
	limits.At(2).Add(counts.Admitted, 4)
	store.Counts().Granted(counts.Name{}, 96, time.Second)
	return Sources{
		Version: "v1", Server: fakeServer, Rules: store, Node: fakeNode{},
		Certificates: func() map[string]time.Time {
			return map[string]time.Time{"node": time.Now().Add(time.Hour), "ca": time.Now().Add(-time.Hour)}
		},
	}
}

// scrape returns the lines of a scrape.
func scrape(t testing.TB, m *Metrics) []string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("the scrape has status %d: %s", w.Code, w.Body)
	}
	return strings.Split(strings.TrimSpace(w.Body.String()), "\n")
}

// TestValues checks the values of all metrics except those that depend on the time.
func TestValues(t *testing.T) {
	m := New(fakeSources(t))
	m.HTTP().ObserveRequest("GET /healthz", 200, time.Millisecond)
	m.GRPC().ObserveRequest("RateLimitService/ShouldRateLimit", 14, time.Millisecond)
	lines := scrape(t, m)
	for _, want := range []string{
		`throttled_info{cluster="c1",node="n1",version="v1"} 1`,
		`throttled_loading 1`, `throttled_clients 11`, `throttled_clients_limit 12`, `throttled_peer_streams 13`,
		`throttled_connections_total 14`, `throttled_rejected_connections_total 15`,
		`throttled_closed_connections_total{reason="displaced"} 16`, `throttled_closed_connections_total{reason="memory"} 17`,
		`throttled_closed_connections_total{reason="timeout"} 18`, `throttled_lease_units_total{result="granted"} 96`, `throttled_lease_units_total{result="returned"} 97`, `throttled_lease_outstanding_units{domain="",limit=""} 96`, `throttled_lease_stranded_units_total{domain="",limit=""} 0`, `throttled_users 3`, `throttled_users_version 77`, `throttled_protocol_errors_total 19`, `throttled_handler_panics_total 20`,
		`throttled_overload_refused_total 76`, `throttled_overload_waiting_clients 77`,
		`throttled_received_bytes_total 21`, `throttled_sent_bytes_total 22`, `throttled_failed_authentications_total{reason="wrong"} 23`,
		`throttled_failed_authentications_total{reason="limited"} 24`, `throttled_client_memory_bytes 25`, `throttled_client_memory_limit_bytes 26`,
		`throttled_memory_limit_bytes 27`, `throttled_snapshot_failed 1`, `throttled_snapshot_timestamp_seconds 28`,
		`throttled_error_replies_total{code="ERR"} 29`, `throttled_error_replies_total{code="bad?"} 1`,
		`throttled_upstream_answers 1`, `throttled_upstream_silence_seconds 2`, `throttled_upstream_connects_total{result="selected"} 80`,
		`throttled_upstream_connects_total{result="failed"} 81`, `throttled_upstream_away_total{policy="open"} 82`, `throttled_upstream_away_total{policy="closed"} 83`,
		`throttled_upstream_away_total{policy="local"} 94`, `throttled_upstream_away_total{policy="local_refused"} 95`,
		`throttled_forwarded_commands_total{outcome="answered"} 30`, `throttled_forwarded_commands_total{outcome="uncertain"} 31`,
		`throttled_forwarded_commands_total{outcome="failed"} 32`, `throttled_forward_retries_total 33`,
		`throttled_rules_requests_total{result="unmatched"} 34`, `throttled_rules_requests_total{result="soft"} 35`,
		`throttled_rules_requests_total{result="banned"} 36`, `throttled_bans_total 37`, `throttled_rules_requests_total{result="shadow_refused"} 38`,
		`throttled_rules_requests_total{result="shadow_error"} 39`, `throttled_failure_policy_decisions_total{policy="open"} 40`,
		`throttled_failure_policy_decisions_total{policy="closed"} 41`, `throttled_failure_policy_decisions_total{policy="local"} 42`,
		`throttled_keys 43`, `throttled_memory_bytes 44`, `throttled_key_lookups_total{result="hit"} 45`, `throttled_key_lookups_total{result="miss"} 46`,
		`throttled_expired_keys_total 47`, `throttled_evicted_keys_total 48`, `throttled_longest_pause_seconds{work="growth"} 1`,
		`throttled_longest_pause_seconds{work="compaction"} 2`, `throttled_longest_pause_seconds{work="eviction"} 3`,
		`throttled_longest_pause_seconds{work="sweep"} 4`, `throttled_longest_pause_seconds{work="snapshot"} 5`,
		`throttled_commands_total{command="cl.throttle",outcome="done"} 8`, `throttled_commands_total{command="cl.throttle",outcome="failed"} 2`,
		`throttled_commands_total{command="cl.throttle",outcome="rejected"} 1`, `throttled_commands_total{command="get",outcome="rejected"} 4`,
		`throttled_command_seconds_bucket{command="cl.throttle",le="8.192e-06"} 1`, `throttled_command_seconds_bucket{command="cl.throttle",le="0.001048576"} 3`,
		`throttled_command_seconds_bucket{command="cl.throttle",le="8.589934592"} 3`, `throttled_command_seconds_bucket{command="cl.throttle",le="+Inf"} 4`,
		`throttled_command_seconds_count{command="cl.throttle"} 4`, `throttled_checks_total{outcome="admitted"} 7`, `throttled_checks_total{outcome="refused"} 2`,
		`throttled_decisions_total{domain="",limit="cl.throttle",outcome="admitted"} 5`, `throttled_decisions_total{domain="",limit="cl.throttle",outcome="refused"} 3`,
		`throttled_decisions_total{domain="shop",limit="login",outcome="admitted"} 70`, `throttled_decisions_total{domain="shop",limit="login",outcome="refused"} 0`,
		`throttled_decisions_total{domain="shop",limit="login",outcome="banned"} 1`, `throttled_decisions_total{domain="shop",limit="api",outcome="refused"} 5`,
		`throttled_decisions_total{domain="other",limit="other",outcome="admitted"} 4`,
		`throttled_leader 1`, `throttled_leader_known 1`, `throttled_members{role="voter"} 2`, `throttled_members{role="nonvoter"} 1`, `throttled_raft_term 7`,
		`throttled_raft_index{index="last"} 50`, `throttled_raft_index{index="committed"} 49`, `throttled_raft_index{index="applied"} 48`,
		`throttled_raft_index{index="snapshot"} 40`, `throttled_replication_lag_entries{node="n2"} 5`, `throttled_replication_lag_entries{node="n3"} 0`,
		`throttled_follower_silent_seconds{node="n2"} 1`, `throttled_follower_answers{node="n2"} 1`, `throttled_follower_answers{node="n3"} 0`,
		`throttled_leader_contact_seconds 0`, `throttled_commit_seconds_count 3`, `throttled_commit_seconds_sum 0.003`,
		`throttled_commit_decisions_bucket{le="2"} 0`, `throttled_commit_decisions_bucket{le="4"} 1`, `throttled_commit_decisions_bucket{le="32768"} 1`,
		`throttled_commit_decisions_bucket{le="+Inf"} 2`, `throttled_commit_decisions_sum 100003`, `throttled_uncommitted_entries 1`,
		`throttled_uncommitted_seconds 0.25`, `throttled_replicated_entries_total 60`, `throttled_replicated_bytes_total 6000`, `throttled_rollbacks_total 2`,
		`throttled_heartbeats_total{speed="slow"} 3`, `throttled_heartbeats_total{speed="normal"} 7`, `throttled_log_time_behind_seconds 1`,
		`throttled_rules_version 1`, `throttled_rules_active_version 1`, `throttled_rules_unusable 0`, `throttled_rules_limits 2`,
		`throttled_rules_uncounted_limits 1`, `throttled_rules_file_invalid 1`, `throttled_rules_file_active 1`,
		`throttled_http_requests_total{code="200",endpoint="GET /healthz"} 1`, `throttled_http_request_seconds_count{endpoint="GET /healthz"} 1`,
		`throttled_grpc_requests_total{code="Unavailable",method="RateLimitService/ShouldRateLimit"} 1`, `throttled_grpc_request_seconds_count{method="RateLimitService/ShouldRateLimit"} 1`,
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("the scrape lacks %s", want)
		}
	}
	for _, name := range []string{"throttled_certificate_expiry_seconds", "go_goroutines", "process_open_fds"} {
		if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, name) }) {
			t.Errorf("the scrape lacks %s", name)
		}
	}
	if again := scrape(t, m); len(again) != len(lines) {
		t.Errorf("a second scrape has %d lines, want %d", len(again), len(lines))
	}
}

// nameOf returns the name of the metric in a line of a scrape.
var nameOf = regexp.MustCompile(`^(\w+?)(?:_bucket|_sum|_count)?(?:\{| )`)

// TestEveryFamily checks that each metric has a value in a scrape of all sources, and that a scrape has no other metric.
func TestEveryFamily(t *testing.T) {
	m := New(fakeSources(t))
	m.HTTP().ObserveRequest("/", 200, 0)
	m.GRPC().ObserveRequest("/", 0, 0)
	seen := map[string]bool{}
	for _, line := range scrape(t, m) {
		if match := nameOf.FindStringSubmatch(line); match != nil && strings.HasPrefix(line, "throttled_") {
			seen[match[1]] = true
		}
	}
	for _, f := range Families() {
		if !seen[f.Name] {
			t.Errorf("%s has no value", f.Name)
		}
		delete(seen, f.Name)
	}
	for name := range seen {
		t.Errorf("Families lacks %s", name)
	}
}

// TestStandalone checks that a server without a cluster has no metrics of replication, and counts as a leader.
func TestStandalone(t *testing.T) {
	m := New(Sources{Version: "v1", Server: func() statistics.Server { return statistics.Server{} }})
	text := strings.Join(scrape(t, m), "\n")
	for _, want := range []string{"throttled_leader 1", "throttled_leader_known 1", `throttled_info{cluster="",node="",version="v1"} 1`} {
		if !strings.Contains(text, want) {
			t.Errorf("the scrape lacks %s", want)
		}
	}
	for _, absent := range []string{"throttled_raft", "throttled_commit", "throttled_members", "throttled_rules_version", "throttled_certificate", "throttled_snapshot", "throttled_decisions"} {
		if strings.Contains(text, "\n"+absent) {
			t.Errorf("the scrape has %s", absent)
		}
	}
	insecure := New(Sources{Server: func() statistics.Server { return statistics.Server{} }, Certificates: func() map[string]time.Time { return nil }})
	if text := strings.Join(scrape(t, insecure), "\n"); strings.Contains(text, "throttled_certificate") {
		t.Error("a node without certificates has an expiry time")
	}
}

// TestLint checks the names and help texts by the rules of promtool.
func TestLint(t *testing.T) {
	m := New(fakeSources(t))
	m.HTTP().ObserveRequest("/", 200, 0)
	m.GRPC().ObserveRequest("/", 0, 0)
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "throttled_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

// failing is a collector with a metric that cannot be exported.
type failing struct{}

func (failing) Describe(chan<- *prometheus.Desc) {}

func (failing) Collect(out chan<- prometheus.Metric) {
	v := values{prometheus.NewDesc("broken", "", []string{"a"}, nil), gauge, out}
	v.add(1) // without the label
}

// TestErrors checks that a metric which cannot be exported is logged, and that the others are exported.
func TestErrors(t *testing.T) {
	var log bytes.Buffer
	s := fakeSources(t)
	s.Log = slog.New(slog.NewTextHandler(&log, nil))
	m := New(s)
	m.registry.MustRegister(failing{})
	if lines := scrape(t, m); !slices.Contains(lines, "throttled_clients 11") {
		t.Error("the other metrics are absent")
	}
	if !strings.Contains(log.String(), "cannot export a metric") {
		t.Errorf("the log has no error: %s", log.String())
	}
}

// BenchmarkScrape measures a scrape with many limits.
func BenchmarkScrape(b *testing.B) {
	s := fakeSources(b)
	names := func(yield func(counts.Name) bool) {
		for i := range counts.DefaultMax {
			if !yield(counts.Name{Domain: "shop", Limit: fmt.Sprint("limit", i)}) {
				return
			}
		}
	}
	s.Rules.Counts().SetMax(counts.DefaultMax)
	s.Rules.Counts().Resolve(names)
	m := New(s)
	for b.Loop() {
		scrape(b, m)
	}
}
