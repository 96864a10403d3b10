package server

import (
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttledhq/throttled/options"
)

// TestSizeLimits checks that requests at each size limit are accepted, and that larger requests are refused.
func TestSizeLimits(t *testing.T) {
	t.Parallel()
	known, unauthenticated := start(t, nil), start(t, withPassword)
	accepts := func(s *testServer, input, want string) {
		t.Helper()
		p := s.dial()
		go func() { _, _ = io.WriteString(p.Conn, input+request("QUIT")) }()
		p.expect(want + "+OK\r\n")
		p.closed()
	}
	refuses := func(s *testServer, input, reason string) {
		t.Helper()
		p := s.dial()
		go func() { _, _ = io.WriteString(p.Conn, input) }()
		p.expect(refused(reason))
		p.closed()
	}
	ofWords := func(n int) string { return request(strings.Split("EXISTS"+strings.Repeat(" k", n-1), " ")...) }
	ofWordsInline := func(n int) string { return "EXISTS" + strings.Repeat(" k", n-1) + "\r\n" }
	const perArgument = 512 << 10

	accepts(known, ofWords(1024), ":0\r\n")
	refuses(known, ofWords(1025), "invalid multibulk length")
	accepts(known, ofWordsInline(1024), ":0\r\n")
	refuses(known, ofWordsInline(1025), "too many arguments in inline request")
	accepts(unauthenticated, ofWords(10), failure(errNoAuth))
	refuses(unauthenticated, ofWords(11), "unauthenticated multibulk length")
	accepts(unauthenticated, ofWordsInline(10), failure(errNoAuth))
	refuses(unauthenticated, ofWordsInline(11), "too many arguments in inline request")

	longest := strings.Repeat("x", perArgument)
	accepts(known, request("ECHO", longest), bulk(longest))
	refuses(known, request("ECHO", longest+"x"), "invalid bulk length")
	accepts(unauthenticated, request("ECHO", longest[:16<<10]), failure(errNoAuth))
	refuses(unauthenticated, request("ECHO", longest[:16<<10+1]), "unauthenticated bulk length")

	// The length of a line includes its CR, so that a limit of n accepts n-1 bytes before CR LF.
	line := longest[:64<<10-len("ECHO x")]
	accepts(known, "ECHO "+line+"\r\n", bulk(line))
	refuses(known, "ECHO "+line+"xx\r\n", "too big inline request")
	refuses(unauthenticated, "ECHO "+line[:16<<10]+"\r\n", "too big inline request")

	refuses(known, request("EXISTS", longest, longest), "request exceeds the query buffer limit")
	most := longest[:1<<20-perArgument-100]
	accepts(known, request("EXISTS", longest, most), ":0\r\n")
	refuses(unauthenticated, request("EXISTS", line[:16<<10], line[:16<<10], line[:16<<10], line[:16<<10]), "request exceeds the query buffer limit")
}

// TestLimitsFollowOptions checks that changed limits apply to open connections.
func TestLimitsFollowOptions(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	set := s.dial()
	f := func(option, value, input, reason string) {
		t.Helper()
		p := s.greet()
		before := set.ask("CONFIG", "GET", option).list[1].text
		set.do("+OK\r\n", "CONFIG", "SET", option, value)
		p.do("+PONG\r\n", "PING") // makes the server apply the new limits to this connection
		p.send(input)
		p.expect(refused(reason))
		p.closed()
		set.do("+OK\r\n", "CONFIG", "SET", option, before)
	}
	f("proto-max-args", "5", request("EXISTS", "1", "2", "3", "4", "5"), "invalid multibulk length")
	f("proto-max-bulk-len", "2kb", request("ECHO", strings.Repeat("x", 2049)), "invalid bulk length")
	f("proto-max-inline-len", "1kb", "ECHO "+strings.Repeat("x", 2000)+"\r\n", "too big inline request")
	set.do("+OK\r\n", "CONFIG", "SET", "proto-max-bulk-len", "10kb", "proto-max-inline-len", "10kb")
	f("client-query-buffer-limit", "16kb", request("EXISTS", strings.Repeat("x", 9000), strings.Repeat("x", 9000)), "request exceeds the query buffer limit")
	set.fails("ERR CONFIG SET failed", "CONFIG", "SET", "client-query-buffer-limit", "16kb", "proto-max-bulk-len", "17kb")
	set.fails("ERR CONFIG SET failed", "CONFIG", "SET", "maxclients", "0")
}

