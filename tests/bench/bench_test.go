package main

import (
	"bufio"
	"slices"
	"strings"
	"testing"
)

func TestParseCPU(t *testing.T) {
	f := func(stat string, want float64, ok bool) {
		t.Helper()
		if got, err := parseCPU(stat); got != want || (err == nil) != ok {
			t.Errorf("stat %q: got %v, error: %v; want %v", stat, got, err, want)
		}
	}
	f("7 (throttled) S 1 7 7 0 -1 4194560 100 0 0 0 250 125 0 0 20 0 9", 3.75, true)
	f("7 (odd ) name) S 1 7 7 0 -1 4194560 100 0 0 0 1 2 0 0 20 0 9", 0.03, true)
	f("7 (x) S 1 2", 0, false)
	f("", 0, false)
}

func TestParseResident(t *testing.T) {
	if got, err := parseResident("Name:\tx\nVmRSS:\t    2048 kB\nThreads:\t3\n"); got != 2<<20 || err != nil {
		t.Errorf("got %d bytes, want 2097152; error: %v", got, err)
	}
	if _, err := parseResident("Name:\tx\n"); err == nil {
		t.Error("status without VmRSS: no error, want one")
	}
}

func TestParsePID(t *testing.T) {
	if got, err := parsePID("# Server\r\nprocess_id:4711\r\nrun_id:x\r\n"); got != 4711 || err != nil {
		t.Errorf("got process id %d, want 4711; error: %v", got, err)
	}
	if _, err := parsePID("# Server\r\n"); err == nil {
		t.Error("INFO without process_id: no error, want one")
	}
}

func TestParseLoad(t *testing.T) {
	out := "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n" +
		"\"cl.throttle user:__rand_int__ 15 30 60\",\"298405.12\",\"0.392\",\"0.032\",\"0.279\",\"1.007\",\"3.135\",\"7.471\"\n"
	if got, err := parseLoad(out); err != nil || got != (figures{perSecond: 298405.12, p50: 0.279, p99: 3.135}) {
		t.Errorf("got %+v, want 298405.12 per second, p50 0.279 and p99 3.135; error: %v", got, err)
	}
	for _, bad := range []string{"", "Error: Connection reset by peer\n", "\"a\",\"b\"\n\"c\",\"d\"\n"} {
		if _, err := parseLoad(bad); err == nil {
			t.Errorf("output %q: no error, want one", bad)
		}
	}
}

func TestMedian(t *testing.T) {
	self := func(f float64) float64 { return f }
	for _, tt := range []struct {
		list []float64
		want float64
	}{{[]float64{3}, 3}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 3, 2}, 3}} {
		if got := median(tt.list, self); got != tt.want {
			t.Errorf("median of %v is %v; want %v", tt.list, got, tt.want)
		}
	}
}

func TestReadDecision(t *testing.T) {
	f := func(reply string, want decision, ok bool) {
		t.Helper()
		got, err := readDecision(bufio.NewReader(strings.NewReader(reply)))
		if got != want || (err == nil) != ok {
			t.Errorf("reply %q: %+v, error: %v; want %+v, error: %v", reply, got, err, want, !ok)
		}
	}
	f("*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n", decision{false, 15}, true)
	f("*5\r\n:1\r\n:16\r\n:0\r\n:2\r\n:32\r\n", decision{true, 0}, true)
	f("-ERR no\r\n", decision{}, false)
	f("*5\r\n:1\r\n", decision{}, false)
	f("*5\r\n:1\r\n+OK\r\n:0\r\n:2\r\n:32\r\n", decision{}, false)
}

func TestBoard(t *testing.T) {
	b := &board{}
	b.atMost("reached", 1, 1, "x")
	b.atLeast("reached", 1, 1, "x")
	if b.missed != 0 {
		t.Errorf("%d bars missed; want 0", b.missed)
	}
	b.atMost("missed", 1.01, 1, "x")
	b.atLeast("missed", 0.99, 1, "x")
	if b.missed != 2 {
		t.Errorf("%d bars missed; want 2", b.missed)
	}
}

func TestKeyspace(t *testing.T) {
	k := keyspace{prefix: "m:", size: 16, from: 5, to: 12}
	if got := string(k.append(nil, 1234)); got != "m:00000000001234" || k.count() != 7 {
		t.Errorf("key with number 1234: got %q; number of keys: got %d, want 7", got, k.count())
	}
	k.size = 3
	if got := string(k.append([]byte("x "), 1234)); got != "x m:1234" {
		t.Errorf("number longer than the size: got %q, want m:1234 after x", got)
	}
}

func TestOutcome(t *testing.T) {
	replies := bufio.NewReader(strings.NewReader("*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n" +
		"-OOM no\r\n*5\r\n:1\r\n:16\r\n:0\r\n:2\r\n:32\r\n+OK\r\n"))
	var o, all outcome
	for range 3 {
		if err := o.read(replies); err != nil {
			t.Fatal(err)
		}
	}
	if all.add(o); all != (outcome{1, 1, 1}) {
		t.Errorf("got the counts %+v, want 1 of each", all)
	}
	if err := o.read(replies); err == nil {
		t.Error("reply that is not a decision: no error, want one")
	}
}

