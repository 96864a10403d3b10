package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/throttledhq/throttled/topology"
)

// TestClClusterShows checks the replies of the read-only subcommands of CL.CLUSTER.
func TestClClusterShows(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b")
	l.lead("a")
	p := l.nodes["b"].dial()
	status := p.ask("CL.CLUSTER", "STATUS")
	for name, want := range map[string]string{"cluster": labName, "self": "b", "role": "follower", "leader": "a", "term": "1", "nodes": "2", "voters": "2",
		"mode": "sync", "last-index": "12", "commit-index": "11", "applied-index": "10"} {
		if got, _ := status.field(name); got.text != want {
			t.Errorf("STATUS: %s is %s, want %s", name, got, want)
		}
	}
	if got, _ := l.nodes["a"].dial().ask("CL.CLUSTER", "STATUS").field("role"); got.text != "leader" {
		t.Errorf("STATUS on the leader: role is %s, want leader", got)
	}
	line := func(id, role string) string {
		m := l.nodes[id].member()
		return fmt.Sprintf("%s raft=%s role=%s host=127.0.0.1 port=%d cluster-port=%d sentinel-port=%d leader-port=%d", id, m.Raft, role, m.Port, m.ClusterPort, m.SentinelPort, m.LeaderPort)
	}
	if got := p.ask("CL.CLUSTER", "NODES").words(); !slices.Equal(got, []string{line("a", "leader"), line("b", "follower self")}) {
		t.Errorf("NODES of the follower: got %q, want leader a, and follower b with the word self", got)
	}
	leader := l.nodes["a"].dial()
	for words, f := range map[string]topology.Follower{
		" answers=yes behind=5": {Answers: true, Last: 7}, " answers=no": {Last: 7}, " answers=yes behind=0": {Answers: true, Last: 13},
	} {
		l.setFollower("b", f)
		if got := leader.ask("CL.CLUSTER", "NODES").words(); !slices.Equal(got, []string{line("a", "leader self"), line("b", "follower"+words)}) {
			t.Errorf("NODES of the leader: got %q, want leader a with the word self, and follower b with its progress", got)
		}
	}
	view := *l.nodes["b"].View()
	view.Members = []topology.Member{{ID: "c", Raft: "x:1"}}
	l.nodes["b"].view.Store(&view)
	if got := p.ask("CL.CLUSTER", "NODES").words(); !slices.Equal(got, []string{"c raft=x:1 role=learner (has not announced its client addresses)"}) {
		t.Errorf("NODES: got %q, want only learner c, which has not announced its addresses", got)
	}
	p.do(fmt.Sprintf("*8\r\n$5\r\nindex\r\n:10\r\n$8\r\nlog-time\r\n:%d\r\n$4\r\nkeys\r\n:0\r\n$3\r\nsum\r\n$16\r\n0000000000000abc\r\n", l.clock.read()), "CL.CLUSTER", "HASH")
	p.ask("HELLO", "3")
	if got := p.ask("CL.CLUSTER", "HASH"); got.kind != '%' {
		t.Errorf("HASH in RESP3: got %s, want a map", got)
	}
	p.do("-ERR unknown subcommand 'NOPE'. Try CL.CLUSTER HELP.\r\n", "CL.CLUSTER", "NOPE")
}