// TestPasswordAtRuntime sets, changes and removes the password while clients are connected.
func TestPasswordAtRuntime(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	old := s.greet()
	old.do("+OK\r\n", "CONFIG", "SET", "requirepass", "one")
	old.do("+PONG\r\n", "PING")
	p := s.dial()
	p.do(failure(errNoAuth), "PING")
	p.send("*11\r\n")
	p.expect(refused("unauthenticated multibulk length"))

	old.do("+OK\r\n", "CONFIG", "SET", "requirepass", "two")
	p = s.dial()
	p.do(failure(errWrongPass), "AUTH", "one")
	p.do("+OK\r\n", "AUTH", "two")
	p.do("+PONG\r\n", "PING")

	p = s.dial()
	p.do(failure(errNoAuth), "PING")
	old.do("+OK\r\n", "CONFIG", "SET", "requirepass", "")
	p.do("+PONG\r\n", "PING")
	p.do(":0\r\n", "EXISTS", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11")
	s.greet()
}

// TestMaxClients opens maxclients connections and checks that further clients are refused. After one of the connections
// is closed, a new client must be accepted.
func TestMaxClients(t *testing.T) {
	t.Parallel()
	const places = 5
	s := start(t, func(o *options.Options) { o.MaxClients = places })
	peers := make([]*peer, places)
	for i := range peers {
		peers[i] = s.greet()
	}
	turnedAway := func() {
		t.Helper()
		p := s.dial()
		p.expect(failure(errMaxClients))
		p.closed()
	}
	turnedAway()
	turnedAway()
	for _, p := range peers {
		p.do("+PONG\r\n", "PING")
	}
	if n := peers[0].count("stats", "rejected_connections"); n != 2 {
		t.Errorf("rejected_connections is %d, want 2", n)
	}

	_ = peers[1].Close()
	peers[0].await("clients", "connected_clients", places-1)
	peers[1] = s.greet()
	turnedAway()

	// Existing connections stay open if the limit is lowered below their number.
	peers[0].do("+OK\r\n", "CONFIG", "SET", "maxclients", "2")
	for _, p := range peers {
		p.do("+PONG\r\n", "PING")
	}
	turnedAway()
	peers[0].do("+OK\r\n", "CONFIG", "SET", "maxclients", strconv.Itoa(places+1))
	s.greet()
}

// TestClientLimit checks that clientLimit does not exceed the limit of open files, which the protocols share.
func TestClientLimit(t *testing.T) {
	t.Parallel()
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	if got := clientLimit(&options.Options{MaxClients: 1}); got != 1 {
		t.Errorf("with maxclients 1: %d, want 1", got)
	}
	for protocols, o := range map[int]options.Options{1: {}, 2: {HTTPPort: 1}, 3: {HTTPPort: 1, GRPCPort: 2}} {
		o.MaxClients = 1 << 40
		if got := clientLimit(&o); uint64(got*protocols) > files.Cur || got < int(files.Cur)/protocols-spareFiles {
			t.Errorf("%d protocols: %d clients each, want the limit of %d open files divided by their number", protocols, got, files.Cur)
		}
	}
}

// scarce is a listener whose Accept first returns the errors in the field failures, and then accepts connections.
type scarce struct {
	*pipes
	mu       sync.Mutex
	failures []error     // errors of the next calls of Accept
	calls    []time.Time // times of the calls of Accept
}

func (l *scarce) Accept() (net.Conn, error) {
	l.mu.Lock()
	l.calls = append(l.calls, time.Now())
	if len(l.failures) > 0 {
		err := l.failures[0]
		l.failures = l.failures[1:]
		l.mu.Unlock()
		return nil, err
	}
	l.mu.Unlock()
	return l.pipes.Accept()
}

// gaps returns the times between the calls of Accept so far, and discards all but the last call.
func (l *scarce) gaps() (gaps []time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := 1; i < len(l.calls); i++ {
		gaps = append(gaps, l.calls[i].Sub(l.calls[i-1]))
	}
	l.calls = l.calls[len(l.calls)-1:]
	return gaps
}

func (l *scarce) fail(n int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for range n {
		l.failures = append(l.failures, &net.OpError{Op: "accept", Err: err})
	}
}

// TestAcceptBackoff checks that the pauses between failed calls of Accept grow, and that a successful call resets them.
func TestAcceptBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := &scarce{pipes: newPipes()}
		s := setup{}.build(t)
		served := make(chan error, 1)
		ln.fail(10, syscall.EMFILE)
		go func() { served <- s.Serve(ln) }()

		p := newPeer(t, ln.connect())
		p.do("+PONG\r\n", "PING")
		synctest.Wait() // waits until Serve has called Accept again
		got := ln.gaps()
		if len(got) != 11 {
			t.Fatalf("%d calls of Accept after the first, want 11", len(got))
		}
		for i, want := range []time.Duration{5, 10, 20, 40, 80, 160, 320, 640, 1000, 1000} {
			if got[i] != want*time.Millisecond {
				t.Errorf("pause %d is %v, want %v ms", i, got[i], int64(want))
			}
		}

		for _, err := range []error{syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED, syscall.EPERM, syscall.ENETDOWN} {
			ln.fail(1, err)
			newPeer(t, ln.connect()).do("+PONG\r\n", "PING")
			newPeer(t, ln.connect()).do("+PONG\r\n", "PING")
			for i, gap := range ln.gaps() {
				if gap > firstBackoff {
					t.Errorf("%v: pause %d is %v, want at most firstBackoff", err, i, gap)
				}
			}
		}
		p.do("+PONG\r\n", "PING")
		if err := s.Shutdown(t.Context()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-served; err != ErrServerClosed {
			t.Errorf("Serve returned %v, want ErrServerClosed", err)
		}
	})
}

