package cluster

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/topology"
)

// TestHandOver checks that no result is uncertain after a hand-over, and that the next leader starts soon.
func TestHandOver(t *testing.T) {
	for range 10 {
		simulate(t, simConfig{size: 3, latency: time.Millisecond}, func(t *testing.T, s *sim) {
			clients := runClients(s, 8)
			pass(500 * time.Millisecond)
			old := s.leader()
			begun := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := old.HandOver(ctx); err != nil {
				t.Fatal(err)
			}
			next := s.newLeader(old)
			if gap := time.Since(begun); gap > 60*time.Millisecond {
				t.Errorf("it took %v until %s was the leader, want at most 60ms", gap, next.node.id)
			}
			pass(500 * time.Millisecond)
			clients.end()
			for _, o := range clients.ops {
				if o.outcome == unknown {
					t.Errorf("the outcome of a request during a hand-over is uncertain: %+v", o)
				}
			}
			checkUsed(s, clients.ops)
			checkIntervals(s, clients.ops)
		})
	}
}

// TestHandOverWaits checks that a hand-over waits for a command with several engine calls, and that none of these calls
// is refused. All decisions are committed, so no result is uncertain.
func TestHandOverWaits(t *testing.T) {
	simulate(t, simConfig{size: 3, latency: time.Millisecond}, func(t *testing.T, s *sim) {
		old := s.leader()
		if !old.Hold() {
			t.Fatal("Hold returned false on the leader")
		}
		done := make(chan error, 1)
		go func() { done <- old.HandOver(t.Context()) }()
		s.await("new commands are held", time.Second, func() bool { return !old.View().Leading })
		var tokens []limiter.CommitToken
		for range 5 {
			pass(20 * time.Millisecond)
			token := decide(old.Node, "s", 1)
			if tokens = append(tokens, token); token == (limiter.CommitToken{}) {
				t.Error("Decide was refused, although the command has called Hold to delay the hand-over")
			}
			if !old.Hold() {
				t.Fatal("a nested Hold returned false")
			}
			old.Release()
		}
		old.Release()
		if err := <-done; err != nil {
			t.Errorf("HandOver returned %v", err)
		}
		s.newLeader(old)
		for _, token := range tokens { // the leadership has ended by now
			if err := old.WaitCommitted(token); err != nil {
				t.Errorf("WaitCommitted for a decision made before the hand-over: %v, want nil", err)
			}
		}
		if old.Hold() {
			t.Error("Hold returned true after the hand-over")
		}
	})
}

// TestHandOverGivesUp checks that a hand-over times out if a command does not finish, and that the node remains the
// leader.
func TestHandOverGivesUp(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		old := s.leader()
		if !old.Hold() {
			t.Fatal("Hold returned false on the leader")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := old.HandOver(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("hand-over during a command: %v, want DeadlineExceeded", err)
		}
		old.Release()
		s.grant(old, "s")
		if !old.View().Leading {
			t.Error("after the failed hand-over, the view does not show the node as the leader")
		}
	})
}

// TestMayLose_Offered checks that Status.MayLose, the period whose admitted requests may be lost, is 0 once a transfer
// of leadership has started. From then on, replies wait for commits even in async mode.
func TestMayLose_Offered(t *testing.T) {
	simulate(t, simConfig{size: 3, async: true}, func(t *testing.T, s *sim) {
		leader := s.leader()
		if got := leader.Status().MayLose; got != leader.setting.leaseTime() {
			t.Errorf("MayLose is %v before a transfer of leadership, want the lease time %v", got, leader.setting.leaseTime())
		}
		leader.leaderships.current().lease.offered.Store(true)
		if got := leader.Status().MayLose; got != 0 {
			t.Errorf("MayLose is %v during a transfer of leadership, want 0", got)
		}
	})
}

// TestFailedHandOver checks that the leader makes decisions again after a failed hand-over. If its leadership ends
// during the hand-over, the node must make decisions again after it is elected again.
func TestFailedHandOver(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		old := s.leader()
		dead := s.followers(old)[0]
		dead.crash(false)
		if err := old.Transfer(t.Context(), dead.node.id); err == nil {
			t.Fatal("hand-over to a node that is down succeeded")
		}
		s.await("the old leader decides again", 3*time.Second, func() bool {
			_, err := ask1(old.Node, "s")
			return err == nil
		})
		if old.isLeased(old.leaderships.current()) && old.leaderships.current().lease.offered.Load() {
			t.Error("the lease is valid although a transfer of leadership has started")
		}
		dead.node.boot()
		s.converge()

		old = s.leader()
		s.isolate(old.node.id)
		decide(old.Node, "s", 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := old.HandOver(ctx); err != limiter.ErrUncertain {
			t.Errorf("hand-over by an isolated leader: %v, want ErrUncertain", err)
		}
		s.heal()
		for !old.View().Leading {
			if err := s.leader().Transfer(t.Context(), old.node.id); err != nil && !errors.Is(err, topology.ErrRefused) {
				t.Fatal(err)
			}
			pass(200 * time.Millisecond)
		}
		s.grant(old, "s")
	})
}

