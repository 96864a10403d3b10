package cluster

import (
	"testing"
	"time"
)

func TestWallOffsetFits(t *testing.T) {
	set := wallOffset{true, -time.Hour}
	for _, test := range []struct {
		o    wallOffset
		by   time.Duration // log time has moved against the wall clock
		fits bool
	}{
		{wallOffset{}, 0, false},
		{set, 0, true},
		{set, -offsetBehind, true},
		{set, -offsetBehind - 1, false},
		{set, offsetAhead, true},
		{set, offsetAhead + 1, false},
	} {
		if got := test.o.fits(-time.Hour + test.by); got != test.fits {
			t.Errorf("%+v where log time has moved by %v: %v", test.o, test.by, got)
		}
	}
}

// After all nodes were down no key gets back what has not come back, though clocks were wrong before and are
// put right, or the other way round, on one node or on all, as long as most have theirs as it was.
func TestWallPutRight(t *testing.T) {
	for _, before := range []time.Duration{-time.Hour, 0, time.Hour} {
		for _, after := range []time.Duration{-time.Hour, 0, time.Hour} {
			simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
				leader := s.leader()
				s.converge()
				pass(time.Second)
				leader.node.skew.Store(int64(before))
				pass(time.Second)
				for range 5 {
					s.grant(leader, "b0")
				}
				s.converge()
				pass(3 * offsetEvery)
				for _, l := range s.lives() {
					l.crash(false)
				}
				leader.node.skew.Store(int64(after))
				pass(300 * time.Millisecond)
				for _, n := range s.list() {
					n.boot()
				}
				next := s.leader()
				if lag := lag(next); lag < 0 || lag > 2*time.Second {
					t.Errorf("%v wrong before and %v after: log time is %v behind", before, after, lag)
				}
				s.converge()
			})
		}
	}
}
