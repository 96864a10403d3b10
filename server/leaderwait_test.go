package server

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestLeaderWait checks that commands wait for a leader for leader-wait, and that requests with a failure policy wait for
// at most policyPatience. The clients of other connections are not delayed.
func TestLeaderWait(t *testing.T) {
	for _, tc := range []struct {
		millis, input string
		want          time.Duration
	}{
		{"100", throttle("k"), 100 * time.Millisecond},
		{"5000", throttle("k"), 5 * time.Second},
		{"5000", request("TTL", "k"), 5 * time.Second},
		{"5000", request("CL.CHECK", "d", "a", "x"), policyPatience},
		{"100", request("CL.CHECK", "d", "a", "x"), 100 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := startFailureLab(t)
			p, other := l.nodes["a"].dial(), l.nodes["a"].dial()
			p.do("+OK\r\n", "CONFIG", "SET", "leader-wait", tc.millis)
			start := time.Now()
			p.send(tc.input)
			synctest.Wait()
			other.do("+PONG\r\n", "PING")
			if took := time.Since(start); took != 0 {
				t.Errorf("leader-wait %s: PING of another client took %v, want 0", tc.millis, took)
			}
			p.read()
			if took := time.Since(start); took < tc.want || took > tc.want+retryPause {
				t.Errorf("leader-wait %s: %q took %v, want %v", tc.millis, tc.input, took, tc.want)
			}
		})
	}
}

// TestLeaderWait_Election elects a leader shortly before leader-wait has passed. The leader must run the commands that
// wait, also those of a transaction.
func TestLeaderWait_Election(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPipedLab(t, "a", "b")
		call, tx := l.nodes["b"].dial(), l.nodes["b"].dial()
		call.send(throttle("k"))
		tx.send(request("MULTI") + throttle("l") + request("EXEC"))
		time.Sleep(l.nodes["b"].leaderWait() - 20*time.Millisecond) // in the time of the bubble
		l.lead("a")
		call.expect(five(0, 3, 2, -1, 60))
		tx.expect("+OK\r\n+QUEUED\r\n*1\r\n" + five(0, 3, 2, -1, 60))
	})
}

// TestLeaderWait_Streams checks that leader-wait does not prolong the wait for a stream of the pool to a leader that is
// overloaded. The commands are transactions, since other commands share streams.
func TestLeaderWait_Streams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPipedLab(t, "a", "b")
		l.lead("a")
		p := l.nodes["b"].dial()
		p.do("+OK\r\n", "CONFIG", "SET", "leader-wait", "60000")
		release := l.hold() // the leader answers no command
		defer release(nil)
		const streams = 128
		for range streams {
			l.nodes["b"].dial().send(request("MULTI") + throttle("k") + request("EXEC"))
		}
		synctest.Wait()
		p.send(request("MULTI") + throttle("k"))
		p.expect("+OK\r\n+QUEUED\r\n")
		start := time.Now()
		p.do(failure(errBusy), "EXEC")
		if took := time.Since(start); took != streamPatience {
			t.Errorf("the refusal took %v, want %v", took, streamPatience)
		}
	})
}
