package server

import (
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// shownBy returns the quoted words in a line of MONITOR output.
func shownBy(t *testing.T, line value) string {
	t.Helper()
	m := regexp.MustCompile(`^[0-9]+\.[0-9]{6} \[0 127\.0\.0\.1:[0-9]+\] (.*)$`).FindStringSubmatch(line.text)
	if line.kind != '+' || m == nil {
		t.Fatalf("MONITOR shows %s, want a time, an address and quoted words", line)
	}
	return m[1]
}

// TestMonitorFeed checks that MONITOR shows commands when they run: the commands of a transaction are shown when EXEC
// runs them. Passwords must be redacted. MONITOR must not show administrative or refused commands.
func TestMonitorFeed(t *testing.T) {
	t.Parallel()
	s := start(t, withPassword)
	monitor, p := s.dial(), s.dial()
	monitor.do("+OK\r\n", "AUTH", "secret")
	monitor.do("+OK\r\n", "MONITOR")
	f := func(want string, words ...string) {
		t.Helper()
		p.ask(words...)
		if got := shownBy(t, monitor.read()); got != want {
			t.Errorf("%q is shown as %s, want %s", words, got, want)
		}
	}
	p.fails("NOAUTH", "PING")
	f(`"AUTH" "(redacted)"`, "AUTH", "wrong")
	f(`"auth" "(redacted)" "(redacted)"`, "auth", "default", "secret")
	f(`"HELLO" "2" "AUTH" "(redacted)" "(redacted)" "(redacted)" "(redacted)"`, "HELLO", "2", "AUTH", "default", "secret", "SETNAME", "me")
	f(`"PING"`, "PING")
	p.fails("ERR unknown command", "NONSENSE")
	p.fails("ERR wrong number", "ECHO")
	p.do("+OK\r\n", "CONFIG", "SET", "requirepass", "secret")
	f(`"CL.THROTTLE" "a b" "1" "1" "60"`, "CL.THROTTLE", "a b", "1", "1", "60")
	f(`"cl.throttle" "k" "x" "1" "1"`, "cl.throttle", "k", "x", "1", "1")
	f(`"ECHO" "\r\n\t\a\b\"\\\x00\x1b\xff"`, "ECHO", "\r\n\t\a\b\"\\\x00\x1b\xff")
	f(`"CLIENT" "ID"`, "CLIENT", "ID")
	f(`"MULTI"`, "MULTI")
	p.do("+QUEUED\r\n", "ECHO", "in")
	p.do("+QUEUED\r\n", "CL.THROTTLE", "k", "1", "1", "60")
	p.send(request("EXEC"))
	p.read()
	var got []string
	for range 3 {
		got = append(got, shownBy(t, monitor.read()))
	}
	if all := strings.Join(got, ", "); !strings.Contains(all, `"ECHO" "in", "CL.THROTTLE" "k" "1" "1" "60"`) || !strings.Contains(all, `"EXEC"`) {
		t.Errorf("a transaction is shown as %s, want ECHO, CL.THROTTLE and EXEC", all)
	}

	if n := p.info("clients")["monitor_clients"]; n != "1" {
		t.Errorf("monitor_clients is %s, want 1", n)
	}
	shownBy(t, monitor.read()) // INFO
	monitor.do("+RESET\r\n", "RESET")
	p.await("clients", "monitor_clients", 0)
}

// TestMonitorsOwnCommands checks that commands of a client in MONITOR mode are answered, even if the client has
// received nothing for longer than write-timeout.
func TestMonitorsOwnCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ln := setup{}.startPiped(t)
		monitor, p := newPeer(t, ln.connect()), newPeer(t, ln.connect())
		monitor.do("+OK\r\n", "MONITOR")
		monitor.do("+OK\r\n", "MONITOR")
		p.do("+PONG\r\n", "PING")
		monitor.read()
		<-time.After(2 * s.opts.Get().WriteTimeout)
		monitor.send(ping)
		a, b := monitor.read().text, monitor.read().text
		if a != "PONG" {
			a, b = b, a
		}
		if a != "PONG" || !strings.HasSuffix(b, `"PING"`) {
			t.Errorf("the monitor got %q and %q, want PONG and the line for PING", a, b)
		}
	})
}

// TestSlowMonitors opens monitors that do not read. Other clients must not wait for these monitors. A monitor must be
// closed if a write to it takes longer than write-timeout, or if its feed is full.
func TestSlowMonitors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ln := setup{}.startPiped(t)
		p := newPeer(t, ln.connect())
		left := func(want int64) {
			t.Helper()
			synctest.Wait()
			if n := p.count("clients", "monitor_clients"); n != want {
				t.Errorf("%d monitors are left, want %d", n, want)
			}
		}
		watch := func() {
			t.Helper()
			newPeer(t, ln.connect()).do("+OK\r\n", "MONITOR")
		}

		watch()
		p.do("+PONG\r\n", "PING")
		<-time.After(s.opts.Get().WriteTimeout - grain)
		left(1)
		<-time.After(4 * grain)
		left(0)

		watch()
		long := strings.Repeat("\x00", 400<<10) // quoting makes it four times as long
		for range feedQueue / (4 * len(long)) {
			p.do(":0\r\n", "EXISTS", long)
		}
		left(1)
		for range 3 {
			p.do(":0\r\n", "EXISTS", long)
		}
		left(0)
		p.do("+PONG\r\n", "PING")
	})
}

// TestMonitorWithoutReplies runs MONITOR while replies are disabled. No earlier reply may be repeated, and later
// commands must be answered.
func TestMonitorWithoutReplies(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	for _, mode := range []string{"SKIP", "OFF"} {
		p := s.dial()
		p.send(ping + request("CLIENT", "REPLY", mode) + request("MONITOR") + request("CLIENT", "REPLY", "ON") + request("QUIT"))
		if got := p.rest(); strings.Count(got, "+PONG\r\n") != 1 || !strings.HasSuffix(got, "+OK\r\n") {
			t.Errorf("CLIENT REPLY %s: got %q, want one PONG, and OK at the end", mode, got)
		}
	}
	s.greet().await("stats", "handler_panics", 0)
}

// TestMonitorInTransaction checks that MONITOR is refused in a transaction.
func TestMonitorInTransaction(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	p := s.dial()
	p.do("+OK\r\n", "MULTI")
	p.do("+QUEUED\r\n", "MONITOR")
	if got := p.ask("EXEC"); len(got.list) != 1 || got.list[0].kind != '-' {
		t.Errorf("EXEC with MONITOR: %s, want an array of one error", got)
	}
	p.await("clients", "monitor_clients", 0)
}

// TestManyMonitors opens and closes monitors while commands run.
func TestManyMonitors(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	p := s.greet()
	for range 50 {
		m := s.dial()
		m.do("+OK\r\n", "MONITOR")
		go func() { _, _ = io.Copy(io.Discard, m.in) }()
		p.send(strings.Repeat(ping, 10))
		p.expect(strings.Repeat("+PONG\r\n", 10))
		_ = m.Close()
	}
	p.await("clients", "connected_clients", 1)
	p.await("clients", "monitor_clients", 0)
}