// TestClClusterChanges changes the cluster through several nodes and ports. The leader must execute each change.
// Invalid changes must be refused.
func TestClClusterChanges(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b", "c")
	l.lead("a")
	for i, p := range []*peer{l.nodes["a"].dial(), l.nodes["b"].dial(), l.nodes["b"].at(l.nodes["b"].cluster)} {
		p.do("+OK\r\n", "CL.CLUSTER", "ADD", "d", "10.0.0.4:7000")
		p.do("+OK\r\n", "cl.cluster", "remove", "c")
		p.do("+OK\r\n", "CL.CLUSTER", "TRANSFER")
		p.do("+OK\r\n", "CL.CLUSTER", "TRANSFER", "b")
		if got, want := l.changes()[4*i:], []string{"a: add d 10.0.0.4:7000", "a: remove c", "a: transfer ", "a: transfer b"}; !slices.Equal(got, want) {
			t.Errorf("the changes of the cluster are %q, want %q", got, want)
		}
	}
	l.nodes["b"].dial().do("+OK\r\n", "CL.CLUSTER", "SET", "RAFT-HEARTBEAT", "500")
	if got := l.changes(); got[len(got)-1] != "a: heartbeat 500ms" {
		t.Errorf("the changes of the cluster are %q, want 'a: heartbeat 500ms' at the end", got)
	}
	done := len(l.changes())
	p := l.nodes["b"].dial()
	bad := func(want string, words ...string) {
		t.Helper()
		p.fails(want, append([]string{"CL.CLUSTER"}, words...)...)
	}
	own := l.nodes["a"].member().Raft
	bad("ERR invalid node id '': must be 1 to 40 letters, digits and hyphens, without a hyphen at either end", "ADD", "", "x:1")
	bad("ERR invalid node id 'a_b': must be", "ADD", "a_b", "x:1")
	bad("ERR invalid node id '-a': must be", "ADD", "-a", "x:1")
	bad("ERR invalid node id 'a[': must be", "ADD", "a[", "x:1")
	bad("ERR invalid node id '"+strings.Repeat("x", 41)+"': must be", "ADD", strings.Repeat("x", 41), "x:1")
	for _, addr := range []string{"x", "", ":1", "x:0", "x:65536", "x:-1", "x:a", "x:", "::1:1", "x:1:2"} {
		bad("ERR invalid node address '"+addr+"': must be host:port, with a port from 1 to 65535", "ADD", "d", addr)
	}
	for _, addr := range []string{"0.0.0.0:1", "[::]:1", "224.0.0.1:1"} {
		bad("ERR invalid node address '"+addr+"': must be reachable from other nodes, not an unspecified or multicast address", "ADD", "d", addr)
	}
	bad("ERR add a: the cluster already has that node", "ADD", "a", "10.0.0.4:7000")
	bad("ERR add d: "+own+" is the address of a: the cluster already has that node", "ADD", "d", own)
	bad("ERR unknown node 'x': CL.CLUSTER NODES lists the nodes of the cluster", "REMOVE", "x")
	bad("ERR unknown node 'x': CL.CLUSTER NODES lists", "TRANSFER", "x")
	bad("ERR node 'a' is already the leader", "TRANSFER", "a")
	bad("ERR unknown subcommand or wrong number", "TRANSFER", "a", "b")
	bad("ERR wrong number", "ADD", "d")
	bad("ERR wrong number", "SET", "raft-heartbeat")
	bad("ERR unknown setting 'timeout' of the cluster: use raft-heartbeat", "SET", "timeout", "500")
	for _, ms := range []string{"99", "5001", "-250", "", "250ms", "1.5", "9223372036854775808"} {
		bad("ERR invalid raft-heartbeat '"+ms+"': must be an integer from 100 to 5000, in milliseconds", "SET", "raft-heartbeat", ms)
	}
	if got := l.changes()[done:]; len(got) > 0 {
		t.Errorf("refused commands changed the cluster: %q", got)
	}
	p.do("+OK\r\n", "MULTI")
	p.do(failure(errNotInMulti), "CL.CLUSTER", "TRANSFER")
}

// TestClClusterErrors checks the error replies if the cluster cannot execute a change.
func TestClClusterErrors(t *testing.T) { synctest.Test(t, testClClusterErrors) }

func testClClusterErrors(t *testing.T) {
	l := newPipedLab(t, "a", "b")
	l.lead("a")
	p := l.nodes["b"].dial()
	f := func(err error, want string) {
		t.Helper()
		l.mu.Lock()
		l.adminErr = fmt.Errorf("remove b: %w", err)
		l.mu.Unlock()
		p.do(want+"\r\n", "CL.CLUSTER", "REMOVE", "b")
	}
	f(topology.ErrRefused, "-ERR remove b: the cluster would lose its majority")
	f(topology.ErrChanging, "-TRYAGAIN remove b: another change of the cluster is in progress")
	f(topology.ErrUnknown, "-ERR remove b: the cluster has no such node")
	f(topology.ErrOutcome, "-UNCERTAIN remove b: the outcome is unknown, see CL.CLUSTER NODES and CL.CLUSTER STATUS")
	f(fmt.Errorf("the disk is on fire"), "-ERR remove b: the disk is on fire")
	f(topology.ErrNoLeader, "-"+string(errNotLeading)) // the forwarding node retries until its timeout
	l.lead("")
	p.do(failure(errNotLeading), "CL.CLUSTER", "TRANSFER")
}

// TestClClusterOfNone checks that a standalone server refuses CL.CLUSTER.
func TestClClusterOfNone(t *testing.T) {
	t.Parallel()
	single := start(t, nil).dial()
	for _, command := range []string{"STATUS", "NODES", "HASH", "ADD d x:1", "REMOVE d", "TRANSFER"} {
		single.do(failure(errNotClustered), words("CL.CLUSTER "+command)...)
	}
}
