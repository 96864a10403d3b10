package server

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttledhq/throttled/options"
)

// grain is the maximum delay between the expiry of a timeout and the close of the connection.
// Timeouts are checked once per tick, and times are rounded to ticks.
const grain = 3 * tick

// timeLimit is a way to exceed a timeout.
type timeLimit struct {
	name    string
	options func(o *options.Options) // in addition to those of the test
	act     func(p *peer)            // starts the timeout; nil if the connection itself starts it
	then    func(p *peer)            // runs until the connection is closed; optional
	socket  bool                     // also tested over sockets, in real time
}

// trickle returns a function that sends text, one byte every half tick.
func trickle(text string) func(p *peer) {
	return func(p *peer) {
		for _, b := range []byte(text) {
			if _, err := p.Write([]byte{b}); err != nil {
				return
			}
			<-time.After(tick / 2)
		}
	}
}

// pester returns a function that sends a command every half tick, and reads its one-line reply.
func pester(command string) func(p *peer) {
	return func(p *peer) {
		for range 1000 {
			if _, err := p.Write([]byte(command)); err != nil {
				return
			}
			if _, err := p.in.ReadString('\n'); err != nil {
				return
			}
			<-time.After(tick / 2)
		}
	}
}

var timeLimits = []timeLimit{
	{name: "unauthenticated and silent", options: withPassword, socket: true},
	{name: "unauthenticated, sends PINGs", options: withPassword, then: pester(ping), socket: true},
	{name: "unauthenticated with RESET", options: withPassword, then: pester(request("RESET"))},
	{name: "incomplete count", act: func(p *peer) { p.send("*") }},
	{name: "incomplete command", act: func(p *peer) { p.send("*3\r\n$11\r\nCL.THR") }, socket: true},
	{name: "incomplete inline command", act: func(p *peer) { p.send("PIN") }},
	{name: "incomplete command after a complete one", act: func(p *peer) { p.send(ping + "*1"); p.expect("+PONG\r\n") }},
	{name: "argument sent byte by byte", then: trickle("*2\r\n$4\r\nECHO\r\n$5000\r\n" + strings.Repeat("x", 5000)), socket: true},
	{name: "last argument missing", act: func(p *peer) {
		p.send("*1024\r\n" + strings.Repeat("$1\r\nx\r\n", 1023))
	}},
}

// TestTimeLimits exceeds each timeout with the default options, in fake time.
func TestTimeLimits(t *testing.T) {
	for _, l := range timeLimits {
		t.Run(l.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := setup{options: l.options}.startPiped(t)
				l.check(s)
			})
		})
	}
}

// TestTimeLimitsOfSockets exceeds some of the timeouts over sockets, with the shortest values of the options.
func TestTimeLimitsOfSockets(t *testing.T) {
	t.Parallel()
	for _, l := range timeLimits {
		if !l.socket {
			continue
		}
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, func(o *options.Options) {
				hasty(o)
				if l.options != nil {
					l.options(o)
				}
			})
			l.check(s)
		})
	}
}

// check exceeds the timeout, and checks when the connection is closed. In a test over sockets, which runs in real time,
// the close may be late, but never early.
func (l *timeLimit) check(s *testServer) {
	s.t.Helper()
	limit := s.opts.Get().CommandTimeout
	begin := time.Now() // taken first, since the server may start the timeout before the test continues
	p := s.dial()
	if l.act != nil {
		l.act(p)
	}
	if l.then != nil {
		l.then(p)
	}
	p.closed()
	took := time.Since(begin)
	if took < limit-tick || s.addr == "pipe" && took > limit+grain || took > patience/2 {
		s.t.Errorf("the connection was closed after %v, want %v", took, limit)
	}
	if n := s.stats.timeouts.Load(); n != 1 {
		s.t.Errorf("%d connections timed out, want 1", n)
	}
}

// stuckLog is a log handler. When the first close of a connection is logged, the handler blocks until the channel
// release is closed.
type stuckLog struct {
	slog.Handler
	entered, release chan struct{}
	once             sync.Once
}

func (*stuckLog) Enabled(context.Context, slog.Level) bool { return true }

func (l *stuckLog) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "connection closed") {
		l.once.Do(func() {
			close(l.entered)
			<-l.release
		})
	}
	return nil
}

// TestLateReaper accepts a connection while the reaper is delayed. The connection must not be closed early.
func TestLateReaper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := &stuckLog{entered: make(chan struct{}), release: make(chan struct{})}
		s, ln := setup{options: withPassword, log: slog.New(stuck)}.startPiped(t)
		limit := s.opts.Get().CommandTimeout
		newPeer(t, ln.connect()) // when it times out, the log handler blocks the reaper
		<-stuck.entered
		<-time.After(limit / 2)
		begin, late := time.Now(), newPeer(t, ln.connect())
		synctest.Wait()
		close(stuck.release)
		late.closed()
		if took := time.Since(begin); took < limit-tick || took > limit+grain {
			t.Errorf("the connection was closed after %v, want %v", took, limit)
		}
	})
}

