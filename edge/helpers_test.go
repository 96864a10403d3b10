package edge

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/edge/decision"
	"github.com/throttledhq/throttled/internal/testserve"
	"github.com/throttledhq/throttled/options"
	"github.com/throttledhq/throttled/ruleset"
	"github.com/throttledhq/throttled/server"
)

var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// patience is the maximum time that a test waits for an event.
const patience = time.Minute

const testRules = `version: 1
domain: shop
limits:
  login: {when: {path: /login}, per: [ip], allow: 2 per minute}
  search: {when: {path: /api/search}, per: [ip], allow: 100 per hour}
  bench: {when: {path: /bench}, per: [ip], allow: 1000000000 per minute}
  queue: {when: {path: /queue}, algorithm: leaky, allow: 10 per minute}
  hidden: {when: {path: /hidden}, allow: none}
  trial: {when: {path: /trial}, per: [ip], shadow: true, allow: 1 per hour}
  outcome: {when: {path: /report}, per: [ip], charge: {status: 401}, allow: 1 per hour}
---
version: 1
domain: other
default: {allow: 1 per hour}
`

// lab is an HTTP server on a socket, with a server that decides behind it.
type lab struct {
	*Server
	tb      testing.TB
	backend *server.Server
	opts    *options.Store
	addr    string
	client  http.Client
	now     atomic.Uint64
	log     safeBuffer
	seen    observed
}

// safeBuffer is a buffer for concurrent use.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// observed records the requests that the Observer gets.
type observed struct {
	mu   sync.Mutex
	list []string
}

func (o *observed) ObserveRequest(endpoint string, code int, took time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.list = append(o.list, fmt.Sprintf("%s %d", endpoint, code))
	if took < 0 {
		o.list = append(o.list, "negative")
	}
}

// all returns the requests so far, separated by commas.
func (o *observed) all() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.list, ",")
}

// start starts a lab. It is shut down at the end of the test. Optional functions change the Server before it serves.
func start(tb testing.TB, change func(*options.Options), prepare ...func(*Server)) *lab {
	tb.Helper()
	o := options.Default()
	o.EdgeDomain = "shop"
	if change != nil {
		change(&o)
	}
	store, err := options.New(o)
	if err != nil {
		tb.Fatal(err)
	}
	l := &lab{tb: tb, opts: store, client: http.Client{Transport: &http.Transport{}}}
	l.now.Store(uint64(time.Hour))
	live := ruleset.NewStore()
	local := ruleset.NewLocal(live, time.Now)
	if _, err := local.Propose(context.Background(), ruleset.Proposal{Name: "test", Text: testRules, Author: "test"}); err != nil {
		tb.Fatal(err)
	}
	l.backend = server.New(server.Config{Engine: buckets.New(buckets.Config{Clock: l.now.Load}), Options: store, Rules: live, RulesLog: local})
	checker := decision.New(func() decision.Runner { return l.backend.NewCaller() })
	l.Server, err = New(Config{
		Checker: checker, Access: l.backend, Options: store, Rules: live, Observer: &l.seen, Version: "test",
		Log:     slog.New(slog.NewTextHandler(&l.log, nil)),
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "# metrics\n") }),
	})
	if err != nil {
		tb.Fatal(err)
	}
	for _, f := range prepare {
		f(l.Server)
	}
	l.serve(checker)
	return l
}

func (l *lab) serve(checker *decision.Checker) {
	l.tb.Cleanup(func() {
		checker.Close()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := l.backend.Shutdown(ctx); err != nil {
			l.tb.Errorf("shut down the server: %v", err)
		}
	})
	l.addr = testserve.Start(l.tb, l.Server, nil)
	l.tb.Cleanup(l.client.CloseIdleConnections) // Shutdown would wait for their next requests
}

// reply is a response with its body.
type reply struct {
	*http.Response
	text string
}

// object returns the body as a JSON object.
func (r *reply) object(tb testing.TB) map[string]any {
	tb.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(r.text), &m); err != nil {
		tb.Fatalf("body %q: %v", r.text, err)
	}
	return m
}

// do sends a request. The headers are lines "Name: value"; Host is the host of the request.
func (l *lab) do(method, target, content string, lines ...string) *reply {
	l.tb.Helper()
	r, err := http.NewRequestWithContext(l.tb.Context(), method, "http://"+l.addr+target, strings.NewReader(content))
	if err != nil {
		l.tb.Fatal(err)
	}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		if name == "Host" {
			r.Host = value
		}
		r.Header.Add(name, value)
	}
	response, err := l.client.Do(r)
	if err != nil {
		l.tb.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	all, err := io.ReadAll(response.Body)
	if err != nil {
		l.tb.Fatal(err)
	}
	return &reply{response, string(all)}
}

// post sends a JSON body.
func (l *lab) post(target, content string, lines ...string) *reply {
	l.tb.Helper()
	return l.do("POST", target, content, append(lines, "Content-Type: application/json")...)
}

// raw sends bytes on a connection of their own, and returns the responses.
func (l *lab) raw(bytes string) string {
	l.tb.Helper()
	c := l.dial()
	_, _ = io.WriteString(c, bytes) // fails if the server has closed the connection already
	_ = c.CloseWrite()
	all, _ := io.ReadAll(c) // a reset is the end, too
	return string(all)
}

func (l *lab) dial() *net.TCPConn {
	l.tb.Helper()
	c, err := net.Dial("tcp", l.addr)
	if err != nil {
		l.tb.Fatal(err)
	}
	l.tb.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		l.tb.Fatal(err)
	}
	return c.(*net.TCPConn)
}

// roundTrip sends a request on a connection, and returns the response with its body.
func roundTrip(tb testing.TB, c net.Conn, in *bufio.Reader, request string) *reply {
	tb.Helper()
	if _, err := io.WriteString(c, request); err != nil {
		tb.Fatal(err)
	}
	return readReply(tb, in)
}

// readReply reads a response with its body.
func readReply(tb testing.TB, in *bufio.Reader) *reply {
	tb.Helper()
	response, err := http.ReadResponse(in, nil)
	if err != nil {
		tb.Fatalf("read a response: %v", err)
	}
	all, err := io.ReadAll(response.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return &reply{response, string(all)}
}
