package loadgen

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

func template(t *testing.T, text string) Template {
	t.Helper()
	got, err := NewTemplate(text)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestTemplate(t *testing.T) {
	if got := string(template(t, "a"+Placeholder+"b").append([]byte("x "), 1234)); got != "x a00001234b" {
		t.Errorf("key 1234: got %q, want %q", got, "x a00001234b")
	}
	for _, bad := range []string{"", "none", Placeholder + " " + Placeholder} {
		if _, err := NewTemplate(bad); err == nil {
			t.Errorf("template %q: no error, want one", bad)
		}
	}
}

func TestHTTP_Parse(t *testing.T) {
	ok := "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: y\r\n\r\n{}"
	limited := "HTTP/1.1 429 Too Many Requests\r\nCache-Control: no-store\r\ncontent-length:3\r\n\r\nno\n"
	nginx := "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"
	broken := "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\ndown"
	for _, tt := range []struct {
		in     string
		parsed int
		want   []Reply
	}{
		{"", 0, nil},
		{ok[:10], 0, nil},
		{ok[:len(ok)-1], 0, nil},
		{ok, len(ok), []Reply{{Outcome: Admitted}}},
		{ok + limited + nginx + ok[:20], len(ok + limited + nginx), []Reply{{Outcome: Admitted}, {Outcome: Refused}, {Outcome: Refused}}},
		{broken, len(broken), []Reply{{Outcome: Failed, Text: "HTTP/1.1 503 Service Unavailable: down"}}},
	} {
		parsed, out, got, err := (&HTTP{}).Parse([]byte(tt.in), nil, nil)
		if parsed != tt.parsed || len(out) > 0 || fmt.Sprint(got) != fmt.Sprint(tt.want) || err != nil {
			t.Errorf("%q: parsed %d, replies %v, error %v; want %d and %v", tt.in, parsed, got, err, tt.parsed, tt.want)
		}
	}
	for _, bad := range []string{
		"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	} {
		if _, _, _, err := (&HTTP{}).Parse([]byte(bad), nil, nil); err == nil {
			t.Errorf("%q: no error, want one", bad)
		}
	}
}

// keyServer answers each request with 200, and with 429 if its key is 3. It counts the keys.
type keyServer struct {
	mu     sync.Mutex
	counts map[string]int
}

func (k *keyServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key, _ := io.ReadAll(r.Body)
	k.mu.Lock()
	k.counts[string(key)]++
	k.mu.Unlock()
	if string(key) == "00000003" {
		w.WriteHeader(http.StatusTooManyRequests)
	}
	_, _ = io.WriteString(w, strings.Repeat("x", 100))
}

const call = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8\r\n\r\n" + Placeholder

func httpLoad(t *testing.T, handler http.Handler) Load {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	request := template(t, call)
	return Load{
		Addr: server.Listener.Addr().String(), Protocol: func() Protocol { return NewHTTP(request) },
		Conns: 5, Streams: 1, Keys: 10, Warmup: time.Millisecond, Duration: time.Minute, Requests: 1000,
	}
}

func TestRun_ClosedLoop(t *testing.T) {
	keys := &keyServer{counts: map[string]int{}}
	load := httpLoad(t, keys)
	r, err := Run(load)
	if err != nil {
		t.Fatal(err)
	}
	total := r.Admitted + r.Refused
	if r.Failed > 0 || r.Refused == 0 || r.Admitted <= r.Refused || r.Latency.TotalCount() != total {
		t.Errorf("got %+v, want more admitted than refused, none failed, and a latency of each", r)
	}
	if got := r.PerSecond(); got < 1 || got != float64(total)/r.Elapsed.Seconds() {
		t.Errorf("got %v requests per second", got)
	}
	keys.mu.Lock()
	defer keys.mu.Unlock()
	if len(keys.counts) != load.Keys {
		t.Errorf("got the keys %v, want %d", keys.counts, load.Keys)
	}
}

func TestRun_OpenLoop(t *testing.T) {
	load := httpLoad(t, &keyServer{counts: map[string]int{}})
	load.Rate, load.Requests = 1000, 100
	begin := time.Now()
	r, err := Run(load)
	if err != nil {
		t.Fatal(err)
	}
	// Several replies can arrive at the same time.
	if got := r.Admitted + r.Refused; got < load.Requests || r.Failed > 0 {
		t.Errorf("got %d replies, and %d failures; want %d replies", got, r.Failed, load.Requests)
	}
	if took, least := time.Since(begin), 99*time.Millisecond; took < least {
		t.Errorf("100 requests at %v per second took %v, want at least %v", load.Rate, took, least)
	}
}

// TestRun_LatencyCountsFromSchedule checks that requests without a free connection are not omitted.
func TestRun_LatencyCountsFromSchedule(t *testing.T) {
	const stall = 100 * time.Millisecond
	var once sync.Once
	load := httpLoad(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		once.Do(func() { time.Sleep(stall) }) // the stall whose effect is measured
		_, _ = io.WriteString(w, "x")
	}))
	load.Conns, load.Rate, load.Warmup, load.Requests = 1, 200, 0, 40
	r, err := Run(load)
	if err != nil {
		t.Fatal(err)
	}
	// About half of the requests are due during the stall, and wait for half of it on average.
	if got := r.Latency.ValueAtPercentile(80); got < int64(stall/4) {
		t.Errorf("the server stalls for half of the time: 80 %% of latencies are below %v, want above %v", time.Duration(got), stall/4)
	}
}

func TestRun_Failures(t *testing.T) {
	r, err := Run(httpLoad(t, http.NotFoundHandler()))
	if err != nil || r.Failed == 0 || !strings.Contains(r.Failure, "404") {
		t.Errorf("server answers 404: got %+v, error: %v; want failures", r, err)
	}
	load := httpLoad(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") }))
	if _, err := Run(load); err == nil {
		t.Error("server closes connections: no error, want one")
	}
	load.Addr = "localhost:1"
	if _, err := Run(load); err == nil {
		t.Error("address without an IPv4 address: no error, want one")
	}
}
