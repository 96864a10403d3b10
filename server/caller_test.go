package server

import (
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/options"
)

func callerOf(tb testing.TB, s *Server) *Caller {
	tb.Helper()
	c := s.NewCaller()
	tb.Cleanup(c.Close)
	return c
}

func TestCaller(t *testing.T) {
	s := start(t, nil)
	for _, c := range []struct{ name, commands, replies string }{
		{"one", request("CL.THROTTLE", "a", "1", "1", "60"), "*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:60\r\n"},
		{"pipeline", request("CL.THROTTLE", "a", "1", "1", "60") + request("CL.THROTTLE", "a", "1", "1", "60") + request("PING"),
			"*5\r\n:0\r\n:2\r\n:0\r\n:-1\r\n:120\r\n*5\r\n:1\r\n:2\r\n:0\r\n:60\r\n:120\r\n+PONG\r\n"},
		{"error", request("CL.THROTTLE", "a", "x", "1", "60"), "-ERR"},
		{"nothing", "", ""},
		{"map of RESP3", request("CONFIG", "GET", "databases"), "%1\r\n$9\r\ndatabases\r\n$1\r\n1\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := callerOf(t, s.Server).Run([]byte(c.commands), []byte("before "))
			if err != nil {
				t.Fatalf("Run: %v", err)
			}
			if want := "before " + c.replies; !strings.HasPrefix(string(got), want) || c.name != "error" && string(got) != want {
				t.Errorf("replies\n%q, want\n%q", got, want)
			}
		})
	}
}

// A Caller needs no password, and is no client: it is not in the list of clients, and does not count for maxclients.
func TestCaller_Password(t *testing.T) {
	s := start(t, func(o *options.Options) { o.RequirePass, o.MaxClients = "secret", 1 })
	got, err := callerOf(t, s.Server).Run([]byte(request("CLIENT", "LIST")+request("PING")), nil)
	if err != nil || !strings.HasSuffix(string(got), "+PONG\r\n") || strings.Contains(string(got), "addr=") {
		t.Errorf("replies %q, %v; want an empty list of clients and PONG", got, err)
	}
}

// Replies longer than the output buffer are complete.
func TestCaller_LongPipeline(t *testing.T) {
	const n = 5000
	s := start(t, nil)
	got, err := callerOf(t, s.Server).Run([]byte(strings.Repeat(request("CL.THROTTLE", "a", "10000", "1", "60"), n)), nil)
	if err != nil || strings.Count(string(got), "*5\r\n:0\r\n:10001\r\n") != n {
		t.Errorf("%d replies, %v; want %d", strings.Count(string(got), "*5\r\n"), err, n)
	}
}

func TestCaller_Malformed(t *testing.T) {
	s := start(t, nil)
	for _, c := range []struct {
		name, commands string
		want           error
	}{
		{"incomplete", "*1\r\n$4\r\nPI", errCallerInput},
		{"protocol error", "*1\r\n!4\r\nPING\r\n", errCallerClosed},
		{"quit", request("QUIT"), errCallerClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := callerOf(t, s.Server).Run([]byte(c.commands), nil); !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
		})
	}
}

// Concurrent callers never admit more than the limit.
func TestCaller_Concurrent(t *testing.T) {
	const callers, calls = 8, 200
	s := start(t, nil)
	admitted := make([]int, callers)
	var running sync.WaitGroup
	for i := range callers {
		running.Go(func() {
			c := s.NewCaller()
			defer c.Close()
			for range calls {
				got, err := c.Run([]byte(request("CL.THROTTLE", "shared", "99", "1", "1h")), nil)
				if err != nil {
					t.Errorf("Run: %v", err)
					return
				}
				admitted[i] += countTrue(strings.HasPrefix(string(got), "*5\r\n:0\r\n"))
			}
		})
	}
	running.Wait()
	total := 0
	for _, n := range admitted {
		total += n
	}
	if total != 100 {
		t.Errorf("%d admitted, want 100", total)
	}
}

