package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttledhq/throttled/options"
	"github.com/throttledhq/throttled/server/forward"
)

// TestForwardedPipelines sends pipelines of local and forwarded commands to a follower, in both versions of the
// protocol. The follower must send the same replies as the leader would, in the order of the commands.
func TestForwardedPipelines(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b")
	l.lead("a")
	p := l.nodes["b"].dial()
	p.send(ping + throttle("k") + throttle("k") + request("ECHO", "x") + throttle("k") + throttle("k") + request("EXISTS", "k", "other") +
		ping + request("TTL", "k") + request("DBSIZE") + request("DEL", "k") + throttle("k") + request("NONSENSE") + request("KEYS", "*"))
	p.expect("+PONG\r\n" + five(0, 3, 2, -1, 60) + five(0, 3, 1, -1, 120) + bulk("x") + five(0, 3, 0, -1, 180) + five(1, 3, 0, 60, 180) + ":1\r\n" +
		"+PONG\r\n:180\r\n:1\r\n:1\r\n" + five(0, 3, 2, -1, 60) + unknown("NONSENSE") + "*1\r\n" + bulk("k"))
	p.do(failure(badThrottle(2, "x")), "CL.THROTTLE", "k", "x", "1", "60")
	p.fails("ERR wrong number", "CL.THROTTLE", "k")
	p.do("-WRONGTYPE key 'k' is in use by CL.THROTTLE: use another key, or DEL this key to reset its limit\r\n", "CL.WINDOW", "k", "1", "60")
	p.do("+throttle\r\n", "TYPE", "k")
	p.do("$-1\r\n", "OBJECT", "ENCODING", "other")
	p.ask("HELLO", "3")
	p.do("_\r\n", "OBJECT", "ENCODING", "other")
	p.do(five(0, 3, 1, -1, 120), "CL.THROTTLE", "k", "2", "1", "60")
	p.send(request("CLIENT", "REPLY", "SKIP") + throttle("k") + throttle("k"))
	p.expect(five(1, 3, 0, 60, 180))
	p.do("+OK\r\n", "FLUSHALL")
	p.do(":0\r\n", "DBSIZE")

	if got := p.info("commandstats")["cmdstat_cl.throttle"]; !strings.HasPrefix(got, "calls=9,") || !strings.HasSuffix(got, "failed_calls=1") {
		t.Errorf("cmdstat_cl.throttle is %s, want 9 calls and 1 failed call", got)
	}
	if n := p.count("stats", "forwarded_commands"); n != 20 {
		t.Errorf("forwarded_commands is %d, want 20", n)
	}
	for name, want := range map[string]int64{"forward_retries": 0, "forward_errors": 0} {
		if n := p.count("stats", name); n != want {
			t.Errorf("%s is %d, want %d", name, n, want)
		}
	}
	p.do("+OK\r\n", "CONFIG", "RESETSTAT")
	if n := p.count("stats", "forwarded_commands"); n != 0 {
		t.Errorf("forwarded_commands is %d after CONFIG RESETSTAT, want 0", n)
	}
}

// TestForwardedFeatures checks that MONITOR, CLIENT TRACKING and the slow log work for forwarded
// commands.
func TestForwardedFeatures(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b")
	l.lead("a")
	p, monitor := l.nodes["b"].dial(), l.nodes["b"].dial()
	monitor.do("+OK\r\n", "MONITOR")
	p.do(five(0, 3, 2, -1, 60), "CL.THROTTLE", "k", "2", "1", "60")
	if got := shownBy(t, monitor.read()); got != `"CL.THROTTLE" "k" "2" "1" "60"` {
		t.Errorf("MONITOR shows %s, want the call of CL.THROTTLE", got)
	}
	p.ask("HELLO", "3")
	p.do("+OK\r\n", "CLIENT", "TRACKING", "ON")
	p.send(request("TTL", "k") + ping)
	p.expect(":60\r\n>2\r\n" + bulk("invalidate") + "*1\r\n" + bulk("k") + "+PONG\r\n")
	p.do("+OK\r\n", "CONFIG", "SET", "slowlog-log-slower-than", "0")
	p.ask("CL.THROTTLE", "slow", "2", "1", "60")
	p.do("+OK\r\n", "CONFIG", "SET", "slowlog-log-slower-than", "-1")
	if log := p.ask("SLOWLOG", "GET"); !strings.Contains(log.String(), `"slow"`) {
		t.Errorf("the slow log shows %s, want the call of CL.THROTTLE for the key slow", log)
	}
}

