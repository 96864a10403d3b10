package cluster

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestClock checks that the clock of a follower is stopped at the newest entry, and that the clock of a leader
// continues from that entry.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClock()
		step := func(what string, want uint64) {
			t.Helper()
			if got := c.Now(); got != want {
				t.Errorf("%s: the clock shows %d, want %d", what, got, want)
			}
		}
		step("initial", 0)
		c.applied(1000, c.monotonic())
		step("an entry", 1000)
		pass(time.Second)
		step("stopped", 1000)
		if got := c.estimate(); got != 1000+uint64(time.Second) {
			t.Errorf("the estimate is %d, want the log time of the entry plus 1 s", got)
		}
		c.applied(900, c.monotonic())
		step("an older entry", 1000)
		c.run(0)
		step("after run: the elapsed time counts", 1000+uint64(time.Second))
		pass(time.Second)
		step("running", 1000+2*uint64(time.Second))
		c.applied(1000+uint64(time.Second), c.monotonic()-time.Second)
		step("an entry of the running clock itself", 1000+2*uint64(time.Second))
		if got := c.lastApplied(); got != 1000+uint64(time.Second) {
			t.Errorf("lastApplied returned %d, want the log time of the node's own entry", got)
		}
		c.stop()
		step("it follows again", 1000+uint64(time.Second))
		c.restored(500)
		step("a snapshot may be older", 500)
		c.run(400)
		step("an earlier starting time", 500)
		c.stop()
		c.run(2000)
		step("a later starting time", 2000)
		pass(1)
		step("running again", 2001)
	})
}

// TestClockIsStrict checks that log time never runs ahead at a change of leaders. It must fall behind by exactly the
// time for which the last entry was in flight.
func TestClockIsStrict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leader, follower := NewClock(), NewClock()
		leader.run(1000)
		for range 20 {
			sent := leader.Now()
			pass(300 * time.Millisecond) // in flight
			follower.applied(sent, follower.monotonic())
			pass(50 * time.Millisecond)
			follower.run(0)
			if lost := leader.Now() - follower.Now(); lost != uint64(300*time.Millisecond) {
				t.Errorf("at a change of leaders log time fell behind by %v, want 300 ms", time.Duration(lost))
			}
			follower.stop()
		}
	})
}