func TestCallerDoesNotAllocate(t *testing.T) {
	s := start(t, nil)
	c := callerOf(t, s.Server)
	commands, replies := []byte(request("CL.THROTTLE", "user:1", "15", "30", "60")), make([]byte, 0, 256)
	run := func() {
		var err error
		if replies, err = c.Run(commands, replies[:0]); err != nil {
			t.Fatalf("Run: %v", err)
		}
	}
	run()
	if n := testing.AllocsPerRun(1000, run); n > 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func BenchmarkCaller(b *testing.B) {
	s := start(b, nil)
	c := callerOf(b, s.Server)
	commands, replies := []byte(request("CL.THROTTLE", "user:1", "15", "30", "60")), make([]byte, 0, 256)
	for b.Loop() {
		replies, _ = c.Run(commands, replies[:0])
	}
}

func TestAccess(t *testing.T) {
	local, remote := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}
	open := start(t, nil)
	if !open.Accepts(local) || open.Accepts(remote) {
		t.Error("protected mode must accept local clients only")
	}
	if _, err := open.Authenticate(remote, []byte("default"), nil); err != nil {
		t.Errorf("no password is required, got %v", err)
	}

	s := start(t, func(o *options.Options) { o.RequirePass, o.AuthFailuresPerMinute = "secret", 2 })
	if !s.Accepts(remote) {
		t.Error("with a password, all clients may connect")
	}
	if _, err := s.Authenticate(remote, []byte("default"), []byte("secret")); err != nil {
		t.Errorf("right password: %v", err)
	}
	for range 2 {
		if _, err := s.Authenticate(remote, []byte("default"), []byte("wrong")); err != ErrPassword {
			t.Errorf("wrong password: %v, want %v", err, ErrPassword)
		}
	}
	var many *TooManyFailuresError
	if _, err := s.Authenticate(remote, []byte("default"), []byte("secret")); !errors.As(err, &many) || many.Wait <= 0 {
		t.Errorf("after two failures: %v, want a TooManyFailuresError", err)
	}
	if _, err := s.Authenticate(local, []byte("default"), []byte("secret")); err != nil {
		t.Errorf("another address: %v", err)
	}
}

func TestReady(t *testing.T) {
	snapshots := &fakeSnapshots{}
	s := setup{snapshots: snapshots}.start(t)
	if err := s.Ready(); err != nil {
		t.Errorf("a server that runs: %v, want nil", err)
	}
	snapshots.loading.Store(true)
	if err := s.Ready(); err != errReadyLoading {
		t.Errorf("while the snapshot is loaded: %v, want %v", err, errReadyLoading)
	}
	snapshots.loading.Store(false)
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatalf("Shutdown: %v", err)
	}
	if err := s.Ready(); err != errReadyStopping {
		t.Errorf("after Shutdown: %v, want %v", err, errReadyStopping)
	}
}

// logEngine is an engine that decides after it has read its log.
type logEngine struct {
	limiter.Engine
	read atomic.Bool
}

func (e *logEngine) Hold() bool { return e.read.Load() }
func (e *logEngine) Release()   {}

func TestReady_Log(t *testing.T) {
	engine := &logEngine{Engine: buckets.New(buckets.Config{})}
	s := setup{engine: engine}.start(t)
	if err := s.Ready(); err != errReadyLog {
		t.Errorf("while the log is read: %v, want %v", err, errReadyLog)
	}
	engine.read.Store(true)
	if err := s.Ready(); err != nil {
		t.Errorf("after that: %v, want nil", err)
	}
}

func TestReady_Cluster(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b")
	if err := l.nodes["b"].Ready(); err != errReadyNoLeader {
		t.Errorf("without a leader: %v, want %v", err, errReadyNoLeader)
	}
	l.lead("a")
	if err := l.nodes["b"].Ready(); err != errReadyBehind {
		t.Errorf("without a log: %v, want %v", err, errReadyBehind)
	}
	l.mu.Lock()
	l.status.Last, l.status.Applied = 7, 7
	l.mu.Unlock()
	for id, n := range l.nodes {
		if err := n.Ready(); err != nil {
			t.Errorf("node %s with a leader: %v, want nil", id, err)
		}
	}
}

// A Caller of a follower forwards commands to the leader, and fails without a leader as connections do.
func TestCaller_Follower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPipedLab(t, "a", "b")
		l.lead("a")
		caller := callerOf(t, l.nodes["b"].Server)
		for _, want := range []string{five(0, 3, 2, -1, 60), five(0, 3, 1, -1, 120)} {
			if got, err := caller.Run([]byte(throttle("k")), nil); err != nil || string(got) != want {
				t.Errorf("forwarded: %q, %v, want %q", got, err, want)
			}
		}
		l.setViewLeader("b", "")
		if got, err := caller.Run([]byte(throttle("k")), nil); err != nil || string(got) != failure(errNotLeading) {
			t.Errorf("without a leader: %q, %v, want %q", got, err, failure(errNotLeading))
		}
	})
}