// TestChangesOfTheLeader changes the leader repeatedly while clients of all nodes charge one key. No client may get an
// error, and each charge must be made exactly once.
func TestChangesOfTheLeader(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b", "c")
	l.lead("a")
	const clients, calls, depth = 9, 40, 5
	var wait sync.WaitGroup
	for i := range clients {
		p := l.nodes[l.ids[i%3]].dial()
		wait.Go(func() {
			for range calls {
				if _, err := io.WriteString(p, strings.Repeat(request("CL.THROTTLE", "k", "100000", "1", "60"), depth)); err != nil {
					t.Error(err)
					return
				}
				for range depth {
					if v, err := readValue(p.in); err != nil || v.kind != '*' {
						t.Errorf("a client got the reply %s and the error %v, want a decision", v, err)
						return
					}
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wait.Wait(); close(done) }()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for i := 1; ; i++ {
		select {
		case <-done:
			left := l.nodes["a"].dial()
			l.lead("a")
			if v := left.ask("CL.THROTTLE", "k", "100000", "1", "60", "0"); v.list[2].int() != 100001-clients*calls*depth {
				t.Errorf("%d units are left, want %d", v.list[2].int(), 100001-clients*calls*depth)
			}
			return
		case <-ticker.C:
		}
		l.changeHands(i)
	}
}

// changeHands makes a different node the leader. If i is a multiple of 3, no node decides for a short time. If i is
// even, the view of the new leader names that node as the leader before its engine decides.
func (l *lab) changeHands(i int) {
	next := l.ids[i%len(l.ids)]
	if i%3 == 0 {
		l.decide("")
	}
	if i%2 == 0 {
		l.setViewLeader(next, next)
	}
	l.decide(next)
	for _, id := range l.ids {
		l.setViewLeader(id, next)
	}
}

// TestNoLeader checks that commands that need a leader fail after leader-wait if there is none. A pipeline with many
// such commands must wait only once.
func TestNoLeader(t *testing.T) { synctest.Test(t, testNoLeader) }

func testNoLeader(t *testing.T) {
	l := newPipedLab(t, "a", "b")
	p := l.nodes["b"].dial()
	start := time.Now()
	const n = 15 // few enough for one read
	go func() {
		_, _ = io.WriteString(p, strings.Repeat(throttle("k")+ping+request("TTL", "k")+request("FLUSHALL"), n))
	}()
	p.expect(strings.Repeat(failure(errNotLeading)+"+PONG\r\n"+failure(errNotLeading)+failure(errNotLeading), n))
	if took := time.Since(start); took != options.Default().LeaderWait {
		t.Errorf("the replies took %v, want leader-wait", took)
	}
	if got := p.info("errorstats")["errorstat_LOADING"]; got != fmt.Sprint("count=", 3*n) {
		t.Errorf("errorstat_LOADING is %q, want count=45: 3 errors for each of the 15 repetitions", got)
	}
}

// TestNoWayToTheLeader checks that a node whose leader is unreachable dials the leader again until a dial succeeds or
// leader-wait has passed.
func TestNoWayToTheLeader(t *testing.T) { synctest.Test(t, testNoWayToTheLeader) }

func testNoWayToTheLeader(t *testing.T) {
	l := newPipedLab(t, "a", "b")
	l.lead("a")
	l.dialWith(func(context.Context, string) (net.Conn, error) { return nil, errors.New("no route") })
	p := l.nodes["b"].dial()
	p.do(failure(errNotLeading), "CL.THROTTLE", "k", "2", "1", "60")
	tried := 0
	l.dialWith(func(ctx context.Context, id string) (net.Conn, error) {
		if tried++; tried < 3 {
			return nil, errors.New("no route")
		}
		return l.connect(ctx, id)
	})
	p.do(five(0, 3, 2, -1, 60), "CL.THROTTLE", "k", "2", "1", "60")
	if n := p.count("stats", "forward_retries"); n < 2 {
		t.Errorf("forward_retries is %d, want at least 2", n)
	}
}

// TestOneHop checks that a node does not forward commands that another node has forwarded to it.
func TestOneHop(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b")
	l.lead("a")
	p := l.nodes["b"].at(l.nodes["b"].peers)
	p.send(throttle("k") + request("EXISTS", "k") + request("FLUSHALL") + throttle("k"))
	p.expect(strings.Repeat(notLeadingLine, 4))
	p.do("+OK\r\n", "MULTI")
	p.do("+QUEUED\r\n", "TTL", "k")
	p.do(notLeadingLine, "EXEC")
	p.do(notLeadingLine, "WATCH", "k")
	p.do("+OK\r\n", "MULTI")
	p.do("*0\r\n", "EXEC")
	l.lead("b")
	p.do(five(0, 3, 2, -1, 60), "CL.THROTTLE", "k", "2", "1", "60")
	l.setViewLeader("b", "b")
	l.decide("a") // node "b" no longer decides, but its view has not changed
	p.send(throttle("k") + request("DEL", "k") + request("TTL", "k"))
	p.expect(notLeadingLine + notLeadingLine + notLeadingLine)
	if l.dialled != 0 {
		t.Errorf("%d streams were opened, want 0", l.dialled)
	}
}

// TestChargedMarks checks that the leader puts forward.ChargedMark in front of the reply to a command that has charged
// something, if the node that has forwarded the command has requested these marks.
func TestChargedMarks(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b")
	l.lead("a")
	p := l.nodes["a"].at(l.nodes["a"].peers)
	p.do(five(0, 3, 2, -1, 60), "CL.THROTTLE", "k", "2", "1", "60")
	p.do("+OK\r\n", "CLIENT", "CAPA", "unknown", "CHARGED")
	p.send(throttle("k") + request("CL.THROTTLE", "k", "2", "1", "60", "0") + request("TTL", "k") + throttle("k") + throttle("k"))
	p.expect(forward.ChargedMark + five(0, 3, 1, -1, 120) + five(0, 3, 1, -1, 120) + ":120\r\n" + forward.ChargedMark + five(0, 3, 0, -1, 180) + five(1, 3, 0, 60, 180))
	p.do("+OK\r\n", "MULTI")
	p.do("+QUEUED\r\n", "CL.THROTTLE", "l", "2", "1", "60")
	p.do("+QUEUED\r\n", "CL.THROTTLE", "k", "2", "1", "60")
	p.do("*2\r\n"+forward.ChargedMark+five(0, 3, 2, -1, 60)+five(1, 3, 0, 60, 180), "EXEC")

	client := l.nodes["a"].dial()
	client.fails("ERR unknown subcommand 'CAPA'", "CLIENT", "CAPA", "charged")
}

// TestLeaderWithStaleView makes a node lose leadership before its view changes. Commands that the node can no longer
// decide must wait for up to leader-wait. If a new view has a leader in that time, that leader must run them.
// Otherwise, they must fail.
func TestLeaderWithStaleView(t *testing.T) { synctest.Test(t, testLeaderWithStaleView) }

func testLeaderWithStaleView(t *testing.T) {
	l := newPipedLab(t, "a", "b")
	l.lead("a")
	p := l.nodes["a"].dial()
	p.do(five(0, 3, 2, -1, 60), "CL.THROTTLE", "k", "2", "1", "60")
	l.decide("")
	p.send(throttle("k") + request("TTL", "k") + throttle("k"))
	p.expect(strings.Repeat(failure(errNotLeading), 3))
	p.send(throttle("k") + request("TTL", "k") + throttle("k"))
	if !eventually(func() bool { return l.nodes["a"].forward.Retries.Load() > 3 }) {
		t.Error("without a leader, the commands are not retried")
	}
	l.decide("b")
	l.setViewLeader("b", "b")
	l.setViewLeader("a", "b")
	p.expect(five(0, 3, 1, -1, 120) + ":120\r\n" + five(0, 3, 0, -1, 180))

	p.send(throttle("other"))
	p.expect(five(0, 3, 2, -1, 60))
	l.decide("")
	p.send(throttle("other") + request("TTL", "other"))
	l.setViewLeader("a", "")
	if !eventually(func() bool { return l.nodes["a"].forward.Retries.Load() > 8 }) {
		t.Error("after the leadership was lost again, the commands are not retried")
	}
	l.lead("a") // node "a" is the leader again
	p.expect(five(0, 3, 1, -1, 120) + ":120\r\n")
}
