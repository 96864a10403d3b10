package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/topology"
)

// TestRoles checks the role of the leader and of a follower in ROLE and in INFO replication.
func TestRoles(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b", "c")
	l.lead("a")
	port := func(id string) int { return l.nodes[id].member().Port }
	leader, follower := l.nodes["a"].dial(), l.nodes["b"].dial()
	replica := func(id string) string {
		return texts('*', "127.0.0.1", fmt.Sprint(port(id)), "10")
	}
	leader.do("*3\r\n$6\r\nmaster\r\n:10\r\n*2\r\n"+replica("b")+replica("c"), "ROLE")
	follower.do(fmt.Sprintf("*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n:%d\r\n$9\r\nconnected\r\n:10\r\n", port("a")), "ROLE")
	l.setViewLeader("b", "")
	follower.do(fmt.Sprintf("*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n:%d\r\n$7\r\nconnect\r\n:10\r\n", port("a")), "ROLE")
	if got := follower.info("replication")["master_link_status"]; got != "down" {
		t.Errorf("without a leader, master_link_status is %s, want down", got)
	}
	l.setViewLeader("b", "a")

	l.setStatus(topology.Status{
		Mode: "async", Last: 12, Committed: 11, Applied: 10, LogTime: 9, Behind: -8 * time.Microsecond, Waiting: 7, Unflushed: 6 * time.Millisecond,
		Entries: 5, Changes: 4, Rollbacks: 3, Snapshot: 2, Contact: time.Second,
		RoundTrips: topology.RoundTrips{Answered: 40, Slow: 2, Longest: 130 * time.Millisecond},
		Heartbeat:  500 * time.Millisecond, Settled: true, MayLose: 400 * time.Millisecond,
	})
	common := map[string]string{
		"cluster_id": labName, "leader": "a", "raft_term": "1", "raft_commit_index": "11", "raft_applied_index": "10", "raft_last_index": "12", "raft_snapshot_index": "2",
		"replication_mode": "async", "replication_waiting": "7", "replication_unflushed_usec": "6000", "log_time_behind_usec": "-8", "rollbacks": "3",
		"replication_async_bound_usec": "400000", "raft_heartbeat_usec": "500000", "raft_heartbeat_settled": "yes", "raft_heartbeats_answered": "40", "raft_heartbeats_slow": "2", "raft_heartbeat_longest_usec": "130000",
		"replicated_entries": "5", "replicated_bytes": "4", "leader_contact_usec": "1000000", "master_repl_offset": "10",
	}
	f := func(p *peer, own map[string]string) {
		t.Helper()
		info := p.info("replication")
		for _, fields := range []map[string]string{common, own} {
			for name, want := range fields {
				if info[name] != want {
					t.Errorf("INFO replication: %s is %s, want %s", name, info[name], want)
				}
			}
		}
	}
	f(leader, map[string]string{"role": "master", "node_id": "a", "connected_slaves": "2",
		"slave1": fmt.Sprintf("ip=127.0.0.1,port=%d,state=online,offset=10,lag=0", port("c"))})
	f(follower, map[string]string{"role": "slave", "node_id": "b", "connected_slaves": "0", "master_host": "127.0.0.1",
		"master_port": fmt.Sprint(port("a")), "master_link_status": "up", "slave_repl_offset": "10"})
}

// TestWait runs WAIT on the leader, and on a follower that forwards the command.
func TestWait(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b", "c", "d", "e")
	l.lead("a")
	leader, follower := l.nodes["a"].dial(), l.nodes["b"].dial()
	for _, p := range []*peer{leader, follower} {
		p.do(":2\r\n", "WAIT", "1", "0")
		p.do(":2\r\n", "WAIT", "9", "1000")
		p.do(failure(errNotInteger), "WAIT", "x", "0")
		p.do(failure(errTimeout), "WAIT", "1", "x")
		p.do(failure(errTimeout), "WAIT", "1", "999999999999")
		p.do("-ERR timeout is negative\r\n", "WAIT", "1", "-1")
		release := l.hold()
		p.do(":0\r\n", "WAIT", "1", "20")
		before := l.awaits()
		p.send(request("WAIT", "1", "0"))
		if !eventually(func() bool { return l.awaits() > before }) {
			t.Fatal("WaitCommitted is not called")
		}
		release(limiter.ErrUncertain)
		p.expect(":0\r\n")
		l.lose(nil)
	}
	leader.do("+OK\r\n", "MULTI")
	leader.do("+QUEUED\r\n", "WAIT", "1", "0")
	leader.do("*1\r\n:0\r\n", "EXEC")
}

