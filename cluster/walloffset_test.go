package cluster

import (
	"testing"
	"time"
)

func TestWallOffsetFits(t *testing.T) {
	set := wallOffset{true, -time.Hour}
	for _, test := range []struct {
		o    wallOffset
		by   time.Duration // change of log time relative to the wall clock
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
			t.Errorf("offset %+v after a change by %v: fits returned %v, want the opposite", test.o, test.by, got)
		}
	}
}

// TestWallCorrected stops all nodes, and changes the wall clock of one node while they are down. No units may be
// restored early as long as the wall clocks of a majority are unchanged.
func TestWallCorrected(t *testing.T) {
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
				for _, l := range s.processes() {
					l.crash(false)
				}
				leader.node.skew.Store(int64(after))
				pass(300 * time.Millisecond)
				for _, n := range s.list() {
					n.boot()
				}
				next := s.leader()
				if lag := lag(next); lag < 0 || lag > 2*time.Second {
					t.Errorf("wall clock off by %v before and by %v after the downtime: log time is %v behind real time, want 0 to 2s", before, after, lag)
				}
				s.converge()
			})
		}
	}
}
