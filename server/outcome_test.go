package server

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// TestOutcome checks that limiter.ErrUncertain is reported only for requests that may have been
// charged.
func TestOutcome(t *testing.T) {
	failed := errors.New("failed")
	one, none := limiter.Request{Quantity: 1}, limiter.Request{}
	first, peek, trial := one, none, one // first and peek are followed by another request of the group
	first.Linked, peek.Linked, trial.Trial = true, true, true
	admitted, refused := limiter.Decision{}, limiter.Decision{Limited: true}
	for _, tc := range []struct {
		what string
		reqs []limiter.Request
		out  []limiter.Decision
		lost error
		want error
	}{
		{"a charge", []limiter.Request{one}, []limiter.Decision{admitted}, nil, nil},
		{"a charge that is uncertain", []limiter.Request{one}, []limiter.Decision{admitted}, limiter.ErrUncertain, limiter.ErrUncertain},
		{"a charge, commit fails with ErrNotLeading", []limiter.Request{one}, []limiter.Decision{admitted}, limiter.ErrNotLeading, limiter.ErrNotLeading},
		{"a peek", []limiter.Request{none}, []limiter.Decision{admitted}, limiter.ErrUncertain, limiter.ErrNotLeading},
		{"a refusal", []limiter.Request{one}, []limiter.Decision{refused}, limiter.ErrUncertain, limiter.ErrNotLeading},
		{"a group that is refused", []limiter.Request{first, one}, []limiter.Decision{admitted, refused}, limiter.ErrUncertain, limiter.ErrNotLeading},
		{"a group with a peek and a charge", []limiter.Request{peek, one}, []limiter.Decision{admitted, admitted}, limiter.ErrUncertain, limiter.ErrUncertain},
		{"a trial", []limiter.Request{trial}, []limiter.Decision{admitted}, limiter.ErrUncertain, limiter.ErrNotLeading},
		{"a group that is refused, and a charge", []limiter.Request{first, one, one}, []limiter.Decision{admitted, refused, admitted}, limiter.ErrUncertain, limiter.ErrUncertain},
		{"a group that is refused, and a trial", []limiter.Request{first, one, trial}, []limiter.Decision{admitted, refused, admitted}, limiter.ErrUncertain, limiter.ErrNotLeading},
		{"two charges, leadership lost between them", []limiter.Request{one, one}, []limiter.Decision{admitted, {Err: limiter.ErrNotLeading}}, limiter.ErrUncertain, limiter.ErrUncertain},
		{"a refusal and a charge, leadership lost between them", []limiter.Request{one, one}, []limiter.Decision{refused, {Err: limiter.ErrNotLeading}}, limiter.ErrUncertain, limiter.ErrNotLeading},
		{"a decision with an error and an uncertain commit", []limiter.Request{one, one}, []limiter.Decision{admitted, {Err: failed}}, limiter.ErrUncertain, failed},
		{"commit fails with another error", []limiter.Request{one}, []limiter.Decision{admitted}, failed, failed},
	} {
		if got := new(call).outcome(tc.reqs, tc.out, tc.lost); got != tc.want {
			t.Errorf("%s: got %v, want %v", tc.what, got, tc.want)
		}
	}
}

