package cluster

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

const (
	outage = 12 * time.Second
	// outageLoss is the maximum time by which log time may fall behind because of the elections before and after an
	// outage.
	outageLoss = time.Second
)

// loseMajority kills both followers while the leader makes decisions, so that the leader has uncommitted charges. It
// returns the leader.
func loseMajority(s *sim) (survivor *process) {
	survivor = s.leader()
	for range 10 {
		s.grant(survivor, "b0")
	}
	s.converge()
	for _, l := range s.followers(survivor) {
		l.crash(false)
	}
	for range 20 {
		decide(survivor.Node, "s", 1)
		pass(5 * time.Millisecond)
	}
	return survivor
}

// checkRefill checks that an exhausted bucket has been refilled during an outage. honest means that no wall clock was
// wrong (see checkLog).
func checkRefill(t *testing.T, s *sim, honest bool) {
	t.Helper()
	next := s.leader()
	if lag := lag(next); lag < 0 || lag > outageLoss {
		t.Errorf("log time is %v behind real time on %s, want 0 to 1s", lag, next.node.id)
	}
	if left := s.remaining(next, "b0"); left != 10 {
		t.Errorf("%d units remain after an outage of %v, want 10", left, outage)
	}
	s.converge()
	checkLog(s, honest)
}

func bootAll(s *sim) {
	for _, n := range s.list() {
		if s.alive(n.id) == nil {
			n.boot()
		}
	}
}

// TestMajorityLossSurvivorLeads checks that the time without a majority counts as elapsed time if the leader was up
// during that time and has measured it.
func TestMajorityLossSurvivorLeads(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		for range 3 {
			loseMajority(s)
			pass(outage)
			bootAll(s)
			checkRefill(t, s, true)
		}
	})
}

// TestMajorityLossOtherLeads elects a leader that was down during the outage. This leader must ask the node that was up
// for the log time, so that its own wall clock does not matter. The last charges of the node that was up are rolled
// back.
func TestMajorityLossOtherLeads(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		survivor := loseMajority(s)
		pass(outage)
		survivor.pause()
		for _, n := range s.list() {
			if n != survivor.node {
				n.skew.Store(int64(time.Hour))
			}
		}
		bootAll(s)
		s.await("another node wins the election", 5*time.Second, func() bool {
			for _, l := range s.followers(survivor) {
				if l.raft.started() && l.raft.State() == raft.Leader {
					return true
				}
			}
			return false
		})
		survivor.resume()
		if next := s.leader(); next == survivor {
			t.Error("the node that was up during the outage is the leader, want a node that was down")
		}
		checkRefill(t, s, false)
	})
}

// TestMajorityLossFollowerLeft checks that the time of an outage also counts if only a follower was up.
func TestMajorityLossFollowerLeft(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		leader := s.leader()
		s.converge()
		left := s.followers(leader)[0]
		for range 10 {
			s.grant(leader, "b0")
		}
		s.await("the follower has all entries", time.Second, func() bool { return left.raft.LastIndex() == leader.raft.LastIndex() })
		for _, l := range s.followers(left) {
			l.crash(false)
		}
		pass(outage)
		bootAll(s)
		checkRefill(t, s, true)
	})
}

// TestMajorityLossCountsOnce checks that the time of an outage is counted once, even if the leader changes several
// times after the outage.
func TestMajorityLossCountsOnce(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		loseMajority(s)
		pass(outage)
		bootAll(s)
		for range 6 {
			l := s.leader()
			for range 3 {
				decide(l.Node, "s", 1) // may not be committed
			}
			l.crash(false)
			pass(downFor)
			l.node.boot()
		}
		checkRefill(t, s, true)
	})
}
