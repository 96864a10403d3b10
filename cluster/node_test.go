package cluster

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/topology"
)

// TestLimitHolds checks that limits are enforced on the leader, and that all nodes reach the same state.
func TestLimitHolds(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		leader := s.leader()
		for i := range 102 {
			d, err := ask1(leader.Node, "t")
			if err != nil || d.Limited != (i >= 100) {
				t.Fatalf("charge %d: decision %+v, error %v; want the first 100 admitted", i, d, err)
			}
		}
		s.converge()
		if f := leader.Fingerprint(); f.Keys != 1 {
			t.Errorf("fingerprint %+v, want 1 key", f)
		}
		for _, l := range s.followers(leader) {
			if e, found := l.Lookup([]byte("t")); !found || e.Kind != limiter.Throttle {
				t.Errorf("%s: Lookup returned %+v, found %v; want a key of the kind Throttle", l.node.id, e, found)
			}
			if usage := l.Usage(); usage.Keys != 1 {
				t.Errorf("%s: usage %+v, want 1 key", l.node.id, usage)
			}
			seen := 0
			l.Scan(0, 10, func([]byte, limiter.Kind) { seen++ })
			if seen != 1 {
				t.Errorf("%s: Scan visited %d keys, want 1", l.node.id, seen)
			}
		}
	})
}

// TestFollowerRefuses checks that a follower rejects all changes, and that the leader accepts them.
func TestFollowerRefuses(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		leader := s.leader()
		s.grant(leader, "s")
		s.converge()
		for _, l := range s.followers(leader) {
			if _, err := ask1(l.Node, "s"); err != limiter.ErrNotLeading {
				t.Errorf("charge on a follower: %v, want ErrNotLeading", err)
			}
			if err := l.WaitCommitted(l.LastWrite()); err != limiter.ErrNotLeading {
				t.Errorf("WaitCommitted for the last write on a follower: %v, want ErrNotLeading", err)
			}
			if err := l.Clear(); err != limiter.ErrNotLeading {
				t.Errorf("Clear on a follower: %v, want ErrNotLeading", err)
			}
			if found, err := l.Delete([]byte("s")); found || err != limiter.ErrNotLeading {
				t.Errorf("Delete on a follower: found %t, error %v; want ErrNotLeading", found, err)
			}
			if l.Usage().Keys != 1 {
				t.Error("a follower has deleted a key")
			}
		}
		if found, err := leader.Delete([]byte("s")); !found || err != nil {
			t.Errorf("Delete on the leader: found %t, error %v; want true and nil", found, err)
		}
		s.grant(leader, "s")
		if err := leader.Clear(); err != nil {
			t.Error(err)
		}
		if err := leader.WaitCommitted(leader.LastWrite()); err != nil {
			t.Error(err)
		}
		s.converge()
		for _, l := range s.processes() {
			if l.Usage().Keys != 0 {
				t.Errorf("%s has %d keys after Clear, want 0", l.node.id, l.Usage().Keys)
			}
		}
	})
}

// TestLease checks the number of log entries for a request that charges nothing: no entry during the lease, and one
// entry after the lease.
func TestLease(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		leader := s.leader()
		s.grant(leader, "s")
		before := leader.Status().Entries
		for range 5 {
			s.remaining(leader, "s")
			if err := leader.WaitCommitted(leader.LastWrite()); err != nil {
				t.Error(err)
			}
		}
		if got := leader.Status().Entries; got != before {
			t.Errorf("%d entries for peeks during the lease, want 0", got-before)
		}
		pass(leader.setting.leaseTime() + time.Millisecond)
		before = leader.Status().Entries
		s.remaining(leader, "s")
		if got := leader.Status().Entries; got != before+1 {
			t.Errorf("%d entries for a peek after the lease, want 1", got-before)
		}
	})
}

// TestPausedLeader checks that a leader that was paused does not answer from an outdated table.
func TestPausedLeader(t *testing.T) {
	simulate(t, simConfig{size: 3, shards: 64}, func(t *testing.T, s *sim) {
		old := s.leader()
		s.grant(old, "s")
		s.converge()
		old.pause()
		next := s.newLeader(old)
		left := s.grant(next, "s")
		old.resume()
		for range 20 {
			d, err := charge(old.Node, "s", 0)
			if err == nil && d.Remaining != left {
				t.Fatalf("%d units remain on the old leader, want %d as on the new one", d.Remaining, left)
			}
			if d, err := ask1(old.Node, "s"); err == nil {
				t.Fatalf("the old leader admitted a request: %+v", d)
			}
			pass(time.Millisecond)
		}
	})
}

