package server

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/internal/goroutines"
)

// TestPanics makes the engine panic in a decision and in a lookup. Only the connection of the command that panics may
// be closed.
func TestPanics(t *testing.T) {
	t.Parallel()
	var log lockedLog
	table := buckets.New(buckets.Config{Clock: newTestClock().read, Shards: 8})
	s := setup{engine: panicking{table, "boom"}, log: log.logger()}.start(t)
	bystander := s.greet()
	panics := int64(0)
	f := func(want string, commands ...string) {
		t.Helper()
		p := s.dial()
		for _, command := range commands {
			p.send(strings.Join(strings.Fields(command), " ") + "\r\n")
		}
		// Replies that have not been written are lost with the connection, so got may be only the beginning of want.
		if got := p.rest(); !strings.HasPrefix(want, got) {
			t.Errorf("%q: got %q, want %q or the beginning of it", commands, got, want)
		}
		panics++
		bystander.await("stats", "handler_panics", panics)
		bystander.do("+OK\r\n", "FLUSHALL")
		bystander.send(strings.Repeat(request("CL.THROTTLE", "k", "1", "1", "60"), 3))
		bystander.expect(five(0, 2, 1, -1, 60) + five(0, 2, 0, -1, 120) + five(1, 2, 0, 60, 120))
		bystander.do("+OK\r\n", "MULTI")
		bystander.do("+QUEUED\r\n", "EXISTS", "k")
		bystander.do("*1\r\n:1\r\n", "EXEC")
	}
	f("", "CL.THROTTLE boom 1 1 60")
	f("", "TTL boom")
	f("+OK\r\n", "WATCH k", "WATCH boom")
	f("+OK\r\n+QUEUED\r\n", "MULTI", "CL.THROTTLE boom 1 1 60", "EXEC")
	f("+OK\r\n+QUEUED\r\n+QUEUED\r\n", "MULTI", "PING", "TTL boom", "EXEC")
	if got := log.String(); strings.Count(got, "a command panicked") != int(panics) || !strings.Contains(got, "test: the key boom") {
		t.Errorf("the log must contain one line for each panic, with the text of the panic: %s", got)
	}
}

// TestShutdownAnswersReadCommands shuts down while a pipeline is being decided. All commands that have been read must
// be answered. Later commands must not be answered.
func TestShutdownAnswersReadCommands(t *testing.T) {
	t.Parallel()
	table := buckets.New(buckets.Config{Clock: newTestClock().read, Shards: 8})
	engine := holding{table, "slow", make(chan struct{}), make(chan struct{})}
	s := setup{engine: engine}.start(t)
	idle, half, busy := s.greet(), s.greet(), s.greet()
	half.send("*1\r\n$4\r\nPI")
	busy.send(ping + request("CL.THROTTLE", "slow", "1", "1", "60") + ping)
	<-engine.entered

	ended := make(chan error)
	go func() { ended <- s.Shutdown(context.Background()) }()
	idle.closed()
	half.closed()
	if err := <-s.served; err != ErrServerClosed {
		t.Errorf("Serve returns %v, want %v", err, ErrServerClosed)
	}
	if conn, err := net.Dial("tcp", s.addr); err == nil {
		_ = conn.Close()
		t.Error("a connection was accepted during shutdown")
	}
	select {
	case err := <-ended:
		t.Fatalf("Shutdown returned %v before the running command was answered", err)
	default:
	}
	busy.send(ping)
	close(engine.release)
	if got, want := busy.rest(), "+PONG\r\n"+five(0, 2, 1, -1, 60)+"+PONG\r\n"; got != want {
		t.Errorf("the busy connection got %q, want %q", got, want)
	}
	if err := <-ended; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Errorf("a second Shutdown: %v", err)
	}
}

// TestShutdownCutsOff calls Shutdown with a canceled context while a client does not read its replies. Shutdown must
// return the error of the context, and close the connection.
func TestShutdownCutsOff(t *testing.T) {
	t.Parallel()
	f := func(commands string) {
		t.Helper()
		s := start(t, nil)
		p := s.greet()
		go func() { _, _ = p.Write([]byte(commands)) }()
		p.expect("$") // the reply is being written
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := s.Shutdown(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Shutdown returns %v, want %v", err, context.Canceled)
		}
		p.rest()
	}
	f(strings.Repeat(request("ECHO", strings.Repeat("x", 500<<10)), 100))
	f(strings.Repeat(request("INFO", "everything"), 20_000))
}

// TestServeAfterShutdown checks that Serve fails after Shutdown and closes its listener.
func TestServeAfterShutdown(t *testing.T) {
	t.Parallel()
	s := setup{}.build(t)
	if err := s.Shutdown(t.Context()); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	ln := newPipes()
	if err := s.Serve(ln); err != ErrServerClosed {
		t.Errorf("Serve returns %v, want %v", err, ErrServerClosed)
	}
	if _, err := ln.Accept(); err == nil {
		t.Error("the listener is still open")
	}
}

// ofServers is the prefix of the names of functions that goroutines of a server run.
const ofServers = "github.com/throttledhq/throttled/server.(*"

// TestNoGoroutineIsLeft checks that no goroutines are left after Shutdown of a server with connections in many states.
func TestNoGoroutineIsLeft(t *testing.T) {
	before := goroutines.Of(ofServers)
	for range 3 {
		s := start(t, withPassword)
		admin := s.dial()
		admin.do("+OK\r\n", "AUTH", "secret")
		for _, command := range []string{"MONITOR", "SUBSCRIBE c", "MULTI", "CLIENT REPLY OFF", "QUIT", "NONSENSE", "*1\r\n:"} {
			p := s.dial()
			p.do("+OK\r\n", "AUTH", "secret")
			p.send(command + "\r\n")
		}
		s.dial()
		if len(goroutines.Of(ofServers)) <= len(before) {
			t.Error("the goroutines of a running server are not found")
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-s.served; err != ErrServerClosed {
			t.Errorf("Serve returned %v, want ErrServerClosed", err)
		}
	}
	goroutines.AwaitEnd(t, ofServers, before)
}

// TestShutdownOfPipes checks that no goroutine is left after a Shutdown that has timed out. If a goroutine is left,
// synctest.Test fails.
func TestShutdownOfPipes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ln := setup{}.startPiped(t)
		idle, stalled, monitor := newPeer(t, ln.connect()), newPeer(t, ln.connect()), newPeer(t, ln.connect())
		monitor.do("+OK\r\n", "MONITOR")
		idle.do("+PONG\r\n", "PING")
		stalled.send(ping) // its reply is not read
		ctx, cancel := context.WithTimeout(t.Context(), s.opts.Get().WriteTimeout/2)
		defer cancel()
		if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown returns %v, want %v", err, context.DeadlineExceeded)
		}
	})
}
