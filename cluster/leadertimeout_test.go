package cluster

import (
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// TestLeaderTimesOutTogether checks that all followers detect a timeout of the leader soon after the first of them.
func TestLeaderTimesOutTogether(t *testing.T) {
	// Without the check, the leader times out on a follower after 250 to 750 ms. The median is 365 ms for the first
	// of two followers, and 520 ms for the second.
	for _, c := range []struct {
		size            int
		median, longest time.Duration
	}{{3, 440 * time.Millisecond, time.Second}, {5, 440 * time.Millisecond, 3 * time.Second}} {
		simulate(t, simConfig{size: c.size}, func(t *testing.T, s *sim) {
			var took []time.Duration
			for range 31 {
				leader := s.leader()
				s.grant(leader, "s")
				s.converge()
				begun := time.Now()
				leader.crash(false)
				s.newLeader(leader)
				took = append(took, time.Since(begun))
				pass(downFor)
				leader.node.boot()
				s.converge()
			}
			slices.Sort(took)
			if median, longest := took[len(took)/2], took[len(took)-1]; median > c.median || longest > c.longest {
				t.Errorf("with %d nodes there is a new leader after %v (median), %v (maximum), which is too late", c.size, median, longest)
			}
		})
	}
}

// TestCheckOfALiveLeader checks that a follower that receives heartbeats does not become a candidate when
// leaderTimeout.check is called.
func TestCheckOfALiveLeader(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		leader := s.leader()
		term := leader.View().Term
		follower := s.followers(leader)[0]
		for range 50 {
			for _, l := range s.processes() {
				l.observer.timeout.check()
			}
			pass(10 * time.Millisecond)
		}
		if now := s.leader(); now != leader || now.View().Term != term {
			t.Errorf("the leader is %s in term %d, but was %s in term %d before the calls of check", now.node.id, now.View().Term, leader.node.id, term)
		}
		s.isolate(follower.node.id)
		s.await("it becomes a candidate", 2*testHeartbeat, func() bool {
			follower.observer.timeout.check()
			return follower.raft.State() == raft.Candidate
		})
		for range 50 {
			follower.observer.timeout.check()
		}
		follower.setting.reloading.Lock() // the node may reload the value concurrently
		timeout := follower.raft.ReloadableConfig().HeartbeatTimeout
		follower.setting.reloading.Unlock()
		if timeout != testHeartbeat-1 {
			t.Errorf("the timeout is %v, want 1 ns less than the heartbeat", timeout)
		}
	})
}
