package http1

import (
	"context"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
)

// request is the http.Request of a connection, which is filled for each message.
type request struct {
	http   *http.Request
	blank  http.Request // http without a message
	body   body
	values []string // the values of the header
}

func newRequest(ctx context.Context, addr string) *request {
	r := (&http.Request{Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, RemoteAddr: addr}).WithContext(ctx)
	return &request{http: r, blank: *r}
}

// fill sets the request to a message. It returns false if the target is not valid.
func (r *request) fill(m *message) bool {
	u, err := url.ParseRequestURI(m.target)
	if err != nil {
		return false
	}
	h := r.http
	*h = r.blank // resets the fields that a handler may have set
	clear(h.Header)
	h.Method, h.URL, h.RequestURI, h.Host = m.method, u, m.target, m.host
	h.ContentLength = int64(max(m.length, 0))
	h.Body = http.NoBody
	if m.length > 0 {
		r.body.Reset(m.body)
		h.Body = &r.body
	}
	r.values = r.values[:0]
	for _, f := range m.fields {
		r.values = append(r.values, f.value)
	}
	for i, f := range m.fields {
		r.add(textproto.CanonicalMIMEHeaderKey(f.name), i)
	}
	if pragma := h.Header["Pragma"]; len(pragma) > 0 && pragma[0] == "no-cache" && h.Header["Cache-Control"] == nil {
		h.Header["Cache-Control"] = []string{"no-cache"} // as net/http does
	}
	return true
}

// add adds value i to the header.
func (r *request) add(name string, i int) {
	if list, found := r.http.Header[name]; found {
		r.http.Header[name] = append(list, r.values[i])
		return
	}
	r.http.Header[name] = r.values[i : i+1 : i+1]
}

// body is the body of a request.
type body struct{ strings.Reader }

func (*body) Close() error { return nil }

var _ io.ReadCloser = (*body)(nil)