// TestAwaitAcrossLeaderships checks the errors of WaitCommitted for tokens whose leadership has ended. A token without
// a generation gets limiter.ErrNotLeading, because the decision may be based on an outdated table.
func TestAwaitAcrossLeaderships(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		l := s.leader()
		r := l.leaderships.current()
		charged := decide(l.Node, "s", 1)
		if charged.Generation == 0 {
			t.Fatal("the token of a charge has no generation")
		}
		l.leader.stepDown()
		for _, token := range []limiter.CommitToken{charged, {Epoch: r.epoch, Generation: 1 << 40}} {
			if err := l.WaitCommitted(token); err != limiter.ErrUncertain {
				t.Errorf("WaitCommitted for %+v: %v, want ErrUncertain", token, err)
			}
		}
		if err := l.WaitCommitted(limiter.CommitToken{Epoch: r.epoch}); err != limiter.ErrNotLeading {
			t.Errorf("WaitCommitted for a token without a generation: %v, want ErrNotLeading", err)
		}
		// The leadership has ended in the table, but leaderships.current still returns it.
		pass(time.Second)
		now := s.leader()
		stale := now.leaderships.current()
		now.fsm.state.Lock()
		now.table.Follow()
		now.fsm.state.Unlock()
		stale.lease.confirmed.Store(-int64(time.Hour))
		if err := now.WaitCommitted(limiter.CommitToken{Epoch: stale.epoch}); err != limiter.ErrNotLeading {
			t.Errorf("WaitCommitted after the leadership has ended in the table: %v, want ErrNotLeading", err)
		}
		now.leader.stepDown()
	})
}

// decide charges a key and does not wait for the commit.
func decide(n *Node, key string, quantity int64) limiter.CommitToken {
	r := rules[key[0]]
	return n.Decide([]limiter.Request{{Kind: r.kind, Key: []byte(key), Limit: r.limit, Quantity: quantity}}, make([]limiter.Decision, 1))
}

// TestAsyncIdle checks that an idle leader in async mode keeps answering, with and without keys.
func TestAsyncIdle(t *testing.T) {
	simulate(t, simConfig{size: 3, async: true}, func(t *testing.T, s *sim) {
		leader := s.leader()
		pass(2 * time.Second)
		s.grant(leader, "s")
		for range 20 {
			pass(230 * time.Millisecond)
			s.grant(leader, "s")
		}
		s.converge()
		if left := s.remaining(leader, "s"); left != 5000-21 {
			t.Errorf("%d units remain, want 4979", left)
		}
		if mode := leader.Status().Mode; mode != "async" {
			t.Errorf("the mode is %q, want async", mode)
		}
	})
}

// TestAsyncLoss checks that a failure of the leader in async mode loses only decisions from the last 20 ms before the
// failure. If the leader was isolated before it failed, decisions after the isolation are lost, too, but the leader
// makes none after the end of its lease.
func TestAsyncLoss(t *testing.T) {
	for _, silent := range []bool{false, true} {
		simulate(t, simConfig{size: 3, async: true, latency: 2 * time.Millisecond}, func(t *testing.T, s *sim) {
			leader := s.leader()
			var granted []time.Duration
			begun := time.Now()
			grantFor := func(within time.Duration) {
				for end := time.Now().Add(within); time.Now().Before(end); pass(time.Millisecond) {
					if _, err := ask1(leader.Node, "s"); err == nil {
						granted = append(granted, time.Since(begun))
					}
				}
			}
			grantFor(time.Second)
			if silent {
				s.isolate(leader.node.id)
				grantFor(400 * time.Millisecond)
			}
			end := time.Since(begun)
			leader.crash(false)
			next := s.newLeader(leader)
			used := 5000 - int(s.remaining(next, "s"))
			if silent {
				end = time.Second
			}
			kept := 0
			for _, at := range granted {
				if at < end-20*time.Millisecond {
					kept++
				}
			}
			if used < kept || kept < 400 {
				t.Errorf("leader isolated before its crash: %v; %d units are used after the crash, want at least %d, the number of requests admitted until 20 ms before the isolation or crash, and at least 400", silent, used, kept)
			}
			if last := granted[len(granted)-1]; silent && last > end+leader.setting.leaseTime() {
				t.Errorf("the leader admitted a request %v after it was isolated, which is after the end of its lease", last-end)
			}
		})
	}
}

// TestSingleNode checks that the state of a single node survives a crash, and that the downtime counts as elapsed time.
func TestSingleNode(t *testing.T) {
	simulate(t, simConfig{size: 1}, func(t *testing.T, s *sim) {
		for range 5 {
			l := s.leader()
			for range 10 {
				s.grant(l, "t")
				s.grant(l, "l")
			}
			f := l.Fingerprint()
			l.crash(false)
			pass(3 * time.Second)
			l = l.node.boot()
			s.leader()
			if got := l.Fingerprint(); got.Index < f.Index {
				t.Errorf("fingerprint %+v is older than %+v, the fingerprint before the crash", got, f)
			}
			if behind := lag(l); behind < 0 || behind > 100*time.Millisecond {
				t.Errorf("log time is %v behind real time, want 0 to 100ms", behind)
			}
		}
		l := s.leader()
		if left := s.remaining(l, "t"); left != 50 {
			t.Errorf("key t: %d units remain, want 50", left)
		}
		if left := s.remaining(l, "l"); left != 40 {
			t.Errorf("key l: %d units remain after the window has passed, want 40", left)
		}
	})
}

