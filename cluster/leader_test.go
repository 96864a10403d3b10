package cluster

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/limiter"
)

// TestVoidEntry checks that an entry that was decided in one term and appended to the log in a later term is void: no
// node applies its changes. Otherwise the entry would overwrite newer changes of other leaders, which precede the entry
// in the log.
func TestVoidEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, simConfig{size: 3})
		defer s.close()
		s.start()
		old := s.leader()
		s.grant(old, "s")
		s.converge()
		hold := old.node.holdEntries()
		free := sync.OnceFunc(func() { close(hold.release) })
		defer free()
		hold.armed.Store(true)
		uncertain := make(chan error, 1)
		go func() {
			_, err := charge(old.Node, "s", 1)
			uncertain <- err
		}()
		synctest.Wait()
		if hold.armed.Load() {
			t.Fatal("the flusher is not about to submit an entry")
		}
		s.isolate(old.node.id)
		next := s.newLeader(old)
		for range 10 {
			s.grant(next, "s")
		}
		s.heal()
		if err := <-uncertain; err != limiter.ErrUncertain {
			t.Errorf("the charge on the isolated leader: %v, want ErrUncertain", err)
		}
		pass(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := next.HandOver(ctx); err != nil {
			t.Fatal(err)
		}
		s.await("the old leader is the Raft leader", 20*time.Second, func() bool {
			if l := s.leading(); l != nil && old.raft.State() != raft.Leader {
				s.handTo(l, old)
			}
			return old.raft.State() == raft.Leader
		})
		pass(500 * time.Millisecond)
		if old.View().Leading {
			t.Error("a leadership began before the previous one had submitted its last entry")
		}
		free()
		s.await("the node leads again", 5*time.Second, func() bool { return old.View().Leading })
		if left := s.remaining(old, "s"); left != 5000-11 {
			t.Errorf("%d units remain, want 4989", left)
		}
		s.converge()
	})
}

// handTo transfers leadership to a node. A transfer can fail if another node is about to become the leader.
// handTo only logs such a failure.
func (s *sim) handTo(from, to *process) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := from.Transfer(ctx, to.node.id); err != nil {
		s.t.Logf("transfer of leadership from %s to %s: %v", from.node.id, to.node.id, err)
	}
	pass(100 * time.Millisecond)
}

// TestLeadershipsOfOneTerm begins two leaderships of a node in the same term. Entries of both leaderships are valid in
// that term, so no entry of the first leadership may be submitted after an entry of the second one.
func TestLeadershipsOfOneTerm(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		l := s.leader()
		term := l.raft.CurrentTerm()
		hold := l.node.holdEntries()
		for round := range 20 {
			s.grant(l, "s")
			hold.armed.Store(true)
			decide(l.Node, "s", 1)
			go func() { _ = l.WaitCommitted(l.LastWrite()) }()
			synctest.Wait()
			l.leader.stepDown()
			pass(100 * time.Millisecond)
			hold.release <- struct{}{}
			s.await("the next leadership", 5*time.Second, func() bool { return l.View().Leading })
			if l.raft.CurrentTerm() != term {
				t.Fatalf("the term has changed: the term is %d, was %d", l.raft.CurrentTerm(), term)
			}
			if left := s.remaining(l, "s"); left < int64(5000-2*(round+1)) {
				t.Fatalf("%d units of 5000 remain after %d rounds with 2 charges each, which is too few", left, round+1)
			}
		}
		s.converge()
	})
}

// TestOwnEntryAfterStepDown cuts the links to a leader. The leader then steps down and rolls back an entry. If the
// other nodes commit that entry later, the node must apply it like any other entry.
func TestOwnEntryAfterStepDown(t *testing.T) {
	carried := 0 // number of runs in which the other nodes have committed the entry
	for range 20 {
		simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
			old := s.leader()
			s.grant(old, "s")
			s.converge()
			for _, l := range s.followers(old) {
				s.cut(l.node.id, old.node.id) // the old leader can send but not receive
			}
			errs := make(chan error, 1)
			go func() {
				_, err := charge(old.Node, "s", 3)
				errs <- err
			}()
			if err := <-errs; err != limiter.ErrUncertain {
				t.Fatalf("the charge on a leader that receives nothing: %v, want ErrUncertain", err)
			}
			if e, _ := old.Lookup([]byte("s")); old.leaderships.rollbacks.Load() != 1 || e.TTL == 0 {
				t.Errorf("%d rollbacks and key %+v; want 1 rollback, and the key with its first charge", old.leaderships.rollbacks.Load(), e)
			}
			next := s.newLeader(old)
			switch left := s.remaining(next, "s"); left {
			case 5000 - 4:
				carried++
			case 5000 - 1:
			default:
				t.Errorf("%d units remain, want 4996 or 4999", left)
			}
			s.converge()
		})
	}
	if carried == 0 {
		t.Error("the other nodes have not committed the entry in any run")
	}
}

