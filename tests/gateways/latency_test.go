package gatewaystests

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/tests/bench/loadgen"
)

var (
	latencyFor = flag.Duration("latency-for", time.Second, "duration of each measurement in TestLatency")
	latencyBar = flag.Duration("latency-bar", 0, "TestLatency fails if the limiter adds more than this to the 99th percentile; 0 means any")
)

// visitors is a request with the number of one of many visitors.
var visitors = func() loadgen.Template {
	template, err := loadgen.NewTemplate("GET /visitors/" + loadgen.Placeholder + " HTTP/1.1\r\nHost: shop.example\r\n\r\n")
	if err != nil {
		panic(err) // the request is a constant
	}
	return template
}()

// latencyRounds is the number of measurements with and without the limiter, which alternate.
const latencyRounds = 5

// TestLatency measures how much time the limiter adds to requests, at half of the throughput of the gateway with the
// limiter. A third configuration has a limiter without any work: it adds the cost of the call of the gateway.
func TestLatency(t *testing.T) {
	nginx.compare(t, admitAllHTTP, func(text string) string { return strings.Replace(text, "auth_request /_limit;", "", 1) })
	envoyRatelimit.compare(t, admitAllRLS, func(text string) string {
		return strings.Replace(text, "domain: site", "domain: site\n                      filter_enabled: {default_value: {numerator: 0}}", 1)
	})
}

// compare prints the latencies of a gateway with the limiter, with another limiter that admits all, and without a limiter
// by a change of the configuration.
func (g gateway) compare(t *testing.T, all admitAll, without func(string) string) {
	l := newLimiter(t, "--rules", generousRules(t))
	l.start(t)
	l.awaitReady(t)
	port := all.start(t)
	scenes := []*scene{
		g.play(t, []*limiter{l}, variant{"fail closed"}, persistent),
		g.play(t, []*limiter{{process: l.process, httpPort: port, grpcPort: port}}, variant{"fail closed"}, persistent),
		g.play(t, []*limiter{l}, nil, func(text string) string {
			if without(text) == text && strings.Contains(text, "8080") {
				t.Fatalf("%s: the limiter was not removed", g.example)
			}
			return persistent(without(text))
		}),
	}
	rate := scenes[0].throughput(t) / 2
	results := make([]measured, len(scenes))
	for range latencyRounds {
		for i, s := range scenes {
			results[i].add(s.load(t, rate))
		}
	}
	with, trivial, base := results[0], results[1], results[2]
	added := with.best99() - base.best99()
	t.Logf("%s at %d requests per second, the best of %d measurements: with the limiter %v; with a limiter without work %v; without a limiter %v; the limiter adds %.2f ms to p99, one without work %.2f ms",
		g.example, rate, latencyRounds, with, trivial, base, added, trivial.best99()-base.best99())
	if bar := float64(*latencyBar) / float64(time.Millisecond); bar > 0 && added > bar {
		t.Errorf("%s: the limiter adds %.2f ms to p99, want at most %.2f ms", g.example, added, bar)
	}
}

// persistent is a change of configurations: the deadline is long, and connections of clients last for all requests.
func persistent(text string) string {
	return strings.Replace(patient(text), "listen 8080;", "listen 8080; keepalive_requests 1000000000;", 1)
}

// measured holds percentiles of several measurements. Other work on the machine delays some of them, so the best ones are
// compared.
type measured struct{ p50, p99 []float64 }

func (m *measured) add(r *loadgen.Result) {
	m.p50, m.p99 = append(m.p50, r.Percentile(50)), append(m.p99, r.Percentile(99))
}

func (m measured) best99() float64 { return slices.Min(m.p99) }

// String returns the figures.
func (m measured) String() string {
	return fmt.Sprintf("p50 %.2f, p99 %.2f ms", slices.Min(m.p50), m.best99())
}

// throughput returns the requests per second that the gateway serves to 16 clients which wait for each response.
func (s *scene) throughput(t *testing.T) int {
	t.Helper()
	return max(1, int(s.load(t, 0).PerSecond()))
}

// load sends requests for the duration of a measurement. All of them must be admitted.
func (s *scene) load(t *testing.T, rate int) *loadgen.Result {
	t.Helper()
	result, err := loadgen.Run(loadgen.Load{
		Addr: s.address, Protocol: func() loadgen.Protocol { return loadgen.NewHTTP(visitors) }, Conns: 16, Streams: 1, Keys: 1000,
		Rate: float64(rate), Warmup: *latencyFor / 10, Duration: *latencyFor,
	})
	if err != nil {
		t.Fatal(err)
	}
	if result.Failed+result.Refused > 0 {
		t.Fatalf("%s: %d requests failed, and %d were refused: %s", s.example, result.Failed, result.Refused, result.Failure)
	}
	s.application.take()
	return result
}
