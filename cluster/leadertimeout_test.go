package cluster

import (
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// TestElectionTime checks the time until there is a new leader. Without the checks of leaderTimeout, the leader times out
// on a follower after 250 to 750 ms. The median is 365 ms for the first of two followers, and 520 ms for the second. If the
// process of the leader exits, the followers need not wait for a timer of Raft.
func TestElectionTime(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		size            int
		exits           bool // the process of the leader exits; otherwise its machine is isolated
		median, longest time.Duration
	}{
		{3, false, 440 * ms, 1000 * ms},
		{5, false, 440 * ms, 3000 * ms},
		{3, true, 300 * ms, 700 * ms},
		{5, true, 340 * ms, 1000 * ms},
	} {
		simulate(t, simConfig{size: c.size}, func(t *testing.T, s *sim) {
			var took []time.Duration
			for range 31 {
				took = append(took, electionTime(s, c.exits))
			}
			slices.Sort(took)
			if median, longest := took[len(took)/2], took[len(took)-1]; median > c.median || longest > c.longest {
				t.Errorf("%d nodes, exits %v: there is a new leader after %v (median), %v (maximum), want at most %v and %v", c.size, c.exits, median, longest, c.median, c.longest)
			}
		})
	}
}

// electionTime makes the leader exit or isolates it, and returns the time until there is another leader. It then repairs
// the fault.
func electionTime(s *sim, exits bool) time.Duration {
	leader := s.leader()
	s.grant(leader, "s")
	s.converge()
	begun := time.Now()
	repair := s.heal
	if exits {
		leader.crash(false)
		repair = func() { leader.node.boot() }
	} else {
		s.isolate(leader.node.id)
	}
	s.newLeader(leader)
	took := time.Since(begun)
	pass(downFor)
	repair()
	s.converge()
	return took
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
