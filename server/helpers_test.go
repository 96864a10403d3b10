package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttledhq/throttled/acl"
	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/options"
	"github.com/throttledhq/throttled/ruleset"
)

// patience is the maximum time that a test waits for an expected event. It is much longer than any event takes.
const patience = 2 * time.Minute

// fakePatience is patience for tests in fake time.
const fakePatience = 24 * time.Hour

// setup configures a test server. The zero value means the default options and a new table.
type setup struct {
	options   func(o *options.Options)
	engine    limiter.Engine
	snapshots Snapshots
	log       *slog.Logger
	stop      func(save bool)
	listen    func(ln net.Listener) net.Listener // wraps the listener
	turns     int                                // 0: unlimited
	rules     *ruleset.Store
	users     string          // in the format of acl.Parse
	tune      func(s *Server) // called before the server starts
}

// testServer is a server that runs until the end of the test, on a loopback port or on pipes.
type testServer struct {
	*Server
	t      testing.TB
	addr   string
	ln     net.Listener // for connections of clients
	served chan error   // receives the result of Serve
}

// start starts a server with changed options. A nil change keeps the defaults.
func start(t testing.TB, change func(o *options.Options)) *testServer {
	t.Helper()
	return setup{options: change}.start(t)
}

func (u setup) start(t testing.TB) *testServer {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	s := &testServer{Server: u.build(t), t: t, addr: ln.Addr().String(), ln: ln, served: make(chan error, 1)}
	if u.listen != nil {
		ln = u.listen(ln)
	}
	go func() { s.served <- s.Serve(ln) }()
	t.Cleanup(s.end)
	return s
}

// build returns a server without listeners.
func (u setup) build(t testing.TB) *Server {
	t.Helper()
	o := options.Default()
	if u.options != nil {
		u.options(&o)
	}
	store, err := options.New(o)
	if err != nil {
		t.Fatalf("options: %v", err)
	}
	if u.engine == nil {
		u.engine = buckets.New(buckets.Config{Shards: 8})
	}
	users, err := acl.Parse(u.users, UserCatalog())
	if err != nil {
		t.Fatalf("users: %v", err)
	}
	s := New(Config{
		Users:  acl.NewStore(users),
		Engine: u.engine, Snapshots: u.snapshots, Options: store, Log: u.log, Version: "test", Stop: u.stop,
		Turns: u.turns, Rules: u.rules, RulesLog: ruleset.NewLocal(u.rules, time.Now),
	})
	if u.tune != nil {
		u.tune(s)
	}
	return s
}

// end shuts the server down immediately, and closes connections that are in use.
func (s *testServer) end() {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.Shutdown(now)
}

// withPassword sets the password "secret" and disables the limit of failed attempts.
func withPassword(o *options.Options) { o.RequirePass, o.AuthFailuresPerMinute = "secret", 0 }

// hasty sets the shortest timeouts that the options allow.
func hasty(o *options.Options) {
	o.CommandTimeout = time.Second
	o.WriteTimeout = time.Second
}

// peer is a client of a server under test. Its methods fail the test on errors.
type peer struct {
	net.Conn
	t  testing.TB
	in *bufio.Reader
}

func newPeer(t testing.TB, conn net.Conn) *peer {
	t.Cleanup(func() { _ = conn.Close() })
	return &peer{Conn: conn, t: t, in: bufio.NewReader(conn)}
}

func (s *testServer) dial() *peer {
	s.t.Helper()
	return dial(s.t, s.ln)
}

// dial connects to a listener of sockets or pipes.
func dial(t testing.TB, ln net.Listener) *peer {
	t.Helper()
	if p, ok := ln.(*pipes); ok {
		return newPeer(t, p.connect())
	}
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	return newPeer(t, conn)
}

// greet calls dial and waits for the reply to a PING, so that the server has accepted the connection.
func (s *testServer) greet() *peer {
	s.t.Helper()
	p := s.dial()
	p.do("+PONG\r\n", "PING")
	return p
}

// send writes bytes.
func (p *peer) send(text string) {
	p.t.Helper()
	if _, err := io.WriteString(p.Conn, text); err != nil {
		p.t.Fatalf("send %.100q: %v", text, err)
	}
}

// expect reads exactly the given bytes.
func (p *peer) expect(want string) {
	p.t.Helper()
	got := make([]byte, len(want))
	n, err := io.ReadFull(p.in, got)
	if string(got[:n]) != want {
		p.t.Fatalf("got %.300q (%v), want %.300q", got[:n], err, want)
	}
}

// do sends a command and reads exactly the given reply.
func (p *peer) do(want string, words ...string) {
	p.t.Helper()
	p.send(request(words...))
	got := make([]byte, len(want))
	n, err := io.ReadFull(p.in, got)
	if string(got[:n]) != want {
		p.t.Fatalf("%.100q: got %.300q (%v), want %.300q", words, got[:n], err, want)
	}
}

// ask sends a command and returns the reply.
func (p *peer) ask(words ...string) value {
	p.t.Helper()
	p.send(request(words...))
	return p.read()
}