// TestAcceptGivesUp checks that Serve returns if its caller has closed the listener.
func TestAcceptGivesUp(t *testing.T) {
	t.Parallel()
	ln := &scarce{pipes: newPipes()}
	ln.fail(1, net.ErrClosed)
	s := setup{}.build(t)
	if err := s.Serve(ln); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve returns %v, want %v", err, net.ErrClosed)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
}

// TestShutdownWhileOutOfDescriptors checks that the backoff does not delay Shutdown.
func TestShutdownWhileOutOfDescriptors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := &scarce{pipes: newPipes()}
		ln.fail(100, syscall.EMFILE)
		s := setup{}.build(t)
		served := make(chan error, 1)
		go func() { served <- s.Serve(ln) }()
		begin := time.Now()
		synctest.Wait()
		if err := s.Shutdown(t.Context()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-served; err != ErrServerClosed {
			t.Errorf("Serve returned %v, want ErrServerClosed", err)
		}
		if took := time.Since(begin); took > firstBackoff {
			t.Errorf("Shutdown took %v, want at most firstBackoff", took)
		}
	})
}

// TestGuesses checks that a connection is closed after maxFailedLogins wrong passwords.
func TestGuesses(t *testing.T) {
	t.Parallel()
	s := start(t, withPassword)
	f := func(guess ...string) {
		t.Helper()
		p := s.dial()
		p.send(strings.Repeat(request(guess...), maxFailedLogins+5) + request("AUTH", "secret") + ping)
		p.expect(strings.Repeat(failure(errWrongPass), maxFailedLogins))
		p.closed()
	}
	f("AUTH", "bad")
	f("AUTH", "default", "bad")
	f("AUTH", "other", "secret")
	f("HELLO", "3", "AUTH", "default", "bad")

	// RESET does not reset the number of wrong passwords. The right password does.
	p := s.dial()
	for range maxFailedLogins - 1 {
		p.do(failure(errWrongPass), "AUTH", "bad")
		p.do("+RESET\r\n", "RESET")
	}
	p.do(failure(errWrongPass), "AUTH", "bad")
	p.closed()
	p = s.dial()
	for range 3 {
		for range maxFailedLogins - 1 {
			p.do(failure(errWrongPass), "AUTH", "bad")
		}
		p.do("+OK\r\n", "AUTH", "secret")
	}
	if n := p.info("errorstats")["errorstat_WRONGPASS"]; n != "count="+strconv.Itoa(5*maxFailedLogins+3*(maxFailedLogins-1)) {
		t.Errorf("errorstat_WRONGPASS is %s, want the number of all wrong passwords", n)
	}
}
