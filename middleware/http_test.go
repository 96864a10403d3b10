package middleware

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttledhq/throttled/middleware/internal/testserver"
)

// get sends a request and returns the response with its body.
func get(t *testing.T, url string, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

// serve starts an HTTP server until the test ends, and returns its URL.
func serve(t *testing.T, handler http.Handler) string {
	t.Helper()
	srv := httptest.NewServer(handler)
	t.Cleanup(srv.Close)
	return srv.URL
}

var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })

// TestHTTP_RandomKeys checks that a client which sends a new API key with each request has the limit of its address.
func TestHTTP_RandomKeys(t *testing.T) {
	srv := testserver.Start(t, program, "")
	l := New(connect(t, srv.Addr, 3), patient())
	limits := PerIP(Proxies{}, Limit{Name: "ip", Count: 5, Period: time.Hour}).PerHeader("X-Api-Key", Limit{Name: "key", Count: 2, Period: time.Hour})
	url := serve(t, l.Handler(limits.Request)(hello))
	for i := range 5 {
		response, body := get(t, url, "X-Api-Key", fmt.Sprint(i), "X-Forwarded-For", fmt.Sprintf("192.0.2.%d", i))
		if response.StatusCode != 200 || body != "hello" {
			t.Errorf("request %d: %d %s", i, response.StatusCode, body)
		}
		if got := response.Header.Get("RateLimit-Policy"); got != `"ip";q=5;w=3600, "key";q=2;w=3600` {
			t.Errorf("request %d: RateLimit-Policy: %s", i, got)
		}
		if got := response.Header.Get("X-RateLimit-Remaining"); got != fmt.Sprint(min(4-i, 1)) {
			t.Errorf("request %d: X-RateLimit-Remaining: %s", i, got)
		}
	}
	response, body := get(t, url, "X-Api-Key", "new")
	var p problem
	if err := json.Unmarshal([]byte(body), &p); err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != 429 || p.RetryAfter == 0 || response.Header.Get("Retry-After") != fmt.Sprint(p.RetryAfter) || !slices.Equal(p.Violated, []string{"ip"}) {
		t.Errorf("refused: %d %q %s", response.StatusCode, response.Header, body)
	}
	if got := response.Header.Get("RateLimit"); got != fmt.Sprintf(`"ip";r=0;t=%d`, p.RetryAfter) {
		t.Errorf("refused: RateLimit: %s", got)
	}
}

// TestHTTP_Rules checks limits of a rules file, and that failed logins are charged by their status.
func TestHTTP_Rules(t *testing.T) {
	srv := testserver.Start(t, program, `
version: 1
domain: shop
limits:
  login:
    when: {path: /login}
    per: ip
    allow: 2 per hour
    charge: {status: [401, 500]}
`)
	l := New(connect(t, srv.Addr, 3), patient())
	var status atomic.Int64
	status.Store(http.StatusOK)
	url := serve(t, l.Handler(Rules{Domain: "shop"}.Request)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		switch status := int(status.Load()); status {
		case http.StatusOK:
			_, _ = io.WriteString(w, "ok")
		case http.StatusInternalServerError:
			panic(http.ErrAbortHandler)
		default:
			w.WriteHeader(status)
		}
	})))
	for range 5 {
		if response, body := get(t, url+"/login"); response.StatusCode != 200 || body != "ok" || response.Header.Get("X-RateLimit-Remaining") != "1" {
			t.Errorf("success: %d %q", response.StatusCode, response.Header)
		}
	}
	status.Store(http.StatusUnauthorized)
	get(t, url+"/login")
	status.Store(http.StatusInternalServerError)
	if response, err := http.Get(url + "/login"); err == nil {
		t.Errorf("panic: %d", response.StatusCode)
		_ = response.Body.Close()
	}
	eventually(t, func() bool {
		response, _ := get(t, url+"//x/../login;v=1")
		return response.StatusCode == 429
	})
	status.Store(http.StatusOK)
	if response, _ := get(t, url+"/other"); response.Header.Get("RateLimit") != "" {
		t.Errorf("another path: %q", response.Header)
	}
}

