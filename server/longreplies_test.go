package server

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
)

// longReplies lists commands whose replies may be long.
var longReplies = [][]string{
	{"CLIENT", "LIST"}, {"COMMAND"}, {"COMMAND", "DOCS"}, {"COMMAND", "INFO"}, {"KEYS", "*"},
	{"CL.RULES", "EXPLAIN", "d"}, {"CL.RULES", "GET"}, {"CL.RULES", "HISTORY"}, {"CL.RULES", "LIST"}, {"PUBSUB", "CHANNELS"}, {"PUBSUB", "NUMPAT"}, {"SCAN", "0"}, {"SLOWLOG", "GET"},
}

// takeLong takes all tokens that allow clients to make long replies (see longToken). The function
// release releases the tokens.
func (s *testServer) takeLong() (release func()) {
	for range maxLong {
		s.clientMemory.long <- struct{}{}
	}
	return func() {
		for range maxLong {
			<-s.clientMemory.long
		}
	}
}

// TestLongRepliesWait checks that commands with long replies wait for a free token.
func TestLongRepliesWait(t *testing.T) {
	for _, call := range longReplies {
		synctest.Test(t, func(t *testing.T) {
			s, ln := setup{rules: newRules(t, labRules)}.startPiped(t)
			p := newPeer(t, ln.connect())
			release := s.takeLong()
			answered := make(chan value, 1)
			go func() { answered <- p.ask(call...) }()
			synctest.Wait()
			if len(answered) > 0 {
				t.Errorf("%q did not wait for a token", call)
			}
			release()
			if got := <-answered; got.kind == '-' {
				t.Errorf("%q: got the error %s", call, got)
			}
		})
	}
}

// TestLongReplies_NoLeader checks that commands with long replies hold no token while they wait for an unreachable
// leader.
func TestLongReplies_NoLeader(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b")
	l.lead("a")
	unreachable, cancel := context.WithCancel(context.Background())
	defer cancel()
	l.dialWith(func(context.Context, string) (net.Conn, error) {
		<-unreachable.Done()
		return nil, unreachable.Err()
	})
	b := l.nodes["b"]
	listWhileScansWait(t, b)
	if n := b.awaiting(); n != maxLong {
		t.Errorf("%d clients wait for the leader, want maxLong", n)
	}
}

// TestLongReplies_NoCommit is like TestLongReplies_NoLeader, but on a leader that cannot commit.
func TestLongReplies_NoCommit(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b")
	l.lead("a")
	release := l.hold()
	defer release(nil)
	listWhileScansWait(t, l.nodes["a"])
}

// listWhileScansWait makes as many commands wait for the cluster as there are tokens for long replies. It checks that
// CLIENT LIST, which also needs a token, is answered during the wait.
func listWhileScansWait(t *testing.T, s *labNode) {
	t.Helper()
	for range maxLong {
		s.dial().send(request("SCAN", "0"))
	}
	if !eventually(func() bool { return s.awaiting() == maxLong }) {
		t.Fatal("not all SCAN commands wait for the cluster")
	}
	if list := s.dial().ask("CLIENT", "LIST"); list.kind == '-' {
		t.Errorf("CLIENT LIST during the wait: got the error %s", list)
	}
}

// awaiting returns the number of clients that wait for the cluster.
func (s *testServer) awaiting() (n int) {
	for _, c := range s.sortedClients() {
		n += countTrue(c.conn.activity.awaiting.Load())
	}
	return n
}

// TestLongReplies_Closed checks that CLIENT KILL closes a client that waits for a token.
func TestLongReplies_Closed(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	defer s.takeLong()()
	p, other := s.dial(), s.greet()
	id := p.id()
	p.send(request("KEYS", "*"))
	if !eventually(func() bool { return s.sortedClients()[0].session.lastCommand() == "keys" }) {
		t.Fatal("KEYS did not start")
	}
	other.do(":1\r\n", "CLIENT", "KILL", "ID", id)
	p.closed()
	other.await("clients", "connected_clients", 1)
}
