package cluster

import (
	"testing"
	"testing/synctest"
	"time"
)

// The clock of a node that follows stands at the newest entry; one that leads goes on from there.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClock()
		step := func(what string, want uint64) {
			t.Helper()
			if got := c.Now(); got != want {
				t.Errorf("%s: %d, want %d", what, got, want)
			}
		}
		step("at first", 0)
		c.applied(1000, c.monotonic())
		step("an entry", 1000)
		pass(time.Second)
		step("it stands", 1000)
		if got := c.estimate(); got != 1000+uint64(time.Second) {
			t.Errorf("estimate %d", got)
		}
		c.applied(900, c.monotonic())
		step("an older entry", 1000)
		c.run(0)
		step("it leads: what has passed counts", 1000+uint64(time.Second))
		pass(time.Second)
		step("it runs", 1000+2*uint64(time.Second))
		c.applied(1000+uint64(time.Second), c.monotonic()-time.Second)
		step("its own entries change nothing", 1000+2*uint64(time.Second))
		if got := c.standing(); got != 1000+uint64(time.Second) {
			t.Errorf("standing %d", got)
		}
		c.stand()
		step("it follows", 1000+uint64(time.Second))
		c.restored(500)
		step("a snapshot may be older", 500)
		c.run(400)
		step("a time to begin with that has passed", 500)
		c.stand()
		c.run(2000)
		step("a later one", 2000)
		pass(1)
		step("and on", 2001)
	})
}

// An entry that was under way for long makes a clock lose that time, and never win any.
func TestClockIsStrict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leader, follower := NewClock(), NewClock()
		leader.run(1000)
		for range 20 {
			told := leader.Now()
			pass(300 * time.Millisecond) // under way
			follower.applied(told, follower.monotonic())
			pass(50 * time.Millisecond)
			follower.run(0)
			if lost := leader.Now() - follower.Now(); lost != uint64(300*time.Millisecond) {
				t.Errorf("%v lost", time.Duration(lost))
			}
			follower.stand()
		}
	})
}
