package edge

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/edge/decision"
	"github.com/throttledhq/throttled/options"
)

func TestHealth(t *testing.T) {
	f := newFake(t, func(f *fake) { f.access.password = "secret"; f.access.refused = true })
	if response, body := f.get(t, "/healthz"); response.StatusCode != 200 || body != "ok\n" {
		t.Errorf("health: %d, %q", response.StatusCode, body)
	}
	if response, body := f.get(t, "/readyz"); response.StatusCode != 200 || body != "ready\n" {
		t.Errorf("ready: %d, %q", response.StatusCode, body)
	}
	f.ready = errors.New("the cluster has no leader")
	if response, body := f.get(t, "/readyz"); response.StatusCode != 503 || !strings.Contains(body, "the cluster has no leader") {
		t.Errorf("not ready: %d, %q", response.StatusCode, body)
	}
}

func TestRules(t *testing.T) {
	f := newFake(t, nil)
	if response, body := f.get(t, "/v1/rules"); response.StatusCode != 404 || !strings.Contains(body, "no rules are loaded") {
		t.Errorf("without rules: %d, %s", response.StatusCode, body)
	}
	f.rules = "version: 1"
	response, body := f.get(t, "/v1/rules")
	if response.StatusCode != 200 || body != f.rules || response.Header.Get("ETag") != `"10"` || response.Header.Get("Content-Type") != "application/yaml" {
		t.Errorf("rules: %d, %q, %v", response.StatusCode, body, response.Header)
	}
	if response, _ := f.get(t, "/v1/rules", `If-None-Match: "10"`); response.StatusCode != 304 {
		t.Errorf("unchanged rules: %d, want 304", response.StatusCode)
	}
	f.rulesErr = errors.New("damaged")
	if response, body := f.get(t, "/v1/rules"); response.StatusCode != 503 || !strings.Contains(body, "damaged") {
		t.Errorf("damaged rules: %d, %s", response.StatusCode, body)
	}
}

func TestRoutes(t *testing.T) {
	f := newFake(t, nil)
	for target, status := range map[string]int{"/": 404, "/v1": 404, "/v1/check": 405, "/v1/check/": 404, "/metrics": 404, "/healthz/": 404, "/debug/pprof/": 404} {
		response, body := f.get(t, target)
		if response.StatusCode != status || response.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("GET %s: %d, %s, want %d", target, response.StatusCode, body, status)
		}
		if status == 405 && response.Header.Get("Allow") != "POST" {
			t.Errorf("GET %s: Allow is %q", target, response.Header.Get("Allow"))
		}
	}
	if response, _ := f.post(t, "/healthz", ""); response.StatusCode != 405 {
		t.Errorf("POST /healthz: %d, want 405", response.StatusCode)
	}
}

// A handler that panics is an error of one request.
func TestPanic(t *testing.T) {
	f := newFake(t, nil)
	f.config.Rules = nil
	if response, body := f.get(t, "/v1/rules"); response.StatusCode != 500 || !strings.Contains(body, `"error":"internal"`) {
		t.Errorf("panic: %d, %s", response.StatusCode, body)
	}
	if response, _ := f.get(t, "/healthz"); response.StatusCode != 200 {
		t.Errorf("after a panic: %d", response.StatusCode)
	}
}

// While the server drains, it completes requests, and asks clients to close their connections.
func TestDrain(t *testing.T) {
	f := newFake(t, nil)
	conn, err := net.Dial("tcp", f.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	in := bufio.NewReader(conn)
	ask := func() *http.Response {
		t.Helper()
		if _, err := io.WriteString(conn, "GET /check/envoy/shop/a HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: ::1\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		return response
	}
	if response := ask(); response.StatusCode != 200 || response.Close {
		t.Errorf("before: status %d, close %v", response.StatusCode, response.Close)
	}
	f.Drain()
	if response, _ := f.get(t, "/readyz"); response.StatusCode != 503 {
		t.Errorf("readiness while draining: %d, want 503", response.StatusCode)
	}
	if response := ask(); response.StatusCode != 200 || !response.Close {
		t.Errorf("while draining: status %d, close %v", response.StatusCode, response.Close)
	}
	if err := f.Shutdown(context.Background()); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if _, err := net.Dial("tcp", f.addr); err == nil {
		t.Error("after Shutdown, a connection was accepted")
	}
}

func TestShutdown_Deadline(t *testing.T) {
	f := newFake(t, nil)
	conn, err := net.Dial("tcp", f.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil { // the handler reads the body
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := f.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown: %v, want %v", err, context.Canceled)
	}
}

func TestObserve(t *testing.T) {
	f := newFake(t, nil)
	observed := make(chan string, 1)
	f.config.Observe = func(endpoint string, code int, elapsed time.Duration) {
		if elapsed <= 0 {
			t.Errorf("elapsed %v", elapsed)
		}
		observed <- endpoint + " " + text(int64(code))
	}
	for target, want := range map[string]string{"/check/envoy/shop/a": "/check/envoy 500", "/check/x/y": "other 404", "/healthz": "/healthz 200", "/nothing": "other 404", "/v1/check": "/v1/check 405"} {
		f.get(t, target)
		if got := <-observed; got != want {
			t.Errorf("%s: %q, want %q", target, got, want)
		}
	}
}

func TestProxyProtocol(t *testing.T) {
	f := newFake(t, func(f *fake) { f.options.HTTPProxyProtocol = true })
	f.exchange(t, "PROXY TCP4 192.0.2.7 192.0.2.1 1000 6381\r\nGET /check/envoy/shop/a HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 127.0.0.1\r\n\r\n")
	if len(f.commands) != 1 {
		t.Fatalf("commands %q", f.commands)
	}
	conn, err := net.Dial("tcp", f.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if b, _ := io.ReadAll(conn); strings.Contains(string(b), "200") {
		t.Errorf("without a header of the PROXY protocol: %q", b)
	}
}

func TestProxyProtocol_Untrusted(t *testing.T) {
	f := newFake(t, func(f *fake) { f.options.HTTPProxyProtocol, f.options.TrustedProxies = true, nil })
	conn, err := net.Dial("tcp", f.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, "PROXY TCP4 192.0.2.7 192.0.2.1 1000 6381\r\nGET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
	if b, _ := io.ReadAll(conn); strings.Contains(string(b), "200") {
		t.Errorf("from an address that is not trusted: %q", b)
	}
}

func TestNew_Invalid(t *testing.T) {
	o := options.Default()
	o.EdgeAttributes = []string{"user"}
	_, err := New(Config{Options: &o, Checker: decision.New(nil), Log: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.HasPrefix(err.Error(), "option edge-attributes: ") {
		t.Errorf("error %v", err)
	}
}