// TestTimeout checks that idle clients are closed, except monitors and subscribers.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 5 * time.Second
		s, ln := setup{options: func(o *options.Options) { o.Timeout = limit }}.startPiped(t)
		monitor, subscriber, active, idle := newPeer(t, ln.connect()), newPeer(t, ln.connect()), newPeer(t, ln.connect()), newPeer(t, ln.connect())
		subscriber.ask("SUBSCRIBE", "c")
		idle.do("+PONG\r\n", "PING")
		begin := time.Now()
		for range 3 {
			<-time.After(limit - grain)
			active.do("+PONG\r\n", "PING")
		}
		idle.closed()
		monitor.closed() // MONITOR has not been sent yet
		subscriber.ask("PING")
		if n := s.stats.timeouts.Load(); n != 2 {
			t.Errorf("%d connections timed out, want 2", n)
		}
		active.closed()
		if took := time.Since(begin); took < 4*limit-4*grain || took > 4*limit {
			t.Errorf("the active connection was closed after %v, want about 20 s", took)
		}

		monitor = newPeer(t, ln.connect())
		monitor.do("+OK\r\n", "MONITOR")
		<-time.After(10 * limit)
		newPeer(t, ln.connect()).do("+PONG\r\n", "PING")
		if line := monitor.read().text; !strings.HasSuffix(line, `"PING"`) {
			t.Errorf("MONITOR shows %q, want PING", line)
		}
	})
}

// TestNoLimits checks that a value of 0 disables a timeout.
func TestNoLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, ln := setup{options: func(o *options.Options) {
			withPassword(o)
			o.CommandTimeout, o.WriteTimeout, o.Timeout = 0, 0, 0
		}}.startPiped(t)
		unauthenticated, half, stalled := newPeer(t, ln.connect()), newPeer(t, ln.connect()), newPeer(t, ln.connect())
		half.send("*1\r\n$4\r\nPI")
		stalled.send(ping) // its reply is not read
		<-time.After(time.Hour)
		unauthenticated.do("+OK\r\n", "AUTH", "secret")
		half.send("NG\r\n")
		half.expect(failure(errNoAuth))
		stalled.expect(failure(errNoAuth))
	})
}

// TestWriteTimeout checks that a client is closed if it reads nothing for the duration write-timeout. A client that
// reads slowly must not be closed.
func TestWriteTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ln := setup{}.startPiped(t)
		limit := s.opts.Get().WriteTimeout
		reply := bulk(strings.Repeat("x", 300<<10))
		call := request("ECHO", strings.Repeat("x", 300<<10))

		slow := newPeer(t, ln.connect())
		slow.send(call)
		got := 0
		for piece := make([]byte, flushAt); got < len(reply); {
			<-time.After(limit - grain)
			n, err := io.ReadFull(slow.Conn, piece[:min(len(piece), len(reply)-got)])
			if got += n; err != nil {
				t.Fatalf("the slow client was closed after %d bytes: %v", got, err)
			}
		}
		slow.do("+PONG\r\n", "PING")

		stalled := newPeer(t, ln.connect())
		stalled.send(call)
		begin := time.Now()
		_, err := stalled.Write([]byte("P")) // blocks: the server reads no command before its reply is read
		if took := time.Since(begin); err == nil || took < limit-tick || took > limit+grain {
			t.Errorf("the write of the stalled client returned after %v with the error %v; want an error after %v", took, err, limit)
		}
		slow.do("+PONG\r\n", "PING")
	})
}

// TestTimeoutsFollowOptions changes a timeout shortly before a connection exceeds it. The new value must apply to that
// connection.
func TestTimeoutsFollowOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, ln := setup{}.startPiped(t)
		half, set := newPeer(t, ln.connect()), newPeer(t, ln.connect())
		half.send("*1")
		begin := time.Now()
		<-time.After(8 * time.Second)
		set.do("+OK\r\n", "CONFIG", "SET", "command-timeout", "60")
		half.closed()
		if took := time.Since(begin); took < time.Minute-tick || took > time.Minute+grain {
			t.Errorf("the connection was closed after %v, want a minute", took)
		}
		set.do("+OK\r\n", "CONFIG", "SET", "command-timeout", "1")
		half = newPeer(t, ln.connect())
		half.send("*1")
		begin = time.Now()
		half.closed()
		if took := time.Since(begin); took > time.Second+grain {
			t.Errorf("the connection was closed after %v, want a second", took)
		}
	})
}

// TestTimeout_AfterWait sends a command that waits for longer than the idle timeout. The client must not be closed
// when the command is answered.
func TestTimeout_AfterWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		snapshots := &fakeSnapshots{entered: make(chan struct{}), release: make(chan struct{})}
		s, ln := setup{options: func(o *options.Options) { o.Timeout = 10 * time.Second }, snapshots: snapshots}.startPiped(t)
		p := newPeer(t, ln.connect())
		p.send(request("SAVE"))
		<-snapshots.entered
		<-time.After(2 * s.opts.Get().Timeout)
		close(snapshots.release)
		p.expect("+OK\r\n")
		<-time.After(3 * tick)
		p.do("+PONG\r\n", "PING")
	})
}
