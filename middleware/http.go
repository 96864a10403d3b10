package middleware

import (
	"context"
	"net/http"
	"time"
)

// HTTP is a middleware for net/http. Its fields must not be changed after the first call of Wrap.
type HTTP struct {
	Limiter *Limiter
	// Request returns the request for the limiter, for example Rules.Request or Limits.Request. The zero Request exempts
	// an HTTP request, such as a health check.
	Request func(*http.Request) Request
	// MaxWait is the time for which a refused request may wait for its admission, as by Limiter.Wait. 0 means that it is
	// refused immediately.
	MaxWait time.Duration
	// Headers are the dialects of the response headers. 0 means RateLimit | XRateLimit.
	Headers Headers
	// Refused, if not nil, writes the response to a refused request instead of WriteProblem. The headers are already set.
	Refused func(http.ResponseWriter, *http.Request, Decision)
}

// Handler returns the middleware with default settings for requests that a function makes, such as Rules.Request or
// Limits.Request.
func (l *Limiter) Handler(request func(*http.Request) Request) func(http.Handler) http.Handler {
	return HTTP{Limiter: l, Request: request}.Wrap
}

// Wrap returns a handler that calls next for admitted requests. Others get the status 429 if a limit refuses them, and 503
// if they could not be decided; see Decision.Unavailable.
func (h HTTP) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request := h.Request(r)
		d, err := h.decide(r.Context(), &request)
		if err != nil { // the client has disconnected
			d = Decision{Source: FromPolicy, Err: err}
		}
		d.WriteHeaders(w.Header(), h.Headers)
		switch {
		case !d.Admitted:
			h.refuse(w, r, d)
		case d.mustReport():
			h.Limiter.serveAndReport(next, w, r, &request)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// decide returns the decision on a request, after the time for which it must wait. An error means that ctx is done.
func (h HTTP) decide(ctx context.Context, request *Request) (Decision, error) {
	if h.MaxWait <= 0 {
		d, err := h.Limiter.Allow(ctx, *request)
		if err == nil {
			err = d.AwaitTurn(ctx)
		}
		return d, err
	}
	bounded, cancel := context.WithTimeout(ctx, h.MaxWait)
	defer cancel()
	d, err := h.Limiter.Wait(bounded, *request)
	if err != nil && d.Admitted { // the delay of a leaky bucket is longer than MaxWait
		d.Admitted, d.RetryAfter = false, d.Delay
	}
	return d, ctx.Err()
}

func (h HTTP) refuse(w http.ResponseWriter, r *http.Request, d Decision) {
	if h.Refused != nil {
		h.Refused(w, r, d)
		return
	}
	WriteProblem(w, d)
}
