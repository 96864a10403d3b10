package http1

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

const (
	get  = "GET /check/traefik/shop?x=1 HTTP/1.1\r\nHost: localhost:6381\r\n"
	post = "POST /v1/throttle HTTP/1.1\r\nHost: [::1]\r\nContent-Type: application/json\r\n"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		text string
		size int
		want verdict
	}{
		{get + "\r\n", len(get) + 2, complete},
		{get + "\r\n" + get, len(get) + 2, complete},
		{get + "x-user:  ann \t\r\nConnection: Keep-Alive\r\nX-Empty:\r\n\r\n", len(get) + 52, complete},
		{post + "Content-Length: 2\r\n\r\n{}x", len(post) + 23, complete},
		{post + "content-length: 0\r\n\r\n", len(post) + 21, complete},

		{"", 0, incomplete},
		{"GE", 0, incomplete},
		{get, 0, incomplete},
		{post + "Content-Length: 3\r\n\r\n{}", 0, incomplete},

		{"\x16\x03\x01", 0, foreign},
		{"\r\nGET", 0, foreign},
		{"GET / HTTP/1.0\r\nHost", 0, foreign},
		{get + "X: y\n\n", 0, foreign},
		{get + "X: y\r\n\n", 0, foreign},
		{"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", 0, foreign},
		{"OPTIONS / HTTP/1.1\r\nHost: a\r\n\r\n", 0, foreign},
		{"get / HTTP/1.1\r\nHost: a\r\n\r\n", 0, foreign},
		{"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 0, foreign},
		{"GET / HTTP/1.0\r\nHost: a\r\n\r\n", 0, foreign},
		{"GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 0, foreign},
		{"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n", 0, foreign},
		{"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", 0, foreign},
		{"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 0, foreign},
		{"GET / HTTP/1.1\r\n\r\n", 0, foreign},
		{get + "Host: b\r\n\r\n", 0, foreign},
		{"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 0, foreign},
		{get + "X-Folded: a\r\n b\r\n\r\n", 0, foreign},
		{get + "X-Space : a\r\n\r\n", 0, foreign},
		{get + "X-Bare: a\nY: b\r\n\r\n", 0, foreign},
		{get + "X-Return: a\rb\r\n\r\n", 0, foreign},
		{get + "X-Zero: a\x00b\r\n\r\n", 0, foreign},
		{get + "no colon\r\n\r\n", 0, foreign},
		{get + ": no name\r\n\r\n", 0, foreign},
		{get + "Connection: close\r\n\r\n", 0, foreign},
		{get + "Connection: upgrade\r\n\r\n", 0, foreign},
		{get + "Upgrade: h2c\r\n\r\n", 0, foreign},
		{get + "Expect: 100-continue\r\n\r\n", 0, foreign},
		{get + "Trailer: X\r\n\r\n", 0, foreign},
		{post + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 0, foreign},
		{post + "TRANSFER-ENCODING: identity\r\n\r\n", 0, foreign},
		{post + "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", 0, foreign},
		{post + "Content-Length: +2\r\n\r\n{}", 0, foreign},
		{post + "Content-Length: 2, 2\r\n\r\n{}", 0, foreign},
		{post + "Content-Length:\r\n\r\n{}", 0, foreign},
		{post + "Content-Length: 9999999999\r\n\r\n{}", 0, foreign},
		{post + "Content-Length: 20000\r\n\r\n{}", 0, foreign},
		{get + strings.Repeat("X: y\r\n", maxFields+1) + "\r\n", 0, foreign},
	} {
		var m message
		if size, v := m.parse(tt.text); size != tt.size || v != tt.want {
			t.Errorf("%q: size %d, verdict %d; want %d and %d", tt.text, size, v, tt.size, tt.want)
		}
		sameAsNetHTTP(t, tt.text)
	}
}

// sameAsNetHTTP fails the test if a request is accepted that net/http refuses or reads differently.
func sameAsNetHTTP(t *testing.T, text string) {
	t.Helper()
	var m message
	size, v := m.parse(text)
	if v != complete {
		return
	}
	r := newRequest(context.Background(), "192.0.2.1:1000")
	if !r.fill(&m) {
		return
	}
	in := bufio.NewReader(strings.NewReader(text[:size]))
	want, err := http.ReadRequest(in)
	if err != nil {
		t.Fatalf("%q: net/http refuses a request that parse accepts: %v", text, err)
	}
	body, err := io.ReadAll(want.Body)
	if rest := in.Buffered(); err != nil || rest > 0 {
		t.Fatalf("%q: net/http leaves %d bytes unread, error: %v", text, rest, err)
	}
	ours, _ := io.ReadAll(r.http.Body)
	if string(ours) != string(body) {
		t.Errorf("%q: body %q, want %q", text, ours, body)
	}
	got := r.http
	if got.Method != want.Method || got.RequestURI != want.RequestURI || got.Host != want.Host || got.ContentLength != want.ContentLength ||
		want.Close || len(want.TransferEncoding) > 0 || want.ProtoMajor != 1 || want.ProtoMinor != 1 {
		t.Errorf("%q: got %+v, want %+v", text, got, want)
	}
	if !reflect.DeepEqual(got.URL, want.URL) {
		t.Errorf("%q: URL %#v, want %#v", text, got.URL, want.URL)
	}
	if !reflect.DeepEqual(got.Header, want.Header) {
		t.Errorf("%q: header %q, want %q", text, got.Header, want.Header)
	}
}

// FuzzParse compares accepted requests with those that net/http reads.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		get + "\r\n", post + "Content-Length: 2\r\n\r\n{}", get + "a: b\r\nA: c\r\nPragma: no-cache\r\n\r\n" + get, get + "Connection: keep-alive\r\n\r\n",
		post + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "GET //a/%2e%2e?b#c HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", "GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET / HTTP/1.1\r\nHost:a\r\nX:\t\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	} {
		f.Add(text)
	}
	f.Fuzz(sameAsNetHTTP)
}
