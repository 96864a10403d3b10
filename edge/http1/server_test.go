package http1

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// lab is a Server whose handler answers with the request it has received.
type lab struct {
	*Server
	addr   string
	served chan error
}

// echo answers with a description of the request. It is called by both servers.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	_, fast := w.(*response)
	w.Header().Set("X-Fast", fmt.Sprint(fast))
	w.Header().Set("Content-Type", "text/plain")
	switch r.URL.Path {
	case "/close":
		w.Header()["Connection"] = []string{"close"}
	case "/panic":
		panic(http.ErrAbortHandler)
	case "/none":
		w.WriteHeader(http.StatusNoContent)
		return
	case "/limited":
		w.WriteHeader(http.StatusTooManyRequests)
	case "/split":
		w.Header().Set("X-Split", "a\r\nX-Evil: b")
	case "/large":
		body = []byte(strings.Repeat("x", 3<<20))
	}
	_, _ = fmt.Fprintf(w, "%s %s %s %s", r.Method, r.RequestURI, r.Header.Get("X-User"), body)
}

func newLab(t *testing.T) *lab {
	t.Helper()
	return newLabWith(t, time.Minute)
}

// newLabWith returns a lab with a time for the headers of a request.
func newLabWith(t *testing.T, headerTime time.Duration) *lab {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{addr: ln.Addr().String(), served: make(chan error, 1)}
	l.Server = New(&http.Server{
		Handler: http.HandlerFunc(echo), IdleTimeout: time.Minute, ReadHeaderTimeout: headerTime, WriteTimeout: time.Minute, MaxHeaderBytes: memoryLimit,
		ErrorLog: log.New(io.Discard, "", 0),
	})
	go func() { l.served <- l.Serve(ln) }()
	t.Cleanup(func() {
		_ = l.Close()
		<-l.served
	})
	return l
}

// session is one connection of a client.
type session struct {
	net.Conn
	t  *testing.T
	in *bufio.Reader
}

func (l *lab) dial(t *testing.T) *session {
	t.Helper()
	c, err := net.Dial("tcp", l.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &session{c, t, bufio.NewReader(c)}
}

func (s *session) send(text string) {
	s.t.Helper()
	if _, err := io.WriteString(s, text); err != nil {
		s.t.Fatal(err)
	}
}

// expect reads a response, and compares its status, the server that has answered, and the body.
func (s *session) expect(status int, fast bool, body string) *http.Response {
	s.t.Helper()
	r, err := http.ReadResponse(s.in, nil)
	if err != nil {
		s.t.Fatalf("read a response: %v", err)
	}
	got, err := io.ReadAll(r.Body)
	if r.StatusCode != status || r.Header.Get("X-Fast") != fmt.Sprint(fast) || string(got) != body || err != nil {
		s.t.Fatalf("status %d, fast %s, body %.200q, error %v; want %d, %v, %q", r.StatusCode, r.Header.Get("X-Fast"), got, err, status, fast, body)
	}
	return r
}

const call = "GET /a HTTP/1.1\r\nHost: a\r\nX-User: ann\r\n\r\n"

func TestServer_KeepAlive(t *testing.T) {
	s := newLab(t).dial(t)
	for i := range 100 {
		s.send(fmt.Sprintf("POST /b?%d HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n%03d", i, i))
		s.expect(200, true, fmt.Sprintf("POST /b?%d  %03d", i, i))
	}
}

func TestServer_Pipelining(t *testing.T) {
	s := newLab(t).dial(t)
	s.send(strings.Repeat(call, 500) + "GET /limited HTTP/1.1\r\nHost: a\r\n\r\n")
	for range 500 {
		s.expect(200, true, "GET /a ann ")
	}
	s.expect(429, true, "GET /limited  ")
}

// A request may arrive in parts.
func TestServer_Parts(t *testing.T) {
	s := newLab(t).dial(t)
	for range 3 {
		for i := range len(call) {
			s.send(call[i : i+1])
		}
		s.expect(200, true, "GET /a ann ")
	}
}

// An irregular request, and all later ones, are answered by net/http.
func TestServer_HandOver(t *testing.T) {
	for _, tt := range []struct {
		request string
		status  int
		body    string
	}{
		{"POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", 200, "POST /c  hi"},
		{"POST /c HTTP/1.1\r\nHost: a\r\nContent-Length: 30000\r\n\r\n" + strings.Repeat("x", 30_000), 200, "POST /c  " + strings.Repeat("x", 30_000)},
		{"GET /c HTTP/1.1\r\nHost: a\r\nX-Long: " + strings.Repeat("y", 20_000) + "\r\n\r\n", 200, "GET /c  "},
		{"GET /c HTTP/1.1\r\nHost: a\r\nConnection: x\r\n\r\n", 200, "GET /c  "},
	} {
		s := newLab(t).dial(t)
		s.send(call + tt.request + call)
		s.expect(200, true, "GET /a ann ")
		s.expect(tt.status, false, tt.body)
		s.expect(200, false, "GET /a ann ")
	}
}

// Malformed requests are refused by net/http, and nothing after them is answered.
func TestServer_Malformed(t *testing.T) {
	for _, request := range []string{
		"POST /c HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcd", "GET /c HTTP/1.1\r\n\r\n", "GET /c HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\n",
		"GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n", "GET /c HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "nonsense\r\n\r\n",
	} {
		s := newLab(t).dial(t)
		s.send(request + call)
		r, err := http.ReadResponse(s.in, nil)
		if err != nil || r.StatusCode != http.StatusBadRequest {
			t.Errorf("%q: got %+v, error: %v; want the status 400", request, r, err)
			continue
		}
		if rest, err := io.ReadAll(s.in); strings.Contains(string(rest), "HTTP/1.1") || err != nil && !errors.Is(err, io.EOF) {
			t.Errorf("%q: got another response %q, error: %v", request, rest, err)
		}
	}
}

func TestServer_Responses(t *testing.T) {
	l := newLab(t)
	s := l.dial(t)
	s.send("GET /none HTTP/1.1\r\nHost: a\r\n\r\n")
	if r := s.expect(204, true, ""); r.Header.Get("Content-Length") != "" || r.Header.Get("Date") == "" {
		t.Errorf("status 204: got the header %v, want a Date and no Content-Length", r.Header)
	}
	s.send("GET /split HTTP/1.1\r\nHost: a\r\n\r\n")
	if r := s.expect(200, true, "GET /split  "); r.Header.Get("X-Evil") != "" || r.Header.Get("X-Split") != "a  X-Evil: b" {
		t.Errorf("value with a line end: got the header %v", r.Header)
	}
	s.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
	s.expect(200, true, "GET /large  "+strings.Repeat("x", 3<<20))
	s.send("GET /close HTTP/1.1\r\nHost: a\r\n\r\n" + call)
	s.expect(200, true, "GET /close  ")
	if rest, err := io.ReadAll(s.in); len(rest) > 0 || err != nil {
		t.Errorf("after Connection: close: got %q, error: %v; want the end", rest, err)
	}
	s = l.dial(t)
	s.send("GET /panic HTTP/1.1\r\nHost: a\r\n\r\n")
	if rest, _ := io.ReadAll(s.in); len(rest) > 0 {
		t.Errorf("handler panics: got %q, want the end", rest)
	}
}

// A client that closes its side receives the responses, and the end.
func TestServer_HalfClosed(t *testing.T) {
	s := newLab(t).dial(t)
	s.send(call)
	if err := s.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	s.expect(200, true, "GET /a ann ")
	if rest, err := io.ReadAll(s.in); len(rest) > 0 || err != nil {
		t.Errorf("got %q, error: %v; want the end", rest, err)
	}
}

func TestServer_Concurrent(t *testing.T) {
	l := newLab(t)
	var running sync.WaitGroup
	for i := range 20 {
		running.Go(func() {
			c, err := net.Dial("tcp", l.addr)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = c.Close() }()
			in := bufio.NewReader(c)
			for j := range 50 {
				_, _ = fmt.Fprintf(c, "POST /%d HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n%02d", i, j)
				r, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Error(err)
					return
				}
				if got, _ := io.ReadAll(r.Body); string(got) != fmt.Sprintf("POST /%d  %02d", i, j) {
					t.Errorf("connection %d: got %q", i, got)
				}
			}
		})
	}
	running.Wait()
}

