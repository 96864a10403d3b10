package server

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestStepDown checks that clients on the leader port are closed when another node becomes the leader, after all
// commands that have been read are answered. Clients on other ports stay connected.
func TestStepDown(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b")
	l.lead("a")
	n := l.nodes["a"]
	idle, busy, plain, clustered := n.at(n.leader), n.at(n.leader), n.greet(), n.at(n.cluster)
	for _, p := range []*peer{idle, busy, clustered} {
		p.do("+PONG\r\n", "PING")
	}
	subscriber, monitor, watcher, other := n.dial(), n.dial(), n.at(n.sentinel), n.at(n.peers)
	subscriber.ask("SUBSCRIBE", "x")
	monitor.do("+OK\r\n", "MONITOR")
	watcher.ask("SUBSCRIBE", "+switch-master")
	other.do("+OK\r\n", "MULTI")

	release := l.hold()
	before := l.awaits()
	busy.send(ping + throttle("k") + request("ECHO", "x"))
	if !eventually(func() bool { return l.awaits() > before }) {
		t.Fatal("WaitCommitted was not called for the charge")
	}
	l.lead("b")
	watcher.expect(texts('*', "message", "+switch-master", l.announced()))
	idle.closed()
	release(nil)
	busy.expect("+PONG\r\n" + five(0, 3, 2, -1, 60) + bulk("x"))
	busy.closed()
	subscriber.do(texts('*', "pong", ""), "PING")
	watcher.do(texts('*', "pong", ""), "PING")
	other.do("*0\r\n", "EXEC")
	n.at(n.leader).do(five(0, 3, 1, -1, 120), "CL.THROTTLE", "k", "2", "1", "60") // a new connection is served
	plain.do(five(0, 3, 0, -1, 180), "CL.THROTTLE", "k", "2", "1", "60")
	clustered.do(fmt.Sprintf("-MOVED %d 127.0.0.1:%d\r\n", slotOf([]byte("k")), l.nodes["b"].member().ClusterPort), "CL.THROTTLE", "k", "2", "1", "60")
	shownBy(t, monitor.read())
}

// TestStepDownWithoutLeader checks that clients on the leader port are kept for stepDownPatience while there is no
// leader, and stay connected if this node becomes the leader again.
func TestStepDownWithoutLeader(t *testing.T) { synctest.Test(t, testStepDownWithoutLeader) }

func testStepDownWithoutLeader(t *testing.T) {
	l := newPipedLab(t, "a", "b")
	l.lead("a")
	p := l.nodes["a"].at(l.nodes["a"].leader)
	p.do("+PONG\r\n", "PING")
	l.lead("")
	l.lead("a")
	p.do(five(0, 3, 2, -1, 60), "CL.THROTTLE", "k", "2", "1", "60")
	l.decide("")
	start := time.Now()
	l.setViewLeader("a", "")
	p.closed()
	if took := time.Since(start); took != stepDownPatience {
		t.Errorf("the connection was closed after %v, want stepDownPatience", took)
	}
}

// TestStepDownAtShutdown shuts down a former leader while a command of one of its clients waits for the next leader.
// The node must forward the command when the next leader is elected, and send the reply before it closes the
// connection.
func TestStepDownAtShutdown(t *testing.T) { synctest.Test(t, testStepDownAtShutdown) }

func testStepDownAtShutdown(t *testing.T) {
	l := newPipedLab(t, "a", "b")
	l.lead("a")
	p := l.nodes["a"].dial()
	p.do("+PONG\r\n", "PING")
	l.lead("")
	start := time.Now()
	p.send(throttle("k"))
	synctest.Wait()
	go func() { _ = l.nodes["a"].Shutdown(t.Context()) }()
	synctest.Wait()
	l.lead("b")
	p.expect(five(0, 3, 2, -1, 60))
	p.closed()
	if took := time.Since(start); took >= l.nodes["a"].leaderWait() {
		t.Errorf("the reply took %v, want less than leader-wait", took)
	}
}

// TestGoaway shuts down a node while another node has a stream to it. Before the node closes the stream, it must send
// the goaway error, which means that unanswered commands were not run.
func TestGoaway(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b", "c")
	l.lead("a")
	p := l.nodes["a"].at(l.nodes["a"].peers)
	p.do(":0\r\n", "EXISTS", "k")
	go func() { _ = l.nodes["a"].Shutdown(t.Context()) }()
	p.expect(goawayLine)
	p.send(throttle("k"))
	p.closed()
}
