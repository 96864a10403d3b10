package gatewaystests

import (
	"context"
	"flag"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	latencyFor = flag.Duration("latency-for", time.Second, "duration of each measurement in TestLatency")
	latencyBar = flag.Duration("latency-bar", 0, "TestLatency fails if the limiter adds more than this to the 99th percentile; 0 means any")
)

// latencyRounds is the number of measurements with and without the limiter, which alternate.
const latencyRounds = 5

// TestLatency measures how much time the limiter adds to requests, at half of the throughput of the gateway with the
// limiter.
func TestLatency(t *testing.T) {
	nginx.compare(t, func(text string) string { return strings.Replace(text, "auth_request /_limit;", "", 1) })
	envoyRatelimit.compare(t, func(text string) string {
		return strings.Replace(text, "domain: site", "domain: site\n                      filter_enabled: {default_value: {numerator: 0}}", 1)
	})
}

// compare prints the latencies of a gateway with the limiter, and without it by a change of the configuration.
func (g gateway) compare(t *testing.T, without func(string) string) {
	l := newLimiter(t, "--rules", generousRules(t))
	l.start(t)
	l.awaitReady(t)
	limited := g.play(t, []*limiter{l}, variant{"fail closed"}, patient)
	plain := g.play(t, []*limiter{l}, nil, func(text string) string {
		if without(text) == text && strings.Contains(text, "8080") {
			t.Fatalf("%s: the limiter was not removed", g.example)
		}
		return patient(without(text))
	})
	rate := limited.throughput(t) / 2
	var with, base measured
	for range latencyRounds {
		with.add(limited.load(t, rate))
		base.add(plain.load(t, rate))
	}
	added := slices.Min(with.p99) - slices.Min(base.p99)
	t.Logf("%s at %d requests per second: with the limiter p50 %v, p99 %v; without it p50 %v, p99 %v (the best of %d measurements); the limiter adds %v to p99",
		g.example, rate, slices.Min(with.p50), slices.Min(with.p99), slices.Min(base.p50), slices.Min(base.p99), latencyRounds, added)
	if *latencyBar > 0 && added > *latencyBar {
		t.Errorf("%s: the limiter adds %v to p99, want at most %v", g.example, added, *latencyBar)
	}
}

// measured holds percentiles of several measurements. Other work on the machine delays some of them, so the best ones are
// compared.
type measured struct{ p50, p99 []time.Duration }

func (m *measured) add(l *load) {
	m.p50, m.p99 = append(m.p50, l.percentile(0.5)), append(m.p99, l.percentile(0.99))
}

// throughput returns the requests per second that the gateway serves to 16 clients which wait for each response.
func (s *scene) throughput(t *testing.T) int {
	t.Helper()
	begin := time.Now()
	l := s.load(t, 0)
	return max(1, int(float64(l.answered.Load())/time.Since(begin).Seconds()))
}

// load sends requests for the duration of a measurement. All of them must be admitted.
func (s *scene) load(t *testing.T, rate int) *load {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), *latencyFor)
	defer cancel()
	l := &load{}
	l.send(ctx, s.address, rate, 16)
	if l.failed > 0 {
		t.Fatalf("%s: %d requests failed, the first ones with:\n%s", s.example, l.failed, strings.Join(l.failures, "\n"))
	}
	s.application.take()
	return l
}