// read returns the next reply.
func (p *peer) read() value {
	p.t.Helper()
	v, err := readValue(p.in)
	if err != nil {
		p.t.Fatalf("read a reply: %v", err)
	}
	return v
}

// fails sends a command and fails the test unless the reply is an error with the given prefix.
func (p *peer) fails(prefix string, words ...string) {
	p.t.Helper()
	if got := p.ask(words...); got.kind != '-' || !strings.HasPrefix(got.text, prefix) {
		p.t.Fatalf("%.100q: got %s, want an error that begins with %q", words, got, prefix)
	}
}

// closed reads until the connection is closed, and fails the test if any data arrives.
func (p *peer) closed() {
	p.t.Helper()
	if rest := p.rest(); rest != "" {
		p.t.Fatalf("got %.300q, want a closed connection", rest)
	}
}

// rest returns all data received until the connection is closed.
func (p *peer) rest() string {
	p.t.Helper()
	rest, err := io.ReadAll(p.in)
	if isTimeout(err) {
		p.t.Fatalf("the connection is not closed; received %.300q", rest)
	}
	return string(rest)
}

// isTimeout reports whether err is an expired deadline. It returns false for a closed or reset connection.
func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// info returns the fields of a section of INFO.
func (p *peer) info(section string) map[string]string {
	p.t.Helper()
	fields := map[string]string{}
	for _, line := range strings.Split(p.ask("INFO", section).text, "\r\n") {
		if name, text, found := strings.Cut(line, ":"); found {
			fields[name] = text
		}
	}
	return fields
}

// count returns a numeric field of INFO.
func (p *peer) count(section, name string) int64 {
	p.t.Helper()
	text, found := p.info(section)[name]
	n, err := strconv.ParseInt(text, 10, 64)
	if !found || err != nil {
		p.t.Fatalf("INFO %s: %s is %q, want a number", section, name, text)
	}
	return n
}

// await polls a numeric field of INFO until it equals want.
func (p *peer) await(section, name string, want int64) {
	p.t.Helper()
	got := int64(-1)
	if !eventually(func() bool { got = p.count(section, name); return got == want }) {
		p.t.Fatalf("INFO %s: %s is still %d, want %d", section, name, got, want)
	}
}

// eventually reports whether a condition becomes true within patience.
func eventually(holds func() bool) bool {
	for end := time.Now().Add(patience); time.Now().Before(end); <-time.After(time.Millisecond) {
		if holds() {
			return true
		}
	}
	return false
}

// request renders a command as an array of bulk strings.
func request(words ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b.String()
}

func throttle(key string) string { return request("CL.THROTTLE", key, "2", "1", "60") }

// bulk renders a bulk string.
func bulk(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

// five renders the reply for a decision.
func five(limited, limit, remaining, retryAfter, resetAfter int64) string {
	return fmt.Sprintf("*5\r\n:%d\r\n:%d\r\n:%d\r\n:%d\r\n:%d\r\n", limited, limit, remaining, retryAfter, resetAfter)
}

// failure renders an error reply.
func failure(err error) string { return "-" + err.Error() + "\r\n" }

// testClock is a limiter clock that the test advances.
type testClock struct{ now atomic.Uint64 }

func newTestClock() *testClock {
	c := &testClock{}
	c.now.Store(1_700_000_000e9)
	return c
}

func (c *testClock) read() uint64 { return c.now.Load() }

func (c *testClock) advance(d time.Duration) { c.now.Add(uint64(d)) }

// startFrozen starts a server whose engine uses the returned clock.
func startFrozen(t testing.TB, change func(o *options.Options)) (*testServer, *testClock) {
	t.Helper()
	clock := newTestClock()
	table := buckets.New(buckets.Config{Clock: clock.read, Shards: 8})
	return setup{options: change, engine: table}.start(t), clock
}

// pipes is a listener whose connections are pipes. Unlike sockets, pipes work with the fake time of
// package synctest.
type pipes struct {
	conns chan net.Conn
	shut  chan struct{}
	once  sync.Once
	port  int // port of its address; 0: not a TCP address
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), shut: make(chan struct{})} }

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.shut:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error {
	l.once.Do(func() { close(l.shut) })
	return nil
}

func (l *pipes) Addr() net.Addr {
	if l.port > 0 {
		return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: l.port}
	}
	return &net.UnixAddr{Name: "pipes", Net: "pipe"}
}

// connect returns the client's end of a new connection.
func (l *pipes) connect() net.Conn {
	client, server := net.Pipe()
	_ = client.SetDeadline(time.Now().Add(fakePatience))
	l.conns <- server
	return client
}

// startPiped starts a server on pipes.
func (u setup) startPiped(t testing.TB) (*testServer, *pipes) {
	t.Helper()
	ln := newPipes()
	s := &testServer{Server: u.build(t), t: t, addr: "pipe", ln: ln, served: make(chan error, 1)}
	go func() { s.served <- s.Serve(ln) }()
	t.Cleanup(s.end)
	return s, ln
}
