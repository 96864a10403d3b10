package middleware

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Headers is a set of dialects of response headers.
type Headers int

// Dialects. Retry-After is always sent with refusals.
const (
	// RateLimit is that of draft-ietf-httpapi-ratelimit-headers-11: RateLimit and RateLimit-Policy.
	RateLimit Headers = 1 << iota
	// XRateLimit is X-RateLimit-Limit, -Remaining and -Reset, with the seconds until the full limit is available.
	XRateLimit
	// XRateLimitEpoch is XRateLimit with a Unix time in X-RateLimit-Reset.
	XRateLimitEpoch
	// NoHeaders are none of them.
	NoHeaders
)

// WriteHeaders adds the headers for a decision to the header of a response. Headers 0 means RateLimit | XRateLimit. If no
// limit has decided, as with the policy Open, only Retry-After is added.
func (d *Decision) WriteHeaders(header http.Header, dialects Headers) {
	if dialects == 0 {
		dialects = RateLimit | XRateLimit
	}
	if wait, ok := d.retryAfter(); ok {
		header.Set("Retry-After", strconv.FormatInt(wait, 10))
	}
	if d.Limit == math.MaxInt64 || len(d.Limits) == 0 || d.Unavailable() {
		return
	}
	if dialects&RateLimit != 0 {
		d.writeRateLimit(header)
	}
	switch {
	case dialects&XRateLimitEpoch != 0:
		d.writeXRateLimit(header, time.Now().Add(d.ResetAfter+time.Second-1).Unix())
	case dialects&XRateLimit != 0:
		d.writeXRateLimit(header, seconds(d.ResetAfter))
	}
}

// retryAfter returns the value of Retry-After: whole seconds, at least 1. ok is false if the request was admitted, or if no
// wait helps.
func (d *Decision) retryAfter() (wait int64, ok bool) {
	return max(seconds(d.RetryAfter), 1), !d.Admitted && d.RetryAfter >= 0
}

// writeXRateLimit sets the headers X-RateLimit-*.
func (d *Decision) writeXRateLimit(header http.Header, reset int64) {
	header.Set("X-RateLimit-Limit", strconv.FormatInt(d.Limit, 10))
	header.Set("X-RateLimit-Remaining", strconv.FormatInt(d.Remaining, 10))
	header.Set("X-RateLimit-Reset", strconv.FormatInt(reset, 10))
}

// writeRateLimit adds the headers RateLimit-Policy, with all live limits, and RateLimit, with the deciding limit.
func (d *Decision) writeRateLimit(header http.Header) {
	policies := make([]string, 0, len(d.Limits))
	for i := range d.Limits {
		s := &d.Limits[i]
		if !s.isPolicy() {
			continue
		}
		item := fmt.Sprintf("%s;q=%d", sfString(d.policyName(i)), sfInteger(s.Limit))
		if s.Period > 0 {
			item += fmt.Sprintf(";w=%d", seconds(s.Period))
		}
		policies = append(policies, item)
	}
	if len(policies) > 0 {
		header.Add("RateLimit-Policy", strings.Join(policies, ", "))
	}
	item := fmt.Sprintf("%s;r=%d", sfString(d.decidingPolicy()), sfInteger(d.Remaining))
	if window := d.effectiveWindow(); window > 0 {
		item += fmt.Sprintf(";t=%d", window)
	}
	header.Add("RateLimit", item)
}

// effectiveWindow returns the seconds for which the remaining units must suffice, or 0 if they do not
// change. The draft requires that Retry-After is not earlier.
func (d *Decision) effectiveWindow() int64 {
	if wait, ok := d.retryAfter(); ok {
		return wait
	}
	return seconds(d.ResetAfter)
}

// isPolicy reports whether the limit is finite, can refuse requests, and was decided.
func (s *LimitState) isPolicy() bool {
	return s.Limit != math.MaxInt64 && !s.has("shadow") && !s.has("failclosed")
}

// decidingPolicy returns the name of the policy of the deciding limit.
func (d *Decision) decidingPolicy() string {
	for i := range d.Limits {
		if s := &d.Limits[i]; s.isPolicy() && s.State == d.State {
			return d.policyName(i)
		}
	}
	return cmp.Or(d.Name, "default")
}

// policyName returns the name of the policy of a limit. Further amounts of the same limit have their period in addition,
// such as "login:1d".
func (d *Decision) policyName(at int) string {
	limit := &d.Limits[at]
	name := cmp.Or(limit.Name, "default")
	for i := range at {
		if other := &d.Limits[i]; other.Name == limit.Name && other.isPolicy() {
			return name + ":" + limit.Window
		}
	}
	return name
}

// violatedPolicies returns the names of the policies that have refused the request.
func (d *Decision) violatedPolicies() []string {
	names := []string{}
	for i := range d.Limits {
		if s := &d.Limits[i]; !s.Admitted && !s.has("shadow") {
			names = append(names, d.policyName(i))
		}
	}
	return names
}

// sfString returns a text as a String of structured fields (RFC 9651). Bytes that it cannot have are encoded as in a URI.
func sfString(text string) string {
	b := []byte{'"'}
	for _, c := range []byte(text) {
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ' || c > '~':
			b = fmt.Appendf(b, "%%%02X", c)
		default:
			b = append(b, c)
		}
	}
	return string(append(b, '"'))
}

// sfInteger returns n in the range of integers of structured fields.
func sfInteger(n int64) int64 { return min(n, 999_999_999_999_999) }

// seconds rounds up to seconds.
func seconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return s
}
