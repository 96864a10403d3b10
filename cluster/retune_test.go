package cluster

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// Raft's own lease follows the heartbeat, up and down: a leader that is cut off steps down after it, not before
// the lease for which it answers is over.
func TestLeaderLeaseFollows(t *testing.T) {
	for _, to := range []time.Duration{longBeat, leastHeartbeat} {
		simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
			s.settled(testHeartbeat)
			l := s.leader()
			if err := l.SetHeartbeat(t.Context(), to); err != nil {
				t.Fatal(err)
			}
			s.settled(to)
			s.left(l, "s")
			cut := time.Now()
			s.isolate(l.node.id)
			s.await("it steps down", 3*to, func() bool { return l.raft.State() != raft.Leader })
			confirmed := time.Duration(l.leaderships.last.lease.confirmed.Load())
			if kept := l.clock.monotonic() - confirmed; kept < leaseOf(to) {
				t.Errorf("it steps down %v after the last confirmation, and answers for %v", kept, leaseOf(to))
			}
			if after := time.Since(cut); after > 2*leaseOf(to)+10*time.Millisecond {
				t.Errorf("it steps down after %v", after)
			}
		})
	}
}

// A value that Raft refuses changes nothing.
func TestRetuneRefuses(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		s.settled(testHeartbeat)
		l := s.leader()
		before := l.raft.ReloadableConfig()
		if err := setLeaderLease(l.raft, mostHeartbeat); err == nil {
			t.Error("a lease that is longer than the heartbeat is taken")
		}
		if err := l.reload(func(c *raft.ReloadableConfig) { c.HeartbeatTimeout = 0 }); err == nil {
			t.Error("a heartbeat of 0 is taken")
		}
		if now := l.raft.ReloadableConfig(); now != before {
			t.Errorf("%+v, before %+v", now, before)
		}
	})
}
