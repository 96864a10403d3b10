package tracing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// receiver is a receiver of OTLP over HTTP.
type receiver struct {
	*httptest.Server
	t *testing.T

	mu       sync.Mutex
	paths    []string
	resource string
	spans    []*otlp.Span
}

func startReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{t: t}
	r.Server = httptest.NewServer(http.HandlerFunc(r.receive))
	t.Cleanup(r.Close)
	return r
}

// receive decodes an export request.
func (r *receiver) receive(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		r.t.Errorf("read a request: %v", err)
	}
	var export collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &export); err != nil {
		r.t.Errorf("decode a request: %v", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.paths = append(r.paths, req.URL.Path)
	for _, rs := range export.GetResourceSpans() {
		r.resource = fmt.Sprint(rs.GetResource().GetAttributes())
		for _, ss := range rs.GetScopeSpans() {
			r.spans = append(r.spans, ss.GetSpans()...)
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// provider returns a Provider that sends to the receiver.
func (r *receiver) provider(percent int) *Provider {
	r.t.Helper()
	p, err := Start(Config{Endpoint: r.URL, Percent: percent, Version: "v1", Node: "n1", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

// received closes the provider, and returns the spans that it has sent.
func (r *receiver) received(p *Provider) []*otlp.Span {
	r.t.Helper()
	if err := p.Close(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.spans
}

// attributesOf returns the attributes of a span, such as "http.route=/v1/check", in alphabetical order.
func attributesOf(s *otlp.Span) string {
	var list []string
	for _, a := range s.GetAttributes() {
		value := a.GetValue().GetStringValue()
		if value == "" {
			value = fmt.Sprint(a.GetValue().GetIntValue())
		}
		list = append(list, a.GetKey()+"="+value)
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

const (
	traceID = "0af7651916cd43dd8448eb211c80319c"
	parent  = "00-" + traceID + "-b7ad6b7169203331-01"
	unseen  = "00-" + traceID + "-b7ad6b7169203331-00" // the caller is not traced
)

// decide is a handler that reports a decision.
func decide(w http.ResponseWriter, r *http.Request) {
	Route(r.Context(), "/v1/check")
	Decided(r.Context(), "shop", "deny", "login")
	w.WriteHeader(http.StatusTooManyRequests)
}

// serve sends a request to a handler.
func serve(t *testing.T, h http.Handler, method, traceparent string) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), method, "/secret?key=secret", nil)
	req.Header.Set("Authorization", "Bearer secret")
	if traceparent != "" {
		req.Header.Set("traceparent", traceparent)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}

// TestHTTP checks the span of a request with a traced caller.
func TestHTTP(t *testing.T) {
	r := startReceiver(t)
	p := r.provider(0)
	if w := serve(t, p.HTTP(http.HandlerFunc(decide)), http.MethodPost, parent); w.Code != http.StatusTooManyRequests {
		t.Errorf("the response has status %d, want 429", w.Code)
	}
	spans := r.received(p)
	if len(spans) != 1 {
		t.Fatalf("got %d spans, want 1", len(spans))
	}
	s := spans[0]
	if got := fmt.Sprintf("%x %x %v %s", s.GetTraceId(), s.GetParentSpanId(), s.GetKind(), s.GetName()); got != traceID+" b7ad6b7169203331 SPAN_KIND_SERVER /v1/check" {
		t.Errorf("got %s, want the trace of the caller and the route", got)
	}
	const want = "http.request.method=POST http.response.status_code=429 http.route=/v1/check throttled.domain=shop throttled.limit=login throttled.outcome=deny"
	if got := attributesOf(s); got != want {
		t.Errorf("got the attributes %s, want %s", got, want)
	}
	if !slices.Equal(r.paths, []string{"/v1/traces"}) {
		t.Errorf("got requests with the paths %q, want /v1/traces", r.paths)
	}
	for _, want := range []string{"throttled", "v1", "n1"} {
		if !strings.Contains(r.resource, want) {
			t.Errorf("the resource is %s, want %s", r.resource, want)
		}
	}
	if text := spans[0].String() + r.resource; strings.Contains(text, "secret") {
		t.Errorf("the span contains a path, a query or a header of the request: %s", text)
	}
}

// TestSampling checks the requests that are traced.
func TestSampling(t *testing.T) {
	for _, c := range []struct {
		percent     int
		traceparent string
		want        int
	}{{0, "", 0}, {100, "", 1}, {0, parent, 1}, {100, unseen, 0}, {100, "junk", 1}, {0, "junk", 0}} {
		r := startReceiver(t)
		p := r.provider(c.percent)
		serve(t, p.HTTP(http.HandlerFunc(decide)), http.MethodGet, c.traceparent)
		if got := len(r.received(p)); got != c.want {
			t.Errorf("%d percent, traceparent %q: got %d spans, want %d", c.percent, c.traceparent, got, c.want)
		}
	}
}

// TestStatus checks the status of responses, and an unknown method.
func TestStatus(t *testing.T) {
	r := startReceiver(t)
	p := r.provider(100)
	for _, h := range []http.HandlerFunc{
		func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "x") },
		func(http.ResponseWriter, *http.Request) {},
		func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusServiceUnavailable)
		},
	} {
		serve(t, p.HTTP(h), "SECRET", "")
	}
	var got []string
	for _, s := range r.received(p) {
		got = append(got, attributesOf(s)+" "+s.GetStatus().GetCode().String()+" "+s.GetName())
	}
	const head = "http.request.method=_OTHER http.response.status_code="
	want := []string{head + "200 STATUS_CODE_UNSET HTTP request", head + "200 STATUS_CODE_UNSET HTTP request", head + "503 STATUS_CODE_ERROR HTTP request"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestGRPC checks the span of a call.
func TestGRPC(t *testing.T) {
	r := startReceiver(t)
	p := r.provider(0)
	s := grpc.NewServer(grpc.StatsHandler(p.GRPC()), grpc.UnaryInterceptor(
		func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			Decided(ctx, "shop", "allow", "api")
			return handler(ctx, req)
		}))
	healthpb.RegisterHealthServer(s, health.NewServer())
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(ln) }() // returns when the server stops
	conn, err := grpc.NewClient(ln.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", parent, "authorization", "Bearer secret")
	if _, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	s.GracefulStop()
	spans := r.received(p)
	if len(spans) != 1 {
		t.Fatalf("got %d spans, want 1", len(spans))
	}
	if got := fmt.Sprintf("%x %s", spans[0].GetTraceId(), spans[0].GetName()); got != traceID+" grpc.health.v1.Health/Check" {
		t.Errorf("got %s, want the trace of the caller and the method", got)
	}
	for _, want := range []string{"throttled.domain=shop", "throttled.limit=api", "throttled.outcome=allow"} {
		if got := attributesOf(spans[0]); !strings.Contains(got, want) || strings.Contains(got, "secret") {
			t.Errorf("got the attributes %s, want %s, and no password", got, want)
		}
	}
}

// TestOff checks that a nil Provider changes nothing and costs nothing.
func TestOff(t *testing.T) {
	p, err := Start(Config{})
	if p != nil || err != nil {
		t.Fatalf("without an endpoint, Start returns %v and %v, want nil", p, err)
	}
	h := http.NewServeMux()
	if got := p.HTTP(h); got != http.Handler(h) {
		t.Error("HTTP does not return the handler unchanged")
	}
	if p.GRPC() != nil {
		t.Error("GRPC returns a handler")
	}
	if err := p.Close(t.Context()); err != nil {
		t.Errorf("Close returns %v", err)
	}
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() { Decided(ctx, "shop", "deny", "login"); Route(ctx, "/v1/check") }); n != 0 {
		t.Errorf("an untraced decision allocates %v times, want 0", n)
	}
}

// TestEndpoints checks the endpoints that Start accepts, and the paths of requests.
func TestEndpoints(t *testing.T) {
	for _, bad := range []string{"127.0.0.1:4318", "localhost:4318", "ftp://h", "http://", "http://user:secret@[::1", "http://user:secret@h:1", "https://secret@h", "/v1/traces", "x"} {
		p, err := Start(Config{Endpoint: bad})
		if p != nil || !errors.Is(err, ErrEndpoint) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want ErrEndpoint", bad, err)
		}
	}
	for given, want := range map[string]string{
		"http://h:1": "http://h:1/v1/traces", "https://h/": "https://h/v1/traces", "http://h/x/y": "http://h/x/y",
	} {
		if got := withPath(given); got != want {
			t.Errorf("%s: got %s, want %s", given, got, want)
		}
	}
}

// lockedBuffer is a buffer for concurrent use.
type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

// TestReceiverDown checks that requests are served at the usual speed if the receiver refuses spans, and that the errors are
// logged once.
func TestReceiverDown(t *testing.T) {
	down := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) }))
	defer down.Close()
	var log lockedBuffer
	p, err := Start(Config{Endpoint: down.URL, Percent: 100, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	h := p.HTTP(http.HandlerFunc(decide))
	for range 3 * maxQueue {
		serve(t, h, http.MethodGet, "")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_ = p.Close(ctx) // the last spans cannot be sent either
	if n := strings.Count(log.String(), failedText); n != 1 {
		t.Errorf("got %d log lines, want 1:\n%s", n, log.String())
	}
}

func BenchmarkHTTP(b *testing.B) {
	for _, c := range []struct {
		name    string
		percent int
	}{{"off", -1}, {"not sampled", 0}} {
		b.Run(c.name, func(b *testing.B) {
			var p *Provider
			if c.percent >= 0 {
				var err error
				if p, err = Start(Config{Endpoint: "http://127.0.0.1:9", Percent: c.percent, Log: slog.New(slog.DiscardHandler)}); err != nil {
					b.Fatal(err)
				}
			}
			h := p.HTTP(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			w, req := httptest.NewRecorder(), httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/", nil)
			b.ReportAllocs()
			for b.Loop() {
				h.ServeHTTP(w, req)
			}
		})
	}
}