// TestCloseWithWaiters checks that Close returns, and makes blocked calls fail with limiter.ErrUncertain.
func TestCloseWithWaiters(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		leader := s.leader()
		s.isolate(leader.node.id)
		errs := make(chan error, 10)
		for range cap(errs) {
			go func() {
				_, err := ask1(leader.Node, "s")
				errs <- err
			}()
		}
		synctest.Wait()
		leader.crash(false)
		for range cap(errs) {
			if err := <-errs; err != limiter.ErrUncertain {
				t.Errorf("blocked charge on a closed node: %v, want ErrUncertain", err)
			}
		}
	})
}

// TestCloseAtAnyTime checks that a node can be closed at any time, even when it is about to become the leader. The
// simulation waits for all goroutines of the node.
func TestCloseAtAnyTime(t *testing.T) {
	for after := range 60 {
		synctest.Test(t, func(t *testing.T) {
			s := newSim(t, simConfig{size: 1 + 2*(after%2), slowDisk: 2 * time.Millisecond})
			defer s.close()
			s.start()
			pass(time.Duration(after) * 20 * time.Millisecond)
			for _, l := range s.processes() {
				decide(l.Node, "s", 1)
				l.crash(false)
			}
		})
	}
}

// TestCloseUnstarted checks that a node that was never started can be closed.
func TestCloseUnstarted(t *testing.T) {
	clock := NewClock()
	n := New(Config{Clock: clock, Self: Announcement{ID: "n1"}})
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	if n.Status().Mode != "sync" || n.Snapshot() == nil {
		t.Error("on a node that was not started, the mode is not sync, or Snapshot returned no error")
	}
}

// TestViewWithoutObservations checks that a node detects the leader without an observation from Raft.
func TestViewWithoutObservations(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		leader := s.leader()
		for _, l := range s.processes() {
			s.await("it shows the leader", time.Second, func() bool { return l.View().Leader == leader.node.id })
			l.fsm.state.Lock()
			old := l.observer.view.Load()
			blank := &publishedView{View: topology.View{Cluster: old.Cluster, Self: old.Self}, changed: make(chan struct{})}
			blank.Changed = blank.changed
			l.observer.view.Store(blank)
			close(old.changed)
			l.fsm.state.Unlock()
			s.await("it shows the leader again", 2*refreshEvery, func() bool { return l.View().Leader == leader.node.id })
		}
	})
}

// TestViewOfSilence pauses two of three nodes, and checks that the view of the third node soon shows no leader. When
// the two nodes are resumed, the view must show a leader again.
func TestViewOfSilence(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		leader := s.leader()
		last := s.followers(leader)[1]
		s.await("it shows the leader", time.Second, func() bool { return last.View().Leader == leader.node.id })
		leader.pause()
		s.followers(leader)[0].pause()
		s.await("it shows no leader", testHeartbeat+refreshEvery+5*time.Millisecond, func() bool { return last.View().Leader == "" })
		for _, l := range s.processes() {
			l.resume()
		}
		s.await("it shows a leader again", 5*time.Second, func() bool { return last.View().Leader != "" })
		s.converge()
	})
}

// TestContactOfANewLeader checks that an observation of a new leader counts as contact. LastContact is not sufficient,
// because Raft updates it only after the entries in the first message of the leader are stored.
func TestContactOfANewLeader(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		away := s.followers(s.leader())[0]
		s.isolate(away.node.id)
		pass(2 * testHeartbeat)
		away.observer.observe(raft.LeaderObservation{})
		if got := away.observer.sinceContact(); got < testHeartbeat {
			t.Errorf("sinceContact returned %v after an observation without a leader, want at least a heartbeat", got)
		}
		away.observer.observe(raft.LeaderObservation{LeaderID: "n9"})
		if got := away.observer.sinceContact(); got > 0 {
			t.Errorf("sinceContact returned %v after an observation of a new leader, want 0", got)
		}
	})
}

// TestView checks that a new view is published when the leader fails.
func TestView(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		old := s.leader()
		s.await("all views are complete", 5*time.Second, func() bool {
			for _, l := range s.processes() {
				v := l.View()
				for _, m := range v.Members {
					if m.Host == "" || !m.Voter {
						return false
					}
				}
				if v.Leader != old.node.id || len(v.Members) != 3 {
					return false
				}
			}
			return true
		})
		follower := s.followers(old)[0]
		v := follower.View()
		old.crash(false)
		select {
		case <-v.Changed:
		case <-time.After(5 * time.Second):
			t.Fatal("no newer view was published after the leader had failed")
		}
		s.newLeader(old)
		if status := follower.Status(); status.Last == 0 || status.Applied > status.Last || status.Committed > status.Last {
			t.Errorf("status of the follower: %+v; want Last above 0, and Applied and Committed at most Last", status)
		}
	})
}
