package edge

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/throttledhq/throttled/acl"
	"github.com/throttledhq/throttled/options"
)

const health = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"

// A connection of a client that has sent no request gives way to another one. Connections of served clients do not.
func TestMaxClients(t *testing.T) {
	l := start(t, func(o *options.Options) { o.MaxClients = 2 })
	served := l.dial()
	in := bufio.NewReader(served)
	if r := roundTrip(t, served, in, health); r.StatusCode != 200 {
		t.Fatal(r.text)
	}
	silent := l.dial()
	if _, err := io.WriteString(silent, "GET / HT"); err != nil {
		t.Fatal(err)
	}
	awaitTaken(t, l, 2)
	second := l.dial()
	secondIn := bufio.NewReader(second)
	if r := roundTrip(t, second, secondIn, health); r.StatusCode != 200 {
		t.Fatal(r.text)
	}
	if _, err := silent.Read(make([]byte, 1)); err == nil {
		t.Error("the silent connection is open")
	}
	refused, err := io.ReadAll(l.dial())
	if text := string(refused); !strings.HasPrefix(text, "HTTP/1.1 503 ") || !strings.Contains(text, "maxclients") {
		t.Errorf("third connection: %q, %v; want 503", text, err)
	}
	for range 2 {
		if r := roundTrip(t, served, in, health); r.StatusCode != 200 {
			t.Error(r.text)
		}
		if r := roundTrip(t, second, secondIn, health); r.StatusCode != 200 {
			t.Error(r.text)
		}
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	awaitTaken(t, l, 1)
	third := l.dial()
	if r := roundTrip(t, third, bufio.NewReader(third), health); r.StatusCode != 200 {
		t.Error(r.text)
	}
}

// A health check needs no password, so it does not keep a place: clients without the password could otherwise take all.
func TestMaxClients_Password(t *testing.T) {
	l := start(t, func(o *options.Options) { o.MaxClients, o.RequirePass = 2, "secret" })
	var checks [2]net.Conn
	for i := range checks {
		checks[i] = l.dial()
		if r := roundTrip(t, checks[i], bufio.NewReader(checks[i]), health); r.StatusCode != 200 {
			t.Fatal(r.text)
		}
	}
	for range checks {
		c := l.dial()
		request := "GET /v1/rules HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\n\r\n"
		if r := roundTrip(t, c, bufio.NewReader(c), request); r.StatusCode != 200 {
			t.Errorf("a client with the password: %d %s", r.StatusCode, r.text)
		}
	}
	for i, c := range checks {
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Errorf("the connection of health check %d is open", i)
		}
	}
}

// awaitTaken waits until a number of places is taken. It polls, because no event announces the number.
func awaitTaken(t *testing.T, l *lab, want int) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) { // the polling interval
		l.places.mu.Lock()
		taken := l.places.taken
		l.places.mu.Unlock()
		if taken == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d places are taken, want %d", taken, want)
		}
	}
}

// The refusal of a connection is a complete HTTP response.
func TestRefusedConnection(t *testing.T) {
	ours, theirs := net.Pipe()
	go refuse(ours)
	r := readReply(t, bufio.NewReader(theirs))
	if r.StatusCode != 503 || r.object(t)["error"] != "too_many_connections" || r.Header.Get("Retry-After") != "1" {
		t.Errorf("%d %s %v", r.StatusCode, r.text, r.Header)
	}
}

// Draining closes each connection after its next response, and fails readiness. Requests are served.
func TestDrain(t *testing.T) {
	l := start(t, nil)
	c := l.dial()
	in := bufio.NewReader(c)
	if r := roundTrip(t, c, in, health); r.StatusCode != 200 || r.Close {
		t.Fatalf("%d, close %v", r.StatusCode, r.Close)
	}
	l.Drain()
	if r := roundTrip(t, c, in, health); r.StatusCode != 200 || !r.Close {
		t.Errorf("%d, close %v; want 200 and a closed connection", r.StatusCode, r.Close)
	}
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("after the response: %v, want EOF", err)
	}
	if r := l.do("GET", "/readyz", ""); r.StatusCode != 503 || !strings.Contains(r.text, "about to stop") {
		t.Errorf("ready: %d %s", r.StatusCode, r.text)
	}
	if r := l.post("/v1/check", "{}"); r.StatusCode != 200 {
		t.Errorf("check: %d %s", r.StatusCode, r.text)
	}
}

// gate is a Runner that blocks until it is released.
type gate struct{ entered, release chan struct{} }

func (gate) As(acl.Login) {}

func (g gate) Run(_, replies []byte) ([]byte, error) {
	g.entered <- struct{}{}
	<-g.release
	return append(replies, "-LOADING released\r\n"...), nil
}

func (gate) Close() {}

// Shutdown waits for the requests that are being decided, and then closes all connections.
func TestShutdown(t *testing.T) {
	g := gate{make(chan struct{}), make(chan struct{})}
	l := start(t, nil, withRunner(g))
	var running sync.WaitGroup
	running.Go(func() {
		if r := l.post("/v1/check", "{}"); r.StatusCode != 503 || !strings.Contains(r.text, "released") {
			t.Errorf("request during the shutdown: %d %s", r.StatusCode, r.text)
		}
	})
	<-g.entered
	stopped := make(chan error, 1)
	go func() { stopped <- l.Shutdown(t.Context()) }()
	close(g.release)
	running.Wait()
	if err := <-stopped; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if _, err := net.Dial("tcp", l.addr); err == nil {
		t.Error("the server accepts connections")
	}
}

// A request that is sent on an open connection during Shutdown is answered, and closes the connection. Shutdown does not
// wait for the rest of its grace period.
func TestShutdown_OpenConnection(t *testing.T) {
	l := start(t, nil)
	c := l.dial()
	in := bufio.NewReader(c)
	if r := roundTrip(t, c, in, health); r.StatusCode != 200 || r.Close {
		t.Fatalf("%d, close %v", r.StatusCode, r.Close)
	}
	if l.lastRequest.Load() < 0 {
		t.Error("the time of the request is not recorded")
	}
	l.lastRequest.Store(int64(time.Hour)) // however long the steps above have taken, the connection is in use
	stopped := make(chan error, 1)
	go func() { stopped <- l.Shutdown(t.Context()) }()
	for {
		other, err := net.Dial("tcp", l.addr)
		if err != nil {
			break // the listener is closed
		}
		_ = other.Close()
	}
	if r := roundTrip(t, c, in, health); r.StatusCode != 200 || !r.Close {
		t.Errorf("%d, close %v; want 200 and a closed connection", r.StatusCode, r.Close)
	}
	if err := <-stopped; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
}

// If the time is over, connections are closed.
func TestShutdown_Timeout(t *testing.T) {
	g := gate{make(chan struct{}), make(chan struct{})}
	l := start(t, nil, withRunner(g))
	c := l.dial()
	if _, err := io.WriteString(c, "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"); err != nil {
		t.Fatal(err)
	}
	<-g.entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown: %v, want %v", err, context.Canceled)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is open")
	}
	close(g.release)
}
