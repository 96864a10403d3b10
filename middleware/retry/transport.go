package retry

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Transport is an [http.RoundTripper] that repeats limited requests. The zero value is valid. It is safe for concurrent
// use.
type Transport struct {
	// Base sends the requests. The default is http.DefaultTransport.
	Base http.RoundTripper
	// Attempts is the maximum number of times that a request is sent. The default is 4.
	Attempts int
	// FirstDelay is the upper limit of the random delay before the first repetition. It is doubled for each further one. The
	// default is 250 ms.
	FirstDelay time.Duration
	// MaxDelay is the upper limit of the random delays. The default is 10 s.
	MaxDelay time.Duration
	// MaxWait is the maximum delay. If the server demands a longer one, its response is returned. The default is one minute.
	MaxWait time.Duration

	random func(n time.Duration) time.Duration // replaces rand.N in tests
}

// maxDrain is the number of bytes that are read from the body of a response, so that its connection can be used again.
const maxDrain = 64 << 10

// RoundTrip sends a request, and repeats it while the response has the status 429 or 503 and a repetition is safe. It returns
// the last response if the attempts are used up, and immediately if the deadline of the context would pass during the delay.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	base := cmp.Or[http.RoundTripper](t.Base, http.DefaultTransport)
	attempt := r
	for sent := 1; ; sent++ {
		response, err := base.RoundTrip(attempt)
		if err != nil || sent >= positive(t.Attempts, 4) || !isRepeatable(r, response.StatusCode) {
			return response, err
		}
		delay := t.delay(response, sent)
		if delay > positive(t.MaxWait, time.Minute) || isPast(r, delay) {
			return response, nil
		}
		if attempt, err = again(r); err != nil {
			return nil, errors.Join(err, response.Body.Close())
		}
		drain(response.Body)
		if err := wait(r, delay); err != nil {
			return nil, errors.Join(err, closeBody(attempt))
		}
	}
}

func positive[T int | time.Duration](value, standard T) T {
	if value <= 0 {
		return standard
	}
	return value
}

// isRepeatable reports whether a request can be sent again after a response with the status.
func isRepeatable(r *http.Request, status int) bool {
	hasBody := r.Body != nil && r.Body != http.NoBody
	switch {
	case hasBody && r.GetBody == nil:
		return false
	case status == http.StatusTooManyRequests:
		return true // it was not processed
	}
	return status == http.StatusServiceUnavailable && isIdempotent(r)
}

// isIdempotent reports whether processing a request twice has the effect of processing it once.
func isIdempotent(r *http.Request) bool {
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return r.Header.Get("Idempotency-Key") != ""
}

// isPast reports whether the deadline of a request passes within a delay.
func isPast(r *http.Request, delay time.Duration) bool {
	deadline, bounded := r.Context().Deadline()
	return bounded && time.Until(deadline) <= delay
}

// again returns a copy of a request with a new body. The request itself must not be changed by a RoundTripper.
func again(r *http.Request) (*http.Request, error) {
	repeated := r.Clone(r.Context())
	if r.GetBody == nil {
		return repeated, nil
	}
	body, err := r.GetBody()
	if err != nil {
		return nil, fmt.Errorf("repeat a request: %w", err)
	}
	repeated.Body = body
	return repeated, nil
}

// drain reads and closes the body of a response that is not returned.
func drain(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, maxDrain) // if it fails, the connection is closed instead of used again
	_ = body.Close()
}

func closeBody(r *http.Request) error {
	if r.Body == nil {
		return nil
	}
	return r.Body.Close()
}

// wait waits for a delay, or until the request is canceled.
func wait(r *http.Request, delay time.Duration) error {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-r.Context().Done():
		return r.Context().Err()
	}
}
