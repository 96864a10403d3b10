package cluster

import (
	"testing"
	"time"
)

// A node knows that its leader's process has ended at once, and not only when it misses heartbeats.
func TestLeaderGone(t *testing.T) {
	for range 5 {
		simulate(t, simConfig{size: 3, latency: time.Millisecond}, func(t *testing.T, s *sim) {
			leader := s.leader()
			pass(time.Second)
			others := s.followers(leader)
			leader.crash(false)
			begun := time.Now()
			for _, f := range others {
				s.await(f.node.id+" knows that the leader is gone", testHeartbeat, func() bool { return f.View().Leader != leader.node.id })
			}
			if took := time.Since(begun); took > testHeartbeat/4 {
				t.Errorf("it takes %v to know that the leader is gone", took)
			}
			next := s.newLeader(leader)
			for _, f := range others {
				s.await(f.node.id+" follows the next leader", time.Second, func() bool { return f.View().Leader == next.node.id })
			}
		})
	}
}

// A leader that is started again at once stays gone: it does not lead in the term of its former process.
func TestLeaderGone_Restarted(t *testing.T) {
	simulate(t, simConfig{size: 3, latency: time.Millisecond}, func(t *testing.T, s *sim) {
		leader := s.leader()
		pass(time.Second)
		others, term := s.followers(leader), leader.View().Term
		leader.crash(false)
		for _, f := range others {
			s.await(f.node.id+" knows that the leader is gone", testHeartbeat, func() bool { return f.View().Leader != leader.node.id })
		}
		leader.node.boot()
		for range 2 * testHeartbeat / time.Millisecond {
			pass(time.Millisecond)
			for _, f := range others {
				if v := f.View(); v.Leader == leader.node.id && v.Term == term {
					t.Fatalf("%s takes it for the leader again", f.node.id)
				}
			}
		}
	})
}

// A leader that sends heartbeats is there, even if a firewall refuses new connections to it.
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
					t.Fatalf("%s takes %q for the leader", f.node.id, got)
				}
			}
		}
	})
}

// A leader that merely closes streams is not gone, nor is one that is paused for less than a heartbeat.
func TestLeaderClosesStreams(t *testing.T) {
	simulate(t, simConfig{size: 3, latency: time.Millisecond}, func(t *testing.T, s *sim) {
		leader := s.leader()
		others := s.followers(leader)
		for range 5 {
			pass(2 * lastWatchPause)
			if n := leader.closeStreams(); n < len(others) {
				t.Errorf("%d streams are open to the leader", n)
			}
			for range 100 {
				pass(time.Millisecond)
				for _, f := range others {
					if got := f.View().Leader; got != leader.node.id {
						t.Fatalf("%s is said to lead", got)
					}
				}
			}
		}
		for _, f := range others {
			if f.refused.Load() != nil {
				t.Errorf("%s takes the leader for gone", f.node.id)
			}
		}
	})
}

// A leader of which another node sees nothing any more counts until it misses a heartbeat: its end is not known.
func TestLeaderCutOff(t *testing.T) {
	simulate(t, simConfig{size: 3, latency: time.Millisecond}, func(t *testing.T, s *sim) {
		leader := s.leader()
		pass(2 * lastWatchPause)
		f := s.followers(leader)[0]
		s.cut(leader.node.id, f.node.id)
		s.cut(f.node.id, leader.node.id)
		leader.closeStreams()
		pass(testHeartbeat / 2)
		if f.refused.Load() != nil {
			t.Error("a leader that is cut off is taken for gone")
		}
	})
}
