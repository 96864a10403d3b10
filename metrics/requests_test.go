package metrics

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/throttledhq/throttled/server/statistics"
)

// requestLines returns the lines of a scrape for requests.
func requestLines(t *testing.T, m *Metrics) []string {
	t.Helper()
	return slices.DeleteFunc(scrape(t, m), func(line string) bool {
		return !strings.Contains(line, "c_requests_total{") && !strings.Contains(line, "p_requests_total{") && !strings.Contains(line, "_request_seconds_count{")
	})
}

func emptyMetrics() *Metrics {
	return New(Sources{Server: func() statistics.Server { return statistics.Server{} }})
}

// TestRequests checks codes of HTTP and of gRPC, also those that are not valid.
func TestRequests(t *testing.T) {
	m := emptyMetrics()
	for _, code := range []int{200, 200, 429, 599, 600, 99, 0, -1, 1 << 40} {
		m.HTTP().ObserveRequest("/check", code, time.Millisecond)
	}
	for _, code := range []int{0, 14, 16, 17, -1} {
		m.GRPC().ObserveRequest("Authorization/Check", code, time.Millisecond)
	}
	want := []string{
		`throttled_grpc_request_seconds_count{method="Authorization/Check"} 5`,
		`throttled_grpc_requests_total{code="OK",method="Authorization/Check"} 1`,
		`throttled_grpc_requests_total{code="Unauthenticated",method="Authorization/Check"} 1`,
		`throttled_grpc_requests_total{code="Unavailable",method="Authorization/Check"} 1`,
		`throttled_grpc_requests_total{code="other",method="Authorization/Check"} 2`,
		`throttled_http_request_seconds_count{endpoint="/check"} 9`,
		`throttled_http_requests_total{code="200",endpoint="/check"} 2`,
		`throttled_http_requests_total{code="429",endpoint="/check"} 1`,
		`throttled_http_requests_total{code="599",endpoint="/check"} 1`,
		`throttled_http_requests_total{code="other",endpoint="/check"} 5`,
	}
	if got := requestLines(t, m); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestManyEndpoints checks that the number of endpoints is bounded.
func TestManyEndpoints(t *testing.T) {
	m := emptyMetrics()
	for range 2 {
		for i := range 10 * maxEndpoints {
			m.HTTP().ObserveRequest(fmt.Sprint("/", i), 200, 0)
		}
	}
	lines := requestLines(t, m)
	if len(lines) != 2*(maxEndpoints+1) {
		t.Errorf("got %d lines, want two for each of %d endpoints", len(lines), maxEndpoints+1)
	}
	want := fmt.Sprintf(`throttled_http_requests_total{code="200",endpoint="other"} %d`, 2*9*maxEndpoints)
	if !slices.Contains(lines, want) {
		t.Errorf("the scrape lacks %s", want)
	}
}

// TestConcurrentRequests checks that no request is lost, and that a known endpoint does not allocate.
func TestConcurrentRequests(t *testing.T) {
	m := emptyMetrics()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 1000 {
				m.HTTP().ObserveRequest(fmt.Sprint(i%7), 200, time.Microsecond)
			}
		})
	}
	all.Wait()
	total := 0
	for _, line := range requestLines(t, m) {
		if name, count, _ := strings.Cut(line, "} "); strings.HasPrefix(name, "throttled_http_requests_total") {
			var n int
			if _, err := fmt.Sscan(count, &n); err != nil {
				t.Fatal(err)
			}
			total += n
		}
	}
	if total != 4000 {
		t.Errorf("got %d requests, want 4000", total)
	}
	if n := testing.AllocsPerRun(100, func() { m.HTTP().ObserveRequest("1", 429, time.Millisecond) }); n != 0 {
		t.Errorf("ObserveRequest allocates %v times, want 0", n)
	}
}

func BenchmarkObserveRequest(b *testing.B) {
	m := emptyMetrics()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			m.HTTP().ObserveRequest("GET /check/nginx/{domain}", 200, time.Millisecond)
		}
	})
}