// TestNoReplyBeforeCommit checks that no reply is written before the decisions that the reply reveals are committed.
func TestNoReplyBeforeCommit(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b")
	l.lead("a")
	n := l.nodes["a"]
	f := func(input, want string) {
		t.Helper()
		p := n.greet()
		p.do("+OK\r\n", "FLUSHALL")
		release := l.hold()
		before := l.awaits()
		p.send(ping + input)
		if !eventually(func() bool { return l.awaits() > before }) {
			t.Fatalf("%q: WaitCommitted was not called", input)
		}
		other := n.dial() // other clients are served while the command waits
		other.do("+PONG\r\n", "PING")
		_ = p.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		if early, err := p.in.Peek(1); !isTimeout(err) {
			t.Errorf("%q: before the commit the client got %q, want nothing", input, early)
		}
		_ = p.SetReadDeadline(time.Now().Add(patience))
		if !n.exec.TryLock() {
			t.Errorf("%q: the exec lock is held while the command waits for the commit", input)
		} else {
			n.exec.Unlock()
		}
		release(nil)
		p.expect("+PONG\r\n" + want)
	}
	one := five(0, 3, 2, -1, 60)
	f(throttle("k"), one)
	f(throttle("k")+request("TTL", "k"), one+":60\r\n")
	f(request("TTL", "k"), ":-2\r\n")
	f(request("DBSIZE"), ":0\r\n")
	f(request("KEYS", "*"), "*0\r\n")
	f(request("FLUSHALL"), "+OK\r\n")
	f(request("WATCH", "k"), "+OK\r\n")
	f(request("MULTI")+throttle("k")+request("EXEC"), "+OK\r\n+QUEUED\r\n*1\r\n"+one)
	f(request("WAIT", "1", "0"), ":1\r\n")
}

// TestLeadershipLostWithinACommand makes a node lose leadership in the middle of a command that deletes several keys.
// The first deletions may be committed, so the command must fail with errUncertain, and must not run on another node.
func TestLeadershipLostWithinACommand(t *testing.T) {
	synctest.Test(t, testLeadershipLostWithinACommand)
}

func testLeadershipLostWithinACommand(t *testing.T) {
	l := newPipedLab(t, "a", "b")
	p := l.nodes["a"].at(l.nodes["a"].clients)
	loseAt := func(what string) {
		l.lead("a")
		p.do(five(0, 3, 2, -1, 60), "CL.THROTTLE", "a", "2", "1", "60")
		l.mu.Lock()
		defer l.mu.Unlock()
		l.loseAt = what
	}
	check := func(what string, keys int64) {
		t.Helper()
		if n := l.table.Usage().Keys; n != keys {
			t.Errorf("%s left %d keys, want %d", what, n, keys)
		}
		l.table.Reset()
	}
	loseAt("b")
	p.do(failure(errUncertain), "DEL", "a", "b")
	check("DEL", 0)
	loseAt("*")
	p.do(failure(errUncertain), "FLUSHALL")
	check("FLUSHALL", 1)
	loseAt("b")
	p.do("+OK\r\n", "MULTI")
	p.do("+QUEUED\r\n", "DEL", "a")
	p.do("+QUEUED\r\n", "DEL", "b")
	p.do(failure(errUncertain), "EXEC")
	check("EXEC", 0)
}

// TestUncertainBatches makes the commit of decisions fail. If the error of the commit is limiter.ErrUncertain, calls
// that may have changed something must fail with errUncertain, and other calls with errClusterDown. If the error is
// limiter.ErrNotLeading, all calls must fail with errClusterDown.
func TestUncertainBatches(t *testing.T) { synctest.Test(t, testUncertainBatches) }

func testUncertainBatches(t *testing.T) {
	l := newPipedLab(t, "a", "b")
	l.lead("a")
	p := l.nodes["a"].at(l.nodes["a"].cluster)
	one := request("CL.THROTTLE", "k", "0", "1", "60")
	peek := request("CL.THROTTLE", "k", "0", "1", "60", "0")
	f := func(lost error, charged error) {
		t.Helper()
		p.do("+OK\r\n", "FLUSHALL")
		l.lose(lost)
		p.send(one + one + peek + ping)
		p.expect(failure(charged) + failure(errClusterDown) + failure(errClusterDown) + "+PONG\r\n")
		p.do(failure(charged), "DEL", "k")
		p.do(failure(errClusterDown), "TTL", "k")
		p.do("+OK\r\n", "MULTI")
		p.do("+QUEUED\r\n", "TTL", "k")
		p.do(failure(errClusterDown), "EXEC")
		p.do("+OK\r\n", "MULTI")
		p.do("+QUEUED\r\n", "DEL", "k")
		p.do(failure(charged), "EXEC")
		l.lose(nil)
	}
	f(limiter.ErrUncertain, errUncertain)
	f(limiter.ErrNotLeading, errClusterDown)
}
