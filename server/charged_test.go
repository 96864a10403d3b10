package server

import (
	"testing"

	"github.com/throttledhq/throttled/topology"
)

// newAsyncLab returns a lab (a cluster of servers in this process) in async mode, with node a as the leader.
func newAsyncLab(t *testing.T, ids ...string) *lab {
	t.Helper()
	l := newLab(t, ids...)
	l.setStatus(topology.Status{Mode: "async"})
	l.lead("a")
	return l
}

const (
	kept     = ":1\r\n" // reply of WAIT in a cluster of three nodes if no charge was rolled back
	maybeNot = ":0\r\n" // reply of WAIT if a charge may have been rolled back
)

// TestWaitForChargeOfAnotherTerm charges clients of the leader and of a follower, and then starts a new term. WAIT
// must return 0 until the client is charged again.
func TestWaitForChargeOfAnotherTerm(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]string{"client of the leader": "a", "client of a follower": "b"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newAsyncLab(t, "a", "b", "c")
			p := l.nodes[at].dial()
			wait := func(what, want string) {
				t.Helper()
				if got := p.ask("WAIT", "1", "0"); ":"+got.text+"\r\n" != want {
					t.Errorf("%s: WAIT replied %s, want %q", what, got, want)
				}
			}
			again := func() { l.newTerm("a", l.ids...) }
			wait("nothing was charged", kept)
			again()
			wait("nothing was charged, in the next term", kept)
			for _, charge := range [][]string{
				{"CL.THROTTLE", "k", "20", "1", "60"},
				{"CL.ALL", "1", "THROTTLE", "k", "20", "1", "60", "WINDOW", "w", "20", "60"},
				{"CL.THROTTLE", "k", "20", "1", "60", "-1"},
			} {
				p.ask(charge...)
				wait(charge[0], kept)
				again()
				wait(charge[0]+", in the next term", maybeNot)
				p.ask("CL.THROTTLE", "k", "20", "1", "60", "0")
				wait("a peek", maybeNot)
				p.ask("CL.THROTTLE", "k", "20", "1", "60", "100")
				wait("a refusal", maybeNot)
				p.ask("CL.ALL", "100", "THROTTLE", "free", "200", "1", "60", "THROTTLE", "k", "20", "1", "60")
				wait("a refused group", maybeNot)
				p.ask("CL.THROTTLE", "k")
				wait("an error", maybeNot)
				p.ask("DEL", "l")
				wait("no decision", maybeNot)
			}
			p.send(throttle("other") + request("WAIT", "1", "0"))
			p.expect(five(0, 3, 2, -1, 60) + kept)

			again()
			p.do("+OK\r\n", "MULTI")
			p.do("+QUEUED\r\n", "TTL", "other")
			p.do("+QUEUED\r\n", "CL.THROTTLE", "k", "20", "1", "60", "100")
			p.ask("EXEC")
			wait("a transaction that charges nothing", maybeNot)
			p.do("+OK\r\n", "MULTI")
			p.do("+QUEUED\r\n", "TTL", "other")
			p.do("+QUEUED\r\n", "CL.THROTTLE", "k", "20", "1", "60")
			p.ask("EXEC")
			wait("a transaction", kept)
			p.fails("ERR value is not an integer", "WAIT", "x", "0")

			again()
			l.setStatus(topology.Status{Mode: "sync"})
			wait("sync mode", kept)
		})
	}
}

// TestWaitAtAnotherLeader charges a client of each node, and then makes another node the leader. WAIT must return 0
// until the client is charged again.
func TestWaitAtAnotherLeader(t *testing.T) {
	t.Parallel()
	l := newAsyncLab(t, "a", "b", "c")
	here, there, third := l.nodes["a"].dial(), l.nodes["b"].dial(), l.nodes["c"].dial()
	all := map[string]*peer{"a": here, "b": there, "c": third}
	for _, p := range all {
		p.send(throttle(p.LocalAddr().String()) + request("WAIT", "1", "0"))
		p.expect(five(0, 3, 2, -1, 60) + kept)
	}
	l.lead("b")
	for name, p := range all {
		if got := p.ask("WAIT", "1", "0"); got.text != "0" {
			t.Errorf("WAIT on node %s replied %s, want 0", name, got)
		}
		p.send(throttle(p.LocalAddr().String()) + request("WAIT", "1", "0"))
		p.expect(five(0, 3, 1, -1, 120) + kept)
	}
}

// TestWaitThroughStaleNode runs WAIT on a follower while the leader is in a new term that the follower does
// not know yet. WAIT must return 0 for a charge in the earlier term.
func TestWaitThroughStaleNode(t *testing.T) {
	t.Parallel()
	l := newAsyncLab(t, "a", "b", "c")
	p := l.nodes["b"].dial()
	p.send(throttle("k") + request("WAIT", "1", "0"))
	p.expect(five(0, 3, 2, -1, 60) + kept)
	l.newTerm("a")
	p.do(maybeNot, "WAIT", "1", "0")
	p.send(throttle("k") + request("WAIT", "1", "0"))
	p.expect(five(0, 3, 1, -1, 120) + kept)
	l.setViewLeader("b", "a") // node b recorded the last charge for the earlier term, because it did not know the new term
	p.do(maybeNot, "WAIT", "1", "0")
}
