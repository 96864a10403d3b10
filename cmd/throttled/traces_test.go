package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/throttledhq/throttled/internal/freeport"
)

// TestTraces checks that requests over HTTP and gRPC have spans with their decisions.
func TestTraces(t *testing.T) {
	spans := make(chan string, 64)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		var export collector.ExportTraceServiceRequest
		if err := proto.Unmarshal(body, &export); err != nil {
			t.Error(err)
		}
		for _, rs := range export.GetResourceSpans() {
			for _, ss := range rs.GetScopeSpans() {
				for _, s := range ss.GetSpans() {
					spans <- s.GetName() + " " + fmt.Sprint(s.GetAttributes())
				}
			}
		}
	}))
	defer receiver.Close()
	grpcPort := fmt.Sprint(freeport.Of(t))
	r, c := startEdges(t, "--grpc-port", grpcPort, "--otlp-endpoint", receiver.URL, "--otlp-sample-percent", "100")
	c.do("POST", "/v1/check", `{"domain":"shop","attributes":{"path":"/login","ip":"192.0.2.7"}}`, "Content-Type", "application/json")
	c.do("GET", "/check/traefik/shop", "", "X-Forwarded-Method", "POST", "X-Forwarded-Uri", "/login", "X-Forwarded-Host", "h", "X-Forwarded-For", "192.0.2.7")
	conn, err := grpc.NewClient("127.0.0.1:"+grpcPort, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	request := &rls.RateLimitRequest{Domain: "shop", Descriptors: []*ratelimit.RateLimitDescriptor{{Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "path", Value: "/login"}}}}}
	if _, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	r.stop()
	r.wait() // sends the spans
	close(spans)
	var all []string
	for s := range spans {
		all = append(all, s)
	}
	for _, want := range []string{"/v1/check ", "/check/traefik ", "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit "} {
		if !slices.ContainsFunc(all, func(s string) bool {
			return strings.HasPrefix(s, want) && strings.Contains(s, "throttled.domain") && strings.Contains(s, "shop") && strings.Contains(s, "allow") && !strings.Contains(s, "192.0.2.7")
		}) {
			t.Errorf("no span %swith a decision in %q", want, all)
		}
	}
}

// TestTracesEndpoint checks the error for an endpoint that is not a URL, and the exit code of wrong settings.
func TestTracesEndpoint(t *testing.T) {
	checkRefused(t, exitUsage, []string{"--port", "0", "--otlp-endpoint", "localhost:4318"}, "throttled: option otlp-endpoint must", "http://127.0.0.1:4318")
}
