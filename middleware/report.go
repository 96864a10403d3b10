package middleware

import (
	"context"
	"net/http"
	"slices"
)

// mustReport reports whether a limit of the rules is charged by the status of the response (key "charge").
func (d *Decision) mustReport() bool { return slices.Contains(d.Flags, "report") }

// Report charges a request of a Domain by the HTTP status of its response, for limits of the rules with "charge". HTTP
// calls it for the requests that need it. It waits for at most Config.Timeout. An error means that the request was possibly
// not charged; Config.OnFailure does not apply.
func (l *Limiter) Report(ctx context.Context, r Request, status int) error {
	_, err := l.guardedCall(ctx, r.reportArgs(status))
	if err != nil && ctx.Err() == nil {
		l.cfg.OnError(err)
	}
	return err
}

// serveAndReport calls next, and then reports the status of its response, also if next panics or the client has disconnected.
// The end of the response waits for the report, so that a client which sends one request after the other cannot precede the
// charge.
func (l *Limiter) serveAndReport(next http.Handler, w http.ResponseWriter, r *http.Request, request *Request) {
	recorder := &statusRecorder{ResponseWriter: w}
	completed := false
	defer func() {
		status := recorder.status
		switch {
		case !completed:
			status = http.StatusInternalServerError
		case status == 0:
			status = http.StatusOK
		}
		_ = l.Report(context.WithoutCancel(r.Context()), *request, status) // it has been passed to OnError
	}()
	next.ServeHTTP(recorder, r)
	completed = true
}

// statusRecorder stores the status of a response.
type statusRecorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader stores the first status that is not informational.
func (s *statusRecorder) WriteHeader(status int) {
	if s.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		s.status = status
	}
	s.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (s *statusRecorder) Write(p []byte) (int, error) {
	if s.status == 0 {
		s.status = http.StatusOK
	}
	return s.ResponseWriter.Write(p)
}

// Flush implements http.Flusher, because handlers test for it.
func (s *statusRecorder) Flush() { _ = http.NewResponseController(s.ResponseWriter).Flush() } // Flush returns no error

// Unwrap is for http.ResponseController.
func (s *statusRecorder) Unwrap() http.ResponseWriter { return s.ResponseWriter }