// TestReplicasOfLeader checks that the leader shows the offset of each replica, and omits unreachable replicas.
func TestReplicasOfLeader(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b", "c", "d")
	l.lead("a")
	p := l.nodes["a"].dial()
	port := func(id string) string { return fmt.Sprint(l.nodes[id].member().Port) }
	l.setFollower("b", topology.Follower{Answers: true, Last: 7, Silent: 1900 * time.Millisecond})
	l.setFollower("c", topology.Follower{Last: 9, Silent: time.Minute})
	l.setFollower("d", topology.Follower{Answers: true, Last: 12}) // the index is higher than the applied index of the leader
	p.do("*3\r\n$6\r\nmaster\r\n:10\r\n*2\r\n"+texts('*', "127.0.0.1", port("b"), "7")+texts('*', "127.0.0.1", port("d"), "10"), "ROLE")
	info := p.info("replication")
	for name, want := range map[string]string{
		"connected_slaves": "2", "slave2": "", "master_repl_offset": "10",
		"slave0": "ip=127.0.0.1,port=" + port("b") + ",state=online,offset=7,lag=1",
		"slave1": "ip=127.0.0.1,port=" + port("d") + ",state=online,offset=10,lag=0",
	} {
		if info[name] != want {
			t.Errorf("INFO replication: %s is %s, want %s", name, info[name], want)
		}
	}
	for _, id := range []string{"b", "d"} {
		l.setFollower(id, topology.Follower{})
	}
	p.do("*3\r\n$6\r\nmaster\r\n:10\r\n*0\r\n", "ROLE")
	if got := p.info("replication")["connected_slaves"]; got != "0" {
		t.Errorf("connected_slaves is %s, want 0", got)
	}
}

// TestWaitInAsyncMode checks that in async mode WAIT calls Flush, and returns 0 if Flush does not return before the
// timeout or the shutdown.
func TestWaitInAsyncMode(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b", "c")
	l.lead("a")
	p := l.nodes["a"].dial()
	release := l.holdFlush()
	p.do(":1\r\n", "WAIT", "1", "0") // WAIT does not call Flush in sync mode
	l.setStatus(topology.Status{Mode: "async"})
	p.do(":0\r\n", "WAIT", "1", "20")
	before := l.flushed()
	wait := func() {
		t.Helper()
		p.send(request("WAIT", "1", "0"))
		if !eventually(func() bool { return l.flushed() > before }) {
			t.Fatal("Flush is not called")
		}
		before = l.flushed()
	}
	wait()
	release()
	p.expect(":1\r\n")
	defer l.holdFlush()()
	wait()
	go func() { _ = l.nodes["a"].Shutdown(t.Context()) }()
	p.expect(":0\r\n")
	p.closed()
}

// TestWaitAcrossTermsInAsyncMode starts a new term while WAIT is blocked in async mode. WAIT must return 0.
func TestWaitAcrossTermsInAsyncMode(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b", "c")
	l.lead("a")
	l.setStatus(topology.Status{Mode: "async"})
	p := l.nodes["a"].dial()
	release := l.holdFlush()
	p.send(request("WAIT", "1", "0"))
	if !eventually(func() bool { return l.flushed() > 0 }) {
		t.Fatal("Flush is not called")
	}
	l.newTerm("a")
	release()
	p.expect(":0\r\n")
	p.do(":1\r\n", "WAIT", "1", "0")
}

// TestWaitAtShutdown checks that a blocked WAIT does not delay Shutdown.
func TestWaitAtShutdown(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b", "c")
	l.lead("a")
	p := l.nodes["a"].greet()
	release := l.hold()
	before := l.awaits()
	p.send(request("WAIT", "1", "0"))
	if !eventually(func() bool { return l.awaits() > before }) {
		t.Fatal("WaitCommitted is not called")
	}
	go func() { _ = l.nodes["a"].Shutdown(t.Context()) }()
	p.expect(":0\r\n")
	p.closed()
	release(nil)
}

// TestCommandsOfProfiles checks that COMMAND and HELP describe the commands of each port.
func TestCommandsOfProfiles(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b")
	l.lead("a")
	n := l.nodes["a"]
	for name, p := range map[string]*peer{"redis": n.dial(), "cluster": n.at(n.cluster), "sentinel": n.at(n.sentinel)} {
		has := map[string]bool{"cl.throttle": name != "sentinel", "cl.cluster|add": name != "sentinel", "sentinel|masters": name == "sentinel",
			"cluster|slots": name == "cluster", "role": true, "client|setname": true, "wait": name != "sentinel", "subscribe": true, "readonly": name != "sentinel"}
		for command, want := range has {
			if got := p.ask("COMMAND", "INFO", command).list[0]; got.null == want {
				t.Errorf("port %s: COMMAND INFO %s returned %s, want null if and only if the port does not have the command", name, command, got)
			}
		}
		all := p.ask("COMMAND").list
		if count := p.ask("COMMAND", "COUNT").int(); int(count) != len(all) || len(p.ask("COMMAND", "DOCS").list) != 2*len(all) {
			t.Errorf("port %s: COMMAND returned %d commands, COUNT returned %d; want equal numbers, also in DOCS", name, len(all), count)
		}
		for _, info := range all {
			for _, sub := range info.list[9].list {
				if !strings.HasPrefix(sub.list[0].text, info.list[0].text+"|") {
					t.Errorf("%s is listed as a subcommand of %s, want a name that begins with the name of the container", sub, info)
				}
			}
			if len(info.list[9].list) > 0 {
				if lines := p.ask(info.list[0].text, "HELP").list; len(lines) != 1+2*len(info.list[9].list) {
					t.Errorf("port %s: %s HELP returned %s, want one line, and two lines for each subcommand", name, info.list[0].text, lines)
				}
			}
		}
	}
}