func TestParseLatencies(t *testing.T) {
	report := `{"targets":[{"figures":{"replies":7,"errors":0,"latency_p50_us":50,"latency_p99_us":99,"latency_p99_9_us":1500,"latency_max_us":20000,"sent_late_max_us":70}}]}`
	if got, err := parseLatencies([]byte(report)); err != nil || got != (latencies{0.05, 0.099, 1.5, 20, 0.07}) {
		t.Errorf("got the latencies %+v, want 0.05, 0.099, 1.5, 20 and 0.07; error: %v", got, err)
	}
	for _, bad := range []string{"", "{}", strings.Replace(report, `"errors":0`, `"errors":1`, 1), strings.Replace(report, `"replies":7`, `"replies":0`, 1)} {
		if _, err := parseLatencies([]byte(bad)); err == nil {
			t.Errorf("report %q: no error, want one", bad)
		}
	}
}

func TestAwaitReady(t *testing.T) {
	log := "msg=\"raft: entering follower state\" follower=\"Node at 127.0.0.1:7000 [Follower]\"\n" +
		"msg=ready version=1 addresses=\"[127.0.0.1:7001 127.0.0.1:7002]\" pid=7\nmore\n"
	if got, err := awaitReady(bufio.NewReader(strings.NewReader(log))); got != "127.0.0.1:7001" || err != nil {
		t.Errorf("got the address %q, want 127.0.0.1:7001; error: %v", got, err)
	}
	if _, err := awaitReady(bufio.NewReader(strings.NewReader("throttled: damaged\n"))); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("server that exits: got the error %v, want an error with its log", err)
	}
}

func TestParseBenchmarks(t *testing.T) {
	got, err := parseBenchmarks("cpu: x\n" +
		"BenchmarkWait-2         \t11238129\t        95.95 ns/op\t       0 B/op\t       0 allocs/op\n" +
		"BenchmarkWait-2         \t11238129\t        99.95 ns/op\t       0 B/op\t       0 allocs/op\n" +
		"BenchmarkPauses-2   \t       1\t7565382026 ns/op\t         3.5 us-compact\t        88.5 us-copy\n" +
		"BenchmarkPauses   \t       1\t7565382026 ns/op\t         4.5 us-compact\t        77.5 us-copy\n" +
		"BenchmarkDecideBatch/1M/16-parallel-2       \t 1339292\t       932.0 ns/op\t        58.25 ns/decision\t       0 B/op\t       3 allocs/op\nPASS\n")
	if err != nil || len(got) != 3 {
		t.Fatalf("got %v, want 3 benchmarks; error: %v", got, err)
	}
	if w, d := got["Wait"], got["DecideBatch/1M/16-parallel"]; w.ns != 95.95 || d.ns != 58.25 || d.allocs != 3 {
		t.Errorf("got %v, want 95.95 ns for Wait, and 58.25 ns and 3 allocations for DecideBatch", got)
	}
	if us := got["Pauses"].us; !slices.Equal(us["compact"], []float64{3.5, 4.5}) || !slices.Equal(us["copy"], []float64{88.5, 77.5}) {
		t.Errorf("got the pauses %v, want 3.5 and 4.5 for compact, and 88.5 and 77.5 for copy", us)
	}
	if _, err := parseBenchmarks("FAIL\n"); err == nil {
		t.Error("output without benchmarks: no error, want one")
	}
}

func TestLongestCheck(t *testing.T) {
	entry := func(took, name string) string {
		return "12\n1795444444\n" + took + "\n" + name + "\nd\npath\n/x\n\n127.0.0.1:5\n\n\n"
	}
	for _, tt := range []struct {
		text string
		want float64
	}{
		{"", 0},
		{entry("250", "CL.CHECK") + entry("3100", "cl.check") + entry("900", "CL.CHECK"), 3.1},
		{entry("9000", "CL.RULES") + entry("250", "CL.CHECK"), 0.25},
	} {
		if got := longestCheck(tt.text); got != tt.want {
			t.Errorf("SLOWLOG GET returns %q: got %v ms, want %v", tt.text, got, tt.want)
		}
	}
}

func TestRulesText(t *testing.T) {
	text := rulesText(8, "7 per minute")
	for _, want := range []string{"domain: d\n", "  l0: {when: {path: /s0/*,", "  l7: {when: {ip: 10.0.1.0/24}, per: [client], allow: 7 per minute}\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the rules do not contain %q:\n%s", want, text)
		}
	}
	if got := strings.Count(text, "allow:"); got != 8 {
		t.Errorf("%d limits, want 8", got)
	}
}

// TestSelectsAny checks the measurements that "bench all" runs with the flag -rows.
func TestSelectsAny(t *testing.T) {
	for _, tt := range []struct {
		rows, measurement string
		want              bool
	}{
		{"", "abuse", true},
		{"", "overload", true},
		{"F71", "abuse", true},
		{"F71", "overload", false},
		{"F71,leader", "overload", true},
		{"standalone", "abuse", false},
		{"F71", "memory", true},
	} {
		if got := (&settings{rows: tt.rows}).selectsAny(rowsOf(tt.measurement)); got != tt.want {
			t.Errorf("-rows %q selects rows of %s: %t, want %t", tt.rows, tt.measurement, got, tt.want)
		}
	}
}