// TestHandOverTwice checks that a second hand-over fails and does not disturb the first one, and that a hand-over by a
// single node does nothing.
func TestHandOverTwice(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		old := s.leader()
		r := old.leaderships.current()
		r.leaving.Store(true)
		r.stopped.Store(true)
		if err := old.HandOver(t.Context()); err != topology.ErrChanging {
			t.Errorf("second hand-over: %v, want ErrChanging", err)
		}
		if !r.leaving.Load() {
			t.Error("the second hand-over has ended the first")
		}
		if _, err := ask1(old.Node, "s"); err != limiter.ErrNotLeading {
			t.Errorf("a charge during the hand-over: %v, want ErrNotLeading", err)
		}
	})
	simulate(t, simConfig{size: 1}, func(t *testing.T, s *sim) {
		if err := s.leader().HandOver(t.Context()); err != nil {
			t.Errorf("hand-over by a single node: %v, want nil", err)
		}
		s.grant(s.leader(), "s")
	})
}

// TestInterruptedTransfers checks that an interrupted transfer of leadership does not prevent the next leader from
// making decisions.
func TestInterruptedTransfers(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		for round := range 60 {
			l := s.leader()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			done := make(chan error, 1)
			go func() { done <- l.HandOver(ctx) }()
			pass(time.Duration(round) * 100 * time.Microsecond)
			if round%2 == 0 {
				s.isolate(l.node.id)
			} else {
				for _, f := range s.followers(l) {
					s.cut(f.node.id, l.node.id)
				}
			}
			pass(time.Duration(50+10*round) * time.Millisecond)
			s.heal()
			<-done
			cancel()
			s.await("some node decides", 3*time.Second, func() bool {
				for _, l := range s.processes() {
					if _, err := ask1(l.Node, "s"); err == nil {
						return true
					}
				}
				return false
			})
		}
		s.converge()
	})
}

// TestTransferToSilent checks that a node that does not answer never becomes the successor. If the leader has not
// detected yet that the node does not answer, the hand-over fails, and the leader soon makes decisions again.
func TestTransferToSilent(t *testing.T) {
	simulate(t, simConfig{size: 3, latency: time.Millisecond}, func(t *testing.T, s *sim) {
		leader := s.leader()
		pass(time.Second)
		for _, known := range []bool{false, true} {
			silent := s.followers(leader)[0]
			silent.pause()
			if known {
				pass(2 * testHeartbeat)
			}
			s.grant(leader, "s") // the silent node lacks this entry
			for range 3 {
				begun := time.Now()
				err := leader.Transfer(t.Context(), silent.node.id)
				if took := time.Since(begun); err == nil || known && (!errors.Is(err, topology.ErrSilent) || took > 0) {
					t.Errorf("transfer to a paused node: error %v after %v; want an error, and ErrSilent at once if the leader has detected the pause", err, took)
				}
				s.await("the leader decides again", testHeartbeat, func() bool {
					_, err := ask1(leader.Node, "s")
					return err == nil
				})
			}
			silent.resume()
			s.converge()
			leader = s.leader()
		}
	})
}

// TestMostAdvanced checks that the most up-to-date voter is the successor if no successor is named.
func TestMostAdvanced(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		leader := s.leader()
		r := leader.leaderships.current()
		first, second := s.followers(leader)[0].node.id, s.followers(leader)[1].node.id
		for _, test := range []struct {
			first, second uint64 // newest entries of the two followers
			id, want      string
		}{{100, 200, "", second}, {200, 100, "", first}, {200, 100, second, second}} {
			leader.leader.tracker.recordResponse(raft.ServerID(first), r.term, test.first)
			leader.leader.tracker.recordResponse(raft.ServerID(second), r.term, test.second)
			if next, err := leader.leader.successor(test.id); err != nil || next.ID != test.want {
				t.Errorf("case %+v: successor returned %+v, error %v", test, next, err)
			}
		}
	})
}

// TestSuccessor checks that a voter that does not answer is not the successor.
func TestSuccessor(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		for range 6 {
			leader := s.leader()
			pass(time.Second)
			silent := s.followers(leader)[0]
			silent.pause()
			pass(2 * testHeartbeat)
			if err := leader.HandOver(t.Context()); err != nil {
				t.Errorf("hand-over while one node does not answer: %v, want nil", err)
			}
			if next := s.newLeader(leader); next == silent {
				t.Error("the node that did not answer has become the leader")
			}
			silent.resume()
			s.converge()
		}
		leader := s.leader()
		for _, f := range s.followers(leader) {
			f.pause()
		}
		pass(testHeartbeat + 2*refreshEvery)
		if err := leader.HandOver(t.Context()); err != nil && !errors.Is(err, topology.ErrSilent) {
			t.Errorf("hand-over while no node answers: %v, want nil or ErrSilent", err)
		}
	})
}