// TestPartitions checks that a partition changes neither the leader nor the term if the leader can still reach a
// majority in both directions. Otherwise, a new leader must make decisions within one second, or within three seconds
// in the cases with the field slow.
func TestPartitions(t *testing.T) {
	tests := []struct {
		name  string
		size  int
		cut   func(s *sim, leader, other *process)
		stays bool
		slow  bool // the election takes longer: the old leader still sends messages for a while, or votes are split
	}{
		{"a follower is isolated", 3, func(s *sim, _, other *process) { s.isolate(other.node.id) }, true, false},
		{"one link is cut", 3, func(s *sim, leader, other *process) {
			s.cut(leader.node.id, other.node.id)
			s.cut(other.node.id, leader.node.id)
		}, true, false},
		{"the leader is isolated", 3, func(s *sim, leader, _ *process) { s.isolate(leader.node.id) }, false, false},
		{"the leader cannot send", 3, func(s *sim, leader, _ *process) {
			for _, l := range s.followers(leader) {
				s.cut(leader.node.id, l.node.id)
			}
		}, false, false},
		{"the leader cannot receive", 3, func(s *sim, leader, _ *process) {
			for _, l := range s.followers(leader) {
				s.cut(l.node.id, leader.node.id)
			}
		}, false, true},
		{"the leader reaches one of five only", 5, func(s *sim, leader, other *process) {
			for _, l := range s.followers(leader) {
				if l != other {
					s.cut(l.node.id, leader.node.id)
					s.cut(leader.node.id, l.node.id)
				}
			}
		}, false, true},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			for range 5 {
				simulate(t, simConfig{size: c.size}, func(t *testing.T, s *sim) {
					leader := s.leader()
					s.grant(leader, "s")
					s.converge()
					leader = s.leader()
					term := leader.raft.CurrentTerm()
					c.cut(s, leader, s.followers(leader)[0])
					begun := time.Now()
					if !c.stays {
						next := s.newLeader(leader)
						s.grant(next, "s")
						limit := time.Second
						if c.slow {
							limit = 3 * time.Second
						}
						if gap := time.Since(begun); gap > limit {
							t.Errorf("there was no leader for %v, which is too long", gap)
						}
						if leader.View().Leading {
							t.Error("the old leader has not stepped down")
						}
						s.converge()
						return
					}
					pass(10 * time.Second)
					s.heal()
					pass(2 * time.Second)
					if got := leader.raft.CurrentTerm(); got != term || !leader.View().Leading {
						t.Errorf("the leader has stepped down, or the term has changed: the term is %d, was %d", got, term)
					}
				})
			}
		})
	}
}

// TestMajorityLost checks that no request is admitted while a majority is down, and that requests are admitted soon
// after a majority is up again.
func TestMajorityLost(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		leader := s.leader()
		s.grant(leader, "s")
		s.converge()
		followers := s.followers(s.leader())
		leader = s.leader()
		for _, l := range followers {
			l.crash(false)
		}
		pass(time.Second)
		begun := time.Now()
		if _, err := ask1(leader.Node, "s"); err == nil {
			t.Error("a request was admitted by one node of three")
		}
		if waited := time.Since(begun); waited > time.Second {
			t.Errorf("without a majority, the request failed after %v, want at most 1s", waited)
		}
		pass(30 * time.Second)
		followers[0].node.boot()
		begun = time.Now()
		s.grant(s.leader(), "s")
		if waited := time.Since(begun); waited > 2*time.Second {
			t.Errorf("with a majority, the request was admitted after %v, want at most 2s", waited)
		}
	})
}
