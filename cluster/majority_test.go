package cluster

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

const (
	outage = 12 * time.Second
	// outageLoss is how much of an outage may be lost: the election before and after it.
	outageLoss = time.Second
)

// loseMajority kills both followers while the leader decides, so that it is left with charges that are not
// committed, and returns the leader.
func loseMajority(s *sim) (survivor *life) {
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

// checkRefill demands that the time of an outage has come back as units of an exhausted bucket.
func checkRefill(t *testing.T, s *sim, honest bool) {
	t.Helper()
	next := s.leader()
	if lag := lag(next); lag < 0 || lag > outageLoss {
		t.Errorf("log time is %v behind with %s", lag, next.node.id)
	}
	if left := s.left(next, "b0"); left != 10 {
		t.Errorf("%d left after %v", left, outage)
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

// Time goes on while there is no majority: the node that is left has counted it.
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

// A node that was down and leads next asks the one that was there, whose last charges are dropped. What its own
// wall clock says does not matter.
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
				if l.begun() && l.raft.State() == raft.Leader {
					return true
				}
			}
			return false
		})
		survivor.resume()
		if next := s.leader(); next == survivor {
			t.Error("the node that was there leads")
		}
		checkRefill(t, s, false)
	})
}

// A follower that is left has counted the time as well.
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

// Leaders that follow one another after an outage count it once.
func TestMajorityLossCountsOnce(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		loseMajority(s)
		pass(outage)
		bootAll(s)
		for range 6 {
			l := s.leader()
			for range 3 {
				decide(l.Node, "s", 1) // or not committed
			}
			l.crash(false)
			pass(downFor)
			l.node.boot()
		}
		checkRefill(t, s, true)
	})
}
