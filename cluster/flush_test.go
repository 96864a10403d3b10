package cluster

import (
	"errors"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// What has been flushed in async mode survives the leader, whatever came just before.
func TestFlush(t *testing.T) {
	simulate(t, simConfig{size: 3, async: true, latency: 2 * time.Millisecond}, func(t *testing.T, s *sim) {
		granted := int64(0)
		for range 10 {
			leader := s.leader()
			for range 3 { // the last of them has to wait for its turn
				s.grant(leader, "s")
				granted++
			}
			if err := leader.Flush(); err != nil {
				t.Fatal(err)
			}
			leader.crash(false)
			if left := s.left(s.newLeader(leader), "s"); left != 5000-granted {
				t.Fatalf("%d left, %d are granted", left, granted)
			}
			s.converge()
		}
		if err := s.leader().Flush(); err != nil {
			t.Errorf("nothing to flush: %v", err)
		}
	})
}

// Where nothing can be flushed any more, that is said.
func TestFlushInVain(t *testing.T) {
	simulate(t, simConfig{size: 3, async: true}, func(t *testing.T, s *sim) {
		leader := s.leader()
		if err := s.followers(leader)[0].Flush(); !errors.Is(err, limiter.ErrNotLeading) {
			t.Errorf("a follower: %v", err)
		}
		s.isolate(leader.node.id)
		s.grant(leader, "s")
		if err := leader.Flush(); !errors.Is(err, limiter.ErrUncertain) {
			t.Errorf("a leader that is cut off: %v", err)
		}
	})
}
