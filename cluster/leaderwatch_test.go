package cluster

import (
	"testing"
	"time"

	"github.com/throttledhq/throttled/topology"
)

// TestLeaderExits checks that a node detects soon that the process of its leader has exited, before it misses
// heartbeats.
func TestLeaderExits(t *testing.T) {
	for range 5 {
		simulate(t, simConfig{size: 3, latency: time.Millisecond}, func(t *testing.T, s *sim) {
			leader := s.leader()
			pass(time.Second)
			others := s.followers(leader)
			leader.crash(false)
			begun := time.Now()
			for _, f := range others {
				s.await(f.node.id+" shows no leader", testHeartbeat, func() bool { return f.View().Leader != leader.node.id })
			}
			if took := time.Since(begun); took > testHeartbeat/4 {
				t.Errorf("it took %v to detect that the leader had exited, want at most a quarter of a heartbeat", took)
			}
			next := s.newLeader(leader)
			for _, f := range others {
				s.await(f.node.id+" follows the next leader", time.Second, func() bool { return f.View().Leader == next.node.id })
			}
		})
	}
}

// TestLeaderExits_Restarted checks that a leader that has exited still counts as exited after an immediate restart,
// until the term changes: its new process is not the leader in the term of the previous process.
func TestLeaderExits_Restarted(t *testing.T) {
	simulate(t, simConfig{size: 3, latency: time.Millisecond}, func(t *testing.T, s *sim) {
		leader := s.leader()
		pass(time.Second)
		others, term := s.followers(leader), leader.View().Term
		leader.crash(false)
		for _, f := range others {
			s.await(f.node.id+" shows no leader", testHeartbeat, func() bool { return f.View().Leader != leader.node.id })
		}
		leader.node.boot()
		for range 2 * testHeartbeat / time.Millisecond {
			pass(time.Millisecond)
			for _, f := range others {
				if v := f.View(); v.Leader == leader.node.id && v.Term == term {
					t.Fatalf("%s shows the restarted node as the leader of the old term again", f.node.id)
				}
			}
		}
	})
}

// TestLeaderRefuses checks that a leader that sends heartbeats counts as running, even if a firewall refuses new
// connections to it.
func TestLeaderRefuses(t *testing.T) {
	simulate(t, simConfig{size: 3, latency: time.Millisecond}, func(t *testing.T, s *sim) {
		leader := s.leader()
		pass(2 * lastWatchPause)
		leader.refuses.Store(true)
		leader.closeStreams()
		pass(3 * lastWatchPause)
		for range 5 * lastWatchPause / time.Millisecond {
			pass(time.Millisecond)
			for _, f := range s.followers(leader) {
				if got := f.View().Leader; got != leader.node.id {
					t.Fatalf("%s shows %q as the leader, want the node that refuses connections", f.node.id, got)
				}
			}
		}
	})
}

// TestLeaderClosesStreams checks that a leader counts as running if it closes streams but accepts new ones.
func TestLeaderClosesStreams(t *testing.T) {
	simulate(t, simConfig{size: 3, latency: time.Millisecond}, func(t *testing.T, s *sim) {
		leader := s.leader()
		others := s.followers(leader)
		for range 5 {
			pass(2 * lastWatchPause)
			if n := leader.closeStreams(); n < len(others) {
				t.Errorf("%d streams to the leader are open, want one per follower", n)
			}
			for range 100 {
				pass(time.Millisecond)
				for _, f := range others {
					if got := f.View().Leader; got != leader.node.id {
						t.Fatalf("a follower shows %q as the leader, want the node that has closed its streams", got)
					}
				}
			}
		}
		for _, f := range others {
			if f.observer.refused.Load() != nil {
				t.Errorf("%s has recorded a refusal, but the leader has only closed streams", f.node.id)
			}
		}
	})
}

// TestLeaderCutOff checks that a refusal is not recorded for a leader that is only unreachable. The leader counts as
// running until a heartbeat is missed.
func TestLeaderCutOff(t *testing.T) {
	simulate(t, simConfig{size: 3, latency: time.Millisecond}, func(t *testing.T, s *sim) {
		leader := s.leader()
		pass(2 * lastWatchPause)
		f := s.followers(leader)[0]
		s.cut(leader.node.id, f.node.id)
		s.cut(f.node.id, leader.node.id)
		leader.closeStreams()
		pass(testHeartbeat / 2)
		if f.observer.refused.Load() != nil {
			t.Error("a refusal was recorded for a leader that is only unreachable")
		}
	})
}

// TestCandidates checks the order in which voters become candidates after the leader has exited.
func TestCandidates(t *testing.T) {
	members := []topology.Member{{ID: "a", Voter: true}, {ID: "b"}, {ID: "c", Voter: true}, {ID: "d", Voter: true}}
	for _, c := range []struct {
		self, leader string
		want         int
	}{{"a", "c", 0}, {"d", "c", 1}, {"c", "a", 0}, {"d", "a", 1}, {"c", "d", 1}, {"b", "a", -1}} {
		if got := candidates(&topology.View{Self: c.self, Members: members}, c.leader); got != c.want {
			t.Errorf("%s after the exit of %s: got %d, want %d", c.self, c.leader, got, c.want)
		}
	}
}
