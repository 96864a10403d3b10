package cluster

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// TestLeaderLeaseFollows checks that Raft's own lease is changed together with the heartbeat, both when the heartbeat
// is raised and when it is lowered. An isolated leader steps down when Raft's lease has expired. This must not happen
// before the end of the lease during which the leader answers from its table.
func TestLeaderLeaseFollows(t *testing.T) {
	for _, to := range []time.Duration{longBeat, minHeartbeat} {
		simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
			s.settled(testHeartbeat)
			l := s.leader()
			if err := l.SetHeartbeat(t.Context(), to); err != nil {
				t.Fatal(err)
			}
			s.settled(to)
			s.remaining(l, "s")
			cut := time.Now()
			s.isolate(l.node.id)
			s.await("it steps down", 3*to, func() bool { return l.raft.State() != raft.Leader })
			confirmed := time.Duration(l.leaderships.last.lease.confirmed.Load())
			if kept := l.clock.monotonic() - confirmed; kept < leaseOf(to) {
				t.Errorf("the leader stepped down %v after it submitted its newest committed entry, before the end of its lease of %v", kept, leaseOf(to))
			}
			if after := time.Since(cut); after > 2*leaseOf(to)+10*time.Millisecond {
				t.Errorf("the isolated leader stepped down only after %v, want at most twice its lease", after)
			}
		})
	}
}

// TestTunerRejects checks that a value that Raft rejects changes nothing.
func TestTunerRejects(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		s.settled(testHeartbeat)
		l := s.leader()
		before := l.raft.ReloadableConfig()
		if err := setLeaderLease(l.raft.Raft, maxHeartbeat); err == nil {
			t.Error("a lease that is longer than the heartbeat was accepted")
		}
		if err := l.agreement.tuner.reload(func(c *raft.ReloadableConfig) { c.HeartbeatTimeout = 0 }); err == nil {
			t.Error("a heartbeat of 0 was accepted")
		}
		if now := l.raft.ReloadableConfig(); now != before {
			t.Errorf("the Raft settings are %+v, want no change from %+v", now, before)
		}
	})
}
