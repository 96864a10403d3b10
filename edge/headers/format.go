package headers

import (
	"slices"
	"strconv"
	"time"

	"github.com/throttledhq/throttled/edge/decision"
)

// Format selects the headers of responses. The zero Format has Retry-After only.
type Format struct {
	RateLimit  bool // RateLimit-Policy and RateLimit
	XRateLimit bool // X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset
	Epoch      bool // X-RateLimit-Reset is a Unix time instead of seconds from now
}

// NewFormat returns the Format of the options ratelimit-headers and x-ratelimit-reset.
func NewFormat(names []string, reset string) Format {
	return Format{slices.Contains(names, "ratelimit"), slices.Contains(names, "x-ratelimit"), reset == "epoch"}
}

// Field is a header.
type Field struct{ Name, Value string }

// maxFields is the maximum number of headers of a response.
const maxFields = 6

// Append appends the headers of a response to fields. It allocates one string for all values, and nothing else if fields
// has room for 6 more.
func (f Format) Append(fields []Field, r *decision.Result, now time.Time) []Field {
	var memory [512]byte
	var s spans
	text := string(f.appendLines(memory[:0], &s, r, now))
	for _, one := range s.list[:s.n] {
		fields = append(fields, Field{one.name, text[one.start:one.end]})
	}
	return fields
}

// spans is the places of the values in lines of headers.
type spans struct {
	list [maxFields]span
	n    int
}

// span is the place of the value of a header.
type span struct {
	name       string
	start, end int
}

// begin appends the name of a header.
func (s *spans) begin(dst []byte, name string) []byte {
	dst = append(append(dst, name...), ": "...)
	s.list[s.n] = span{name: name, start: len(dst)}
	return dst
}

// end appends the end of the line.
func (s *spans) end(dst []byte) []byte {
	s.list[s.n].end = len(dst)
	s.n++
	return append(dst, "\r\n"...)
}

// appendInteger appends a header with an integer.
func (s *spans) appendInteger(dst []byte, name string, n int64) []byte {
	return s.end(strconv.AppendInt(s.begin(dst, name), n, 10))
}

// appendLines appends all headers.
func (f Format) appendLines(dst []byte, s *spans, r *decision.Result, now time.Time) []byte {
	deciding := decidingLimit(r)
	limited := isPolicy(&r.Decision, r.Flags)
	if f.RateLimit {
		dst = appendPolicies(dst, s, r, deciding)
		if limited {
			dst = appendRateLimit(dst, s, r, deciding)
		}
	}
	if f.XRateLimit && limited {
		dst = s.appendInteger(dst, "X-RateLimit-Limit", r.Limit)
		dst = s.appendInteger(dst, "X-RateLimit-Remaining", r.Remaining)
		dst = s.appendInteger(dst, "X-RateLimit-Reset", f.reset(&r.Decision, now))
	}
	if wait, ok := RetryAfter(&r.Decision); ok {
		dst = s.appendInteger(dst, "Retry-After", wait)
	}
	return dst
}

// reset returns the value of X-RateLimit-Reset.
func (f Format) reset(d *decision.Decision, now time.Time) int64 {
	if !f.Epoch {
		return seconds(d.ResetAfter)
	}
	at := now.Add(d.ResetAfter)
	if at.Nanosecond() > 0 {
		return at.Unix() + 1
	}
	return at.Unix()
}

// RetryAfter returns the value of Retry-After: whole seconds, at least 1. ok is false if the request was admitted, or if no
// wait helps.
func RetryAfter(d *decision.Decision) (wait int64, ok bool) {
	if !d.Limited || d.RetryAfter < 0 {
		return 0, false
	}
	return max(seconds(d.RetryAfter), 1), true
}

// seconds rounds a time up to whole seconds. A negative time is 0.
func seconds(d time.Duration) int64 {
	n := int64(d / time.Second)
	if d%time.Second > 0 {
		n++
	}
	return max(n, 0)
}
