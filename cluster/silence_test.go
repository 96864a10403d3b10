package cluster

import (
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// As soon as one follower has noticed that the leader is gone, the other notices, too.
func TestSilenceIsNoticedTogether(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
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
		// One follower alone looks after 250 to 750 ms, 365 at the median of the first of two, and 520 of the second.
		if median, most := took[len(took)/2], took[len(took)-1]; median > 440*time.Millisecond || most > 4*testHeartbeat {
			t.Errorf("another node leads after %v, at the most after %v", median, most)
		}
	})
}

// Who hears the leader is not made to look for another.
func TestListenHeedsTheLeader(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		leader := s.leader()
		term := leader.View().Term
		follower := s.followers(leader)[0]
		for range 50 {
			for _, l := range s.lives() {
				l.listen()
			}
			pass(10 * time.Millisecond)
		}
		if now := s.leader(); now != leader || now.View().Term != term {
			t.Errorf("%s leads in term %d, before %s in term %d", now.node.id, now.View().Term, leader.node.id, term)
		}
		s.isolate(follower.node.id)
		s.await("it looks for another", 2*testHeartbeat, func() bool {
			follower.listen()
			return follower.raft.State() == raft.Candidate
		})
		for range 50 {
			follower.listen()
		}
		if timeout := follower.raft.ReloadableConfig().HeartbeatTimeout; timeout != testHeartbeat-1 {
			t.Errorf("the timeout is %v by now", timeout)
		}
	})
}
