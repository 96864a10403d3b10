package tracing

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// unnamed is the name of the span of a request that the handler has not named.
const unnamed = "HTTP request"

// HTTP returns a handler that traces the requests to next. If p is nil, it returns next.
func (p *Provider) HTTP(next http.Handler) http.Handler {
	if p == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := p.propagator.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx, span := p.tracer.Start(ctx, unnamed, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attribute.String("http.request.method", methodOf(r))))
		defer span.End()
		if !span.IsRecording() {
			next.ServeHTTP(w, r)
			return
		}
		status := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(status, r.WithContext(ctx))
		span.SetAttributes(attribute.Int("http.response.status_code", status.status))
		if status.status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, "")
		}
	})
}

// methodOf returns the method of a request, or "_OTHER" for methods that HTTP does not define, as the semantic conventions of
// OpenTelemetry require. A client could otherwise choose the value.
func methodOf(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return r.Method
	}
	return "_OTHER"
}

// Route names the span of a request by its endpoint, such as "/v1/check". It does nothing if the request is not traced.
func Route(ctx context.Context, endpoint string) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	span.SetName(endpoint)
	span.SetAttributes(attribute.String("http.route", endpoint))
}

// statusWriter records the status of a response.
type statusWriter struct {
	http.ResponseWriter
	status int
	sent   bool
}

// WriteHeader records the first status that is not informational.
func (w *statusWriter) WriteHeader(status int) {
	if !w.sent && status >= http.StatusOK {
		w.status, w.sent = status, true
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write sends the body; without WriteHeader, the status is 200.
func (w *statusWriter) Write(b []byte) (int, error) {
	w.sent = true
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
