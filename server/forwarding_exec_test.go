package server

import "testing"

// TestForwardWatches checks that WATCH works on a follower.
func TestForwardWatches(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b")
	l.lead("a")
	p, other := l.nodes["b"].dial(), l.nodes["a"].dial()
	f := func(want string, between func()) {
		t.Helper()
		p.do("+OK\r\n", "FLUSHALL")
		p.do("+OK\r\n", "WATCH", "k")
		p.do("+OK\r\n", "WATCH", "l", "m")
		between()
		p.do("+OK\r\n", "MULTI")
		p.do("+QUEUED\r\n", "CL.THROTTLE", "x", "2", "1", "60")
		p.do("+QUEUED\r\n", "PING")
		p.do(want, "EXEC")
		if n := l.nodes["b"].forward.Watches(); n != 0 {
			t.Errorf("%d streams with watched keys are open after EXEC, want 0", n)
		}
	}
	short := func(want string, between func()) {
		t.Helper()
		p.do("+OK\r\n", "WATCH", "m")
		between()
		p.do("+OK\r\n", "MULTI")
		p.do("+QUEUED\r\n", "PING")
		p.do(want, "EXEC")
	}
	short("*1\r\n+PONG\r\n", func() {}) // no command of the transaction uses keys
	short("*-1\r\n", func() { other.ask("CL.THROTTLE", "m", "2", "1", "60") })
	done := "*2\r\n" + five(0, 3, 2, -1, 60) + "+PONG\r\n"
	f(done, func() {})
	f("*-1\r\n", func() { other.ask("CL.THROTTLE", "m", "2", "1", "60") })
	f(done, func() {
		other.ask("CL.THROTTLE", "m", "2", "1", "60")
		p.do("+OK\r\n", "UNWATCH")
	})
	f(done, func() {
		other.ask("CL.THROTTLE", "m", "2", "1", "60")
		p.do("+OK\r\n", "MULTI")
		p.do("+OK\r\n", "DISCARD")
	})
	f("*-1\r\n", func() { l.decide("b"); l.setViewLeader("b", "b"); l.setViewLeader("a", "b") })
	other = l.nodes["b"].dial()
	f(done, func() {}) // node "b" watches the keys itself, because it is now the leader
	f("*-1\r\n", func() { other.ask("CL.THROTTLE", "m", "2", "1", "60") })
	f("*-1\r\n", func() { l.decide("a"); l.setViewLeader("a", "a"); l.setViewLeader("b", "a") })
	f("*-1\r\n", func() {
		l.decide("b")
		l.setViewLeader("b", "b")
		l.decide("a")
		l.setViewLeader("a", "a")
		l.setViewLeader("b", "a")
	})

	p.do("+OK\r\n", "MULTI")
	p.do("+QUEUED\r\n", "PING")
	p.do("*1\r\n+PONG\r\n", "EXEC")
	p.do("+OK\r\n", "WATCH", "k")
	p.do("+RESET\r\n", "RESET")
	p.do("+OK\r\n", "WATCH", "k")
	_ = p.Close()
	if !eventually(func() bool { return l.nodes["b"].forward.Watches() == 0 }) {
		t.Error("streams with watched keys are open after the connection is closed, want none")
	}
}

// TestForwardTransactions checks that a follower forwards those commands of a transaction that use keys. They must be
// forwarded as one transaction. The follower must run the other commands itself.
func TestForwardTransactions(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b")
	l.lead("a")
	p := l.nodes["b"].dial()
	begin := func(commands ...string) {
		t.Helper()
		p.do("+OK\r\n", "MULTI")
		for _, command := range commands {
			p.do("+QUEUED\r\n", words(command)...)
		}
	}
	begin("CL.THROTTLE k 2 1 60", "PING", "CLIENT GETNAME", "TTL k", "CL.THROTTLE k x 1 60")
	p.do("*5\r\n"+five(0, 3, 2, -1, 60)+"+PONG\r\n$-1\r\n:60\r\n"+failure(badThrottle(2, "x")), "EXEC")
	begin("DEL k")
	p.do("*1\r\n:1\r\n", "EXEC")
	begin()
	p.do("*0\r\n", "EXEC")

	streams := l.scripts()
	l.nodes["b"].forward.SetLeader("") // closes idle streams
	l.nodes["b"].forward.SetLeader("a")
	block := request("MULTI") + request("DEL", "k") + request("EXEC")
	begin("DEL k", "PING")
	p.send(request("EXEC"))
	s := <-streams
	s.expect(t, block)
	s.send(t, "+OK\r\n+QUEUED\r\n"+notLeadingLine)
	s.expect(t, block)
	s.send(t, "+OK\r\n+QUEUED\r\n-EXECABORT no\r\n")
	p.expect("-EXECABORT no\r\n")
	begin("DEL k", "PING")
	p.send(request("EXEC") + ping)
	s.expect(t, block)
	s.send(t, "+OK\r\n+QUEUED\r\n")
	_ = s.Close()
	p.expect(failure(errUncertain) + "+PONG\r\n")
}
