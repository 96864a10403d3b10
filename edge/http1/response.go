package http1

import (
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// response is the http.ResponseWriter of a connection. It collects a response, which is sent when the handler has
// returned.
type response struct {
	header http.Header
	status int // 0 until WriteHeader
	body   []byte
}

// Header implements http.ResponseWriter.
func (r *response) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter. It ignores informational responses.
func (r *response) WriteHeader(status int) {
	if r.status == 0 && status >= http.StatusOK {
		r.status = status
	}
}

// Write implements http.ResponseWriter.
func (r *response) Write(b []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	if !hasBody(r.status) {
		return 0, http.ErrBodyNotAllowed
	}
	r.body = append(r.body, b...)
	return len(b), nil
}

func (r *response) begin() {
	clear(r.header)
	r.status, r.body = 0, r.body[:0]
}

func hasBody(status int) bool {
	return status != http.StatusNoContent && status != http.StatusNotModified
}

// append appends the response. It reports whether the connection must be closed afterwards.
func (r *response) append(out []byte, now time.Time) (_ []byte, last bool) {
	r.WriteHeader(http.StatusOK)
	out = append(out, "HTTP/1.1 "...)
	out = strconv.AppendInt(out, int64(r.status), 10)
	out = append(append(append(out, ' '), http.StatusText(r.status)...), lineEnd...)
	if len(r.body) > 0 && r.header["Content-Type"] == nil {
		out = appendField(out, "Content-Type", http.DetectContentType(r.body))
	}
	for name, values := range r.header {
		if name == "Content-Length" || name == "Date" || name == "Transfer-Encoding" {
			continue
		}
		for _, value := range values {
			out = appendField(out, name, value)
			last = last || name == "Connection" && strings.EqualFold(value, "close")
		}
	}
	out = appendDate(out, now)
	if hasBody(r.status) {
		out = strconv.AppendInt(append(out, "Content-Length: "...), int64(len(r.body)), 10)
		out = append(out, lineEnd...)
	}
	return append(append(out, lineEnd...), r.body...), last
}

// appendField appends a field. Line ends in a value are replaced, so that a value cannot become another field.
func appendField(out []byte, name, value string) []byte {
	out = append(append(out, name...), ": "...)
	start := len(out)
	out = append(out, value...)
	for i := start; i < len(out); i++ {
		if out[i] == '\r' || out[i] == '\n' {
			out[i] = ' '
		}
	}
	return append(out, lineEnd...)
}

// date is the field Date of one second.
type date struct {
	second int64
	field  string
}

var lastDate atomic.Pointer[date]

func appendDate(out []byte, now time.Time) []byte {
	d := lastDate.Load()
	if second := now.Unix(); d == nil || d.second != second {
		d = &date{second, "Date: " + now.UTC().Format(http.TimeFormat) + lineEnd}
		lastDate.Store(d)
	}
	return append(out, d.field...)
}
