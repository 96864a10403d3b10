package middleware

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
)

// problem is a body of the type application/problem+json (RFC 9457).
type problem struct {
	Type       string   `json:"type"`
	Title      string   `json:"title"`
	Status     int      `json:"status"`
	Error      string   `json:"error"`
	Message    string   `json:"message"`
	RetryAfter int64    `json:"retry_after_seconds,omitempty"`
	Violated   []string `json:"violated-policies,omitempty"`
}

// The types of problems, which are those of draft-ietf-httpapi-ratelimit-headers-11. The HTTP server of throttled uses the
// same values.
var (
	quotaExceeded = problem{
		Type:  "https://iana.org/assignments/http-problem-types#quota-exceeded",
		Title: "Request cannot be satisfied as assigned quota has been exceeded", Status: http.StatusTooManyRequests, Error: "rate_limited",
	}
	abnormalUsage = problem{
		Type:  "https://iana.org/assignments/http-problem-types#abnormal-usage-detected",
		Title: "Request not satisfied due to detection of abnormal request pattern", Status: http.StatusTooManyRequests, Error: "banned",
	}
	reducedCapacity = problem{
		Type:  "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
		Title: "Request cannot be satisfied due to temporary server capacity constraints", Status: http.StatusServiceUnavailable, Error: "unavailable",
	}
)

// WriteProblem writes the response to a refused request: the status 429, or 503 if the request could not be decided, with a
// body of the type application/problem+json.
func WriteProblem(w http.ResponseWriter, d Decision) {
	p := d.problem()
	body, err := json.Marshal(p)
	if err != nil {
		http.Error(w, p.Title, p.Status) // not reached: a problem can be encoded
		return
	}
	header := w.Header()
	header.Set("Content-Type", "application/problem+json")
	header.Set("Cache-Control", "no-store")
	header.Del("Content-Length")
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n')) // a failure means that the client has disconnected
}

// problem returns the problem of a refused request.
func (d *Decision) problem() problem {
	limit, wait := cmp.Or(d.Name, "default"), ""
	after, ok := d.retryAfter()
	if ok {
		wait = fmt.Sprintf("; retry after %d s", after)
	}
	var p problem
	switch {
	case d.Unavailable():
		p, p.Message = reducedCapacity, "the request cannot be checked at present"+wait
	case slices.Contains(d.Flags, "banned"):
		p, p.Message = abnormalUsage, "the limit "+limit+" has banned the client"+wait
	case !ok:
		p, p.Message = quotaExceeded, "the limit "+limit+" never admits this request"
	default:
		p, p.Message = quotaExceeded, "the limit "+limit+" is exceeded"+wait
	}
	if ok {
		p.RetryAfter = after
	}
	p.Violated = d.violatedPolicies()
	return p
}
