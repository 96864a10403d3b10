// Package tracing sends traces of HTTP and gRPC requests to a receiver of OTLP.
//
// [Start] returns a [Provider], which is nil if no receiver is configured. All methods of a nil Provider are valid: they
// return handlers unchanged, so that requests cost nothing more.
//
// Each request has one span, which continues the trace of a caller that sends a traceparent header. A handler adds the result
// of a decision by [Decided]. No attribute contains a key, an attribute or a path of the request.
package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/stats"
)

// Config configures a Provider.
type Config struct {
	Endpoint string       // URL of the receiver; empty disables traces. A URL without a path means the path /v1/traces
	Percent  int          // percentage of the requests without a traced caller that are traced: 0 to 100
	Version  string       // of the program
	Node     string       // name of this node; empty for a standalone server
	Log      *slog.Logger // receives errors of sending
}

// ErrEndpoint is wrapped by the errors of Start for a URL that cannot be used.
var ErrEndpoint = errors.New("otlp-endpoint must be a URL with http or https and a host, without a user, such as http://127.0.0.1:4318; credentials belong in the environment variable OTEL_EXPORTER_OTLP_HEADERS")

// Provider makes the spans of requests, and sends them in the background. A nil Provider traces nothing.
type Provider struct {
	spans      *sdktrace.TracerProvider
	tracer     trace.Tracer
	propagator propagation.TextMapPropagator
}

// Limits of the spans that wait to be sent. If the receiver is slow, further spans are dropped.
const (
	maxQueue    = 2048
	maxBatch    = 512
	sendTimeout = 10 * time.Second
)

// Start returns a Provider that sends traces to c.Endpoint, or nil if it is empty. The receiver need not be reachable.
func Start(c Config) (*Provider, error) {
	if c.Endpoint == "" {
		return nil, nil
	}
	if err := checkEndpoint(c.Endpoint); err != nil {
		return nil, err
	}
	exporter, err := otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(withPath(c.Endpoint)), otlptracehttp.WithTimeout(sendTimeout))
	if err != nil {
		return nil, fmt.Errorf("open the exporter of traces: %w", err)
	}
	logErrors(c.Log)
	spans := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter, sdktrace.WithMaxQueueSize(maxQueue), sdktrace.WithMaxExportBatchSize(maxBatch)),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(float64(c.Percent)/100))),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "throttled"), attribute.String("service.version", c.Version), attribute.String("service.instance.id", c.Node),
		)),
	)
	return &Provider{spans, spans.Tracer("github.com/throttledhq/throttled"), propagation.TraceContext{}}, nil
}

// checkEndpoint returns an error that wraps ErrEndpoint unless text is a URL of HTTP without a user: CONFIG GET would show its
// password, which is not sent. The error does not repeat the text, which may contain a password.
func checkEndpoint(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return ErrEndpoint
	}
	return nil
}

// withPath returns the URL with the path /v1/traces if it has no path. The URL is valid.
func withPath(text string) string {
	if u, err := url.Parse(text); err == nil && (u.Path == "" || u.Path == "/") {
		u.Path = "/v1/traces"
		return u.String()
	}
	return text
}

// GRPC returns the handler that a gRPC server must be given with grpc.StatsHandler, or nil if nothing is traced: the server
// must then not be given a handler.
func (p *Provider) GRPC() stats.Handler {
	if p == nil {
		return nil
	}
	return otelgrpc.NewServerHandler(otelgrpc.WithTracerProvider(p.spans), otelgrpc.WithPropagators(p.propagator), otelgrpc.WithMeterProvider(noop.MeterProvider{})) // package metrics counts requests
}

// Close sends the spans that wait to be sent, until ctx is done, and stops the Provider.
func (p *Provider) Close(ctx context.Context) error {
	if p == nil {
		return nil
	}
	if err := p.spans.Shutdown(ctx); err != nil {
		return fmt.Errorf("send the last traces: %w", err)
	}
	return nil
}

// Decided adds the result of a decision to the span of a request: the domain of the rules, the outcome as in the header
// X-RateLimit-Decision, and the name of the deciding limit. It does nothing if the request is not traced. A request with several
// decisions keeps the last result.
func Decided(ctx context.Context, domain, outcome, limit string) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(
		attribute.String("throttled.domain", domain), attribute.String("throttled.outcome", outcome), attribute.String("throttled.limit", limit),
	)
}
