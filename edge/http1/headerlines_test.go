package http1

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestHeaderLines sends requests with different numbers of header lines, as their first request or as a later one of a
// connection, to both servers. OPTIONS is always handed over.
func TestHeaderLines(t *testing.T) {
	l := newLab(t)
	for _, tt := range []struct {
		method string
		before int // requests on the same connection
		lines  int // in addition to Host
		body   string
		want   int
	}{
		{"GET", 0, 10, "", 200}, {"GET", 0, 63, "", 200}, {"GET", 0, maxHeaderLines - 1, "", 200}, {"GET", 0, maxHeaderLines, "", 431},
		{"GET", 2, maxHeaderLines - 1, "", 200}, {"GET", 2, maxHeaderLines, "", 431}, {"GET", 0, 3000, "", 431},
		{"OPTIONS", 0, maxHeaderLines - 1, "", 200}, {"OPTIONS", 0, maxHeaderLines, "", 431}, {"OPTIONS", 2, maxHeaderLines, "", 431},
		{"POST", 2, 80, strings.Repeat("\n", 5000), 200}, {"POST", 0, 80, strings.Repeat("{\n\n}", 5000), 200},
	} {
		c, err := net.Dial("tcp", l.addr)
		if err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(c)
		status := func(lines int, body string) int {
			head := fmt.Sprintf("%s / HTTP/1.1\r\nHost: a\r\n%s", tt.method, strings.Repeat("a:b\r\n", lines))
			if body != "" {
				head = strings.Replace(head, "a:b", fmt.Sprint("Content-Length:", len(body)), 1)
			}
			if _, err := io.WriteString(c, head+"\r\n"+body); err != nil {
				t.Fatal(err)
			}
			r, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatalf("%s with %d lines: %v", tt.method, lines, err)
			}
			_, _ = io.Copy(io.Discard, r.Body)
			return r.StatusCode
		}
		for i := range tt.before {
			if got := status(80, tt.body); got != 200 {
				t.Errorf("%s: request %d: status %d, want 200", tt.method, i, got)
			}
		}
		if got := status(tt.lines, tt.body); got != tt.want {
			t.Errorf("%s with %d lines after %d requests: status %d, want %d", tt.method, tt.lines, tt.before, got, tt.want)
		}
		_ = c.Close()
	}
}

// TestHeaderLines_Incomplete checks that a request is refused when it has too many lines, and not when it is complete.
func TestHeaderLines_Incomplete(t *testing.T) {
	l := newLab(t)
	c, err := net.Dial("tcp", l.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := io.WriteString(c, "OPTIONS / HTTP/1.1\r\n"+strings.Repeat("a:b\r\n", maxHeaderLines+1)); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
	if got, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 431 ") {
		t.Errorf("the response is %q, error %v; want status 431, and the end of the connection", got, err)
	}
}

// TestHeaderLines_Count splits requests at each byte.
func TestHeaderLines_Count(t *testing.T) {
	text := "GET / HTTP/1.1\r\n" + strings.Repeat("a: b\r\n", maxHeaderLines) + "\r\n" + strings.Repeat("\n", 1000)
	for at := range len(text) {
		var h headerLines
		if !h.count([]byte(text[:at])) || !h.count([]byte(text[at:])) || !h.ended {
			t.Fatalf("split at %d: the request is refused", at)
		}
	}
	var h headerLines
	if h.count([]byte("a\n" + strings.Repeat("b\n", maxHeaderLines+1))) {
		t.Error("a request with too many lines is accepted")
	}
	h = headerLines{}
	if h.count([]byte(strings.Repeat("\n", maxHeaderLines+2))) && !h.ended {
		t.Error("empty lines are accepted without an end")
	}
	h = headerLines{}
	if h.count([]byte("\r\n\r\na\n" + strings.Repeat("b\n", maxHeaderLines+1))) {
		t.Error("a request with too many lines after empty lines is accepted")
	}
}