func TestServer_Shutdown(t *testing.T) {
	l := newLab(t)
	idle, handed := l.dial(t), l.dial(t)
	idle.send(call)
	idle.expect(200, true, "GET /a ann ")
	handed.send("GET /a HTTP/1.1\r\nHost: a\r\nConnection: x\r\n\r\n")
	handed.expect(200, false, "GET /a  ")
	if err := l.Shutdown(context.Background()); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	for _, s := range []*session{idle, handed} {
		if rest, err := io.ReadAll(s.in); len(rest) > 0 || err != nil {
			t.Errorf("idle connection: got %q, error: %v; want the end", rest, err)
		}
	}
	if err := <-l.served; !errors.Is(err, http.ErrServerClosed) {
		t.Errorf("Serve: %v, want http.ErrServerClosed", err)
	}
	l.served <- nil
	if _, err := net.Dial("tcp", l.addr); err == nil {
		t.Error("a connection was accepted after Shutdown")
	}
}

// deadlines records the read deadlines of a connection.
type deadlines struct {
	net.Conn
	last time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error {
	d.last = t
	return nil
}

// TestPrefixed_Deadline checks that the time for headers does not begin again when a connection is handed over, and that the
// deadlines for bodies and for later requests are those of net/http.
func TestPrefixed_Deadline(t *testing.T) {
	const headers = "OPTIONS / HTTP/1.1\r\nHost: a\r\n"
	by := time.Now().Add(time.Second)
	d := &deadlines{}
	p := &prefixed{Conn: d, first: []byte(headers + "\r\n"), headersBy: by}
	set := func(when string, to, want time.Time) {
		t.Helper()
		if err := p.SetReadDeadline(to); err != nil || !d.last.Equal(want) {
			t.Errorf("%s: the deadline is %v, want %v; error: %v", when, d.last, want, err)
		}
	}
	set("before the headers", by.Add(time.Hour), by)
	set("without a deadline", time.Time{}, by)
	set("earlier deadline", by.Add(-time.Millisecond), by.Add(-time.Millisecond))
	if _, err := p.Read(make([]byte, len(headers))); err != nil {
		t.Fatal(err)
	}
	set("within the headers", by.Add(time.Hour), by)
	if _, err := p.Read(make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	set("body", by.Add(time.Hour), by.Add(time.Hour))
	s := &http.Server{}
	limitHeaderLines(s)
	s.ConnState(p, http.StateIdle)
	set("next request", by.Add(time.Hour), by.Add(time.Hour))
}

// An incomplete request is left to net/http, which closes the connection.
func TestServer_PartialRequestTimesOut(t *testing.T) {
	s := newLabWith(t, 50*time.Millisecond).dial(t)
	s.send(call + call[:20])
	s.expect(200, true, "GET /a ann ")
	if rest, err := io.ReadAll(s.in); err != nil || strings.Contains(string(rest), " 200 ") {
		t.Errorf("got %q, error: %v; want the end", rest, err)
	}
}