// TestHTTP_Unavailable checks the responses of the policies Open and Closed.
func TestHTTP_Unavailable(t *testing.T) {
	down := &fake{reply: func(context.Context, []any) (any, error) { return nil, net.ErrClosed }}
	limits := PerIP(Proxies{}, PerMinute(1))
	if response, body := get(t, serve(t, New(down, Config{}).Handler(limits.Request)(hello))); response.StatusCode != 200 || body != "hello" {
		t.Errorf("open: %d %s", response.StatusCode, body)
	}
	response, body := get(t, serve(t, New(down, Config{OnFailure: Closed}).Handler(limits.Request)(hello)))
	if response.StatusCode != 503 || response.Header.Get("Retry-After") != "1" || !strings.Contains(body, "temporary-reduced-capacity") {
		t.Errorf("closed: %d %q %s", response.StatusCode, response.Header, body)
	}
}

func TestHTTP_Refused(t *testing.T) {
	full := &fake{reply: func(context.Context, []any) (any, error) { return reply(1, 1, 0, 1000, 1000), nil }}
	h := HTTP{Limiter: New(full, Config{}), Request: PerIP(Proxies{}, PerMinute(1)).Request,
		Refused: func(w http.ResponseWriter, r *http.Request, d Decision) {
			http.Error(w, r.URL.Path+d.Name, http.StatusTeapot)
		}}
	if response, body := get(t, serve(t, h.Wrap(hello))+"/tea/"); response.StatusCode != 418 || body != "/tea/default\n" || response.Header.Get("Retry-After") != "1" {
		t.Errorf("got %d %q %s", response.StatusCode, response.Header, body)
	}
}

func TestHTTP_MaxWait(t *testing.T) {
	slow, fast := Limit{Count: 1, Period: time.Hour}, Limit{Count: 20, Period: time.Second, Burst: 1}
	for _, c := range []struct {
		limit   Limit
		maxWait time.Duration
		status  int
	}{{slow, 0, 429}, {slow, time.Second, 429}, {fast, patience, 200}} {
		l := New(limitedServer(c.limit), patient())
		url := serve(t, HTTP{Limiter: l, Request: PerIP(Proxies{}, c.limit).Request, MaxWait: c.maxWait}.Wrap(hello))
		get(t, url)
		response, _ := get(t, url)
		if response.StatusCode != c.status {
			t.Errorf("MaxWait %v: %d, want %d", c.maxWait, response.StatusCode, c.status)
		}
		if after := response.Header.Get("Retry-After"); (after == "3600") != (c.status == 429) {
			t.Errorf("MaxWait %v: Retry-After: %q", c.maxWait, after)
		}
	}
}

// TestHTTP_LeakyBucket checks that a request is delayed, and refused if the delay is longer than MaxWait.
func TestHTTP_LeakyBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			maxWait time.Duration
			status  int
			delay   time.Duration
		}{{0, 200, 700 * time.Millisecond}, {time.Second, 200, 700 * time.Millisecond}, {600 * time.Millisecond, 429, 0}} {
			h := HTTP{Limiter: New(leakyServer(), Config{}), Request: Rules{Domain: "shop"}.Request, MaxWait: c.maxWait}.Wrap(hello)
			began, w := time.Now(), httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
			if took := time.Since(began); w.Code != c.status || took != c.delay || (w.Header().Get("Retry-After") == "1") != (c.status == 429) {
				t.Errorf("MaxWait %v: %d after %v, %q", c.maxWait, w.Code, took, w.Header())
			}
		}
	})
}

// TestHTTP_Disconnected checks that a request whose client has disconnected is not served.
func TestHTTP_Disconnected(t *testing.T) {
	asked, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	silent := &fake{reply: func(context.Context, []any) (any, error) {
		close(asked)
		<-release
		return reply(0, 1, 0, -1, 1), nil
	}}
	var served atomic.Bool
	h := New(silent, patient()).Handler(PerIP(Proxies{}, PerMinute(1)).Request)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		served.Store(true)
	}))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
	if served.Load() || w.Code != 503 {
		t.Errorf("served: %v, status %d", served.Load(), w.Code)
	}
}

// TestStatusRecorder checks that a handler can still flush and take over its connection.
func TestStatusRecorder(t *testing.T) {
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w = &statusRecorder{ResponseWriter: w}
		if r.URL.Path == "/flush" {
			_, _ = io.WriteString(w, "part")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler) // without Flush, the client would not get the part
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n")
		_ = conn.Close()
	}))
	if response, _ := get(t, url+"/hijack"); response.StatusCode != 204 {
		t.Errorf("hijack: %d", response.StatusCode)
	}
	response, err := http.Get(url + "/flush")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	part := make([]byte, 4)
	if _, err := io.ReadFull(bufio.NewReader(response.Body), part); err != nil || string(part) != "part" {
		t.Errorf("flush: %s, %v", part, err)
	}
}
