package cluster

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/topology"
)

func TestTimeByAnswers(t *testing.T) {
	const most = 2
	own := timeAnswer{Term: 3, Now: 1000, ByWall: 5000}
	tests := []struct {
		name   string
		own    timeAnswer
		others []timeAnswer
		want   uint64
	}{
		{"nobody answers", own, nil, 0},
		{"nobody was there: the earliest by the wall", own, []timeAnswer{{ByWall: 4000}, {ByWall: 6000}}, 4000},
		{"one that was there knows", own, []timeAnswer{{ByWall: 9000}, {Live: true, Now: 3000, ByWall: 1}}, 3000},
		{"two that were", own, []timeAnswer{{Live: true, Now: 3001}, {Live: true, Now: 3000}}, 3001},
		{"a cluster that begins, and nobody answers", timeAnswer{ByWall: 5000}, nil, 5000},
		{"a cluster that begins", timeAnswer{ByWall: 5000}, []timeAnswer{{ByWall: 4000}}, 4000},
	}
	for _, c := range tests {
		if got := c.own.with(c.others, most); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// After all nodes were down, the time that has passed by their wall clocks counts, although one
// lacked the newest entry and gets it only now.
func TestDowntimeCounts(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		leader := s.leader()
		behind := s.followers(leader)[0]
		s.isolate(behind.node.id)
		for range 10 {
			s.grant(leader, "b0")
		}
		for _, l := range s.lives() {
			l.crash(false)
		}
		s.heal()
		pass(10 * time.Minute)
		behind.node.boot()
		leader.node.boot()
		next := s.leader()
		if lag := lag(next); lag < 0 || lag > time.Second {
			t.Errorf("log time is %v behind", lag)
		}
		if left := s.left(next, "b0"); left != 10 {
			t.Errorf("%d left", left)
		}
	})
}

// A node that was there knows better what time it is than any wall clock.
func TestWallClocksDoNotCount(t *testing.T) {
	for _, skew := range []time.Duration{time.Hour, -time.Hour} {
		simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
			leader := s.leader()
			s.grant(leader, "s")
			s.converge()
			stays := s.followers(leader)[0]
			for _, l := range s.followers(stays) {
				l.crash(false)
				l.node.skew.Store(int64(skew))
			}
			pass(10 * time.Second)
			for _, n := range s.list() {
				if s.alive(n.id) == nil {
					n.boot()
				}
			}
			for range 5 {
				next := s.leader()
				if lag := lag(next); lag < 0 || lag > 15*time.Second {
					t.Errorf("log time is %v behind with %s", lag, next.node.id)
				}
				s.grant(next, "s")
				next.stop()
				pass(downFor)
				next.node.boot()
				s.converge()
			}
		})
	}
}

// What a leader has decided in a term that began while a node was there tells that node the time, even
// if it learns only from the next leader that it counts.
func TestEntryOfTheLeaderBeforeIsFresh(t *testing.T) {
	n := &Node{raft: new(raft.Raft), bootIndex: 10, bootTerm: 4}
	for _, c := range []struct {
		index, term uint64
		want        bool
	}{{11, 5, true}, {11, 4, false}, {10, 5, false}, {11, 3, false}, {11, 0, true}} {
		if got := n.isFresh(&raft.Log{Index: c.index, Term: c.term}); got != c.want {
			t.Errorf("entry %d of term %d: %t", c.index, c.term, got)
		}
	}
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		s.grant(s.leader(), "s")
		s.converge()
		for _, l := range s.lives() {
			term := l.raft.CurrentTerm()
			l.crash(false)
			pass(downFor)
			back := l.node.boot()
			s.converge()
			if back.bootTerm < term {
				t.Errorf("%s knows of term %d, and knew of %d", l.node.id, back.bootTerm, term)
			}
		}
	})
}

// A node that was cut off does not make time jump by what others have lost since: it does not
// have the newest entry.
func TestStaleNodeDoesNotKnowTheTime(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		leader := s.leader()
		s.grant(leader, "s")
		s.converge()
		stale := s.followers(leader)[0]
		other := s.followers(leader)[1]
		s.isolate(stale.node.id)
		leader.crash(false) // and no clock runs on while nobody leads
		other.crash(false)
		pass(5 * time.Second)
		leader, other = leader.node.boot(), other.node.boot()
		for _, n := range []*simNode{leader.node, other.node} {
			n.skew.Store(-int64(time.Hour))
		}
		next := s.leader()
		s.grant(next, "s")
		before := lag(next)
		if before < 4*time.Second {
			t.Fatalf("no time was lost: %v", before)
		}
		pass(time.Second)
		next.Node.mu.Lock()
		term := next.lastTerm
		next.Node.mu.Unlock()
		answer := stale.Reply(t.Context(), Question{About: aboutTime}).Time
		if !answer.Live || answer.Term == term || answer.Now <= next.clock.Now() {
			t.Errorf("%+v in term %d at %d", answer, term, next.clock.Now())
		}
		ctx, cancel := context.WithTimeout(t.Context(), testHeartbeat)
		defer cancel()
		if asked := next.askTimes(ctx, term); len(asked) != 1 {
			t.Errorf("%+v", asked)
		}
	})
}

// An entry that gets into the log under another term than the one it was decided in is void on
// all nodes, or it would undo what came between.
func TestVoidEntry(t *testing.T) {
	var armed atomic.Pointer[chan struct{}]
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, simConfig{size: 3})
		defer s.close()
		s.start()
		old := s.leader()
		s.grant(old, "s")
		s.converge()
		wall := old.config.Wall
		release := make(chan struct{})
		free := sync.OnceFunc(func() { close(release) })
		defer free()
		old.config.Wall = func() time.Time {
			if held := armed.Swap(nil); held != nil {
				<-*held
			}
			return wall()
		}
		armed.Store(&release)
		uncertain := make(chan error, 1)
		go func() {
			_, err := charge(old.Node, "s", 1)
			uncertain <- err
		}()
		synctest.Wait()
		if armed.Load() != nil {
			t.Fatal("nothing is about to be submitted")
		}
		s.isolate(old.node.id)
		next := s.newLeader(old)
		for range 10 {
			s.grant(next, "s")
		}
		s.heal()
		if err := <-uncertain; err != limiter.ErrUncertain {
			t.Errorf("%v", err)
		}
		pass(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := next.HandOver(ctx); err != nil {
			t.Fatal(err)
		}
		s.await("the old leader leads by Raft", 20*time.Second, func() bool {
			if l := s.leading(); l != nil && old.raft.State() != raft.Leader {
				s.handTo(l, old)
			}
			return old.raft.State() == raft.Leader
		})
		pass(500 * time.Millisecond)
		if old.View().Leading {
			t.Error("a reign has begun while an entry of the one before was about to be submitted")
		}
		free()
		s.await("the node leads again", 5*time.Second, func() bool { return old.View().Leading })
		if left := s.left(old, "s"); left != 5000-11 {
			t.Errorf("%d left", left)
		}
		s.converge()
	})
}

// handTo hands leadership to a node. That may fail while another is about to lead.
func (s *sim) handTo(from, to *life) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := from.Transfer(ctx, to.node.id); err != nil {
		s.t.Logf("%s does not hand over to %s: %v", from.node.id, to.node.id, err)
	}
	pass(100 * time.Millisecond)
}

// In the same term a reign may follow another. What was about to be submitted in the first must
// not come after anything of the second: it would not be void.
func TestReignsOfOneTerm(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		l := s.leader()
		term := l.raft.CurrentTerm()
		var hold atomic.Bool
		held := make(chan struct{})
		wall := l.config.Wall
		l.config.Wall = func() time.Time {
			if hold.Swap(false) {
				<-held
			}
			return wall()
		}
		for round := range 20 {
			s.grant(l, "s")
			hold.Store(true)
			decide(l.Node, "s", 1)
			go func() { _ = l.Await(l.Mark()) }()
			synctest.Wait()
			l.step()
			pass(100 * time.Millisecond)
			held <- struct{}{}
			s.await("the next reign", 5*time.Second, func() bool { return l.View().Leading })
			if l.raft.CurrentTerm() != term {
				t.Fatalf("term %d, was %d", l.raft.CurrentTerm(), term)
			}
			if left := s.left(l, "s"); left < int64(5000-2*(round+1)) {
				t.Fatalf("%d left after %d rounds", left, round+1)
			}
		}
		s.converge()
	})
}

// What a leader has written before it was cut off, and others then commit, is put on it like
// anybody's, over the state before.
func TestOwnEntryAfterAbdication(t *testing.T) {
	carried := 0 // entries that others have got before the leader was found to be cut off
	for range 20 {
		simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
			old := s.leader()
			s.grant(old, "s")
			s.converge()
			for _, l := range s.followers(old) {
				s.cut(l.node.id, old.node.id) // it can be heard, and hears nothing
			}
			errs := make(chan error, 1)
			go func() {
				_, err := charge(old.Node, "s", 3)
				errs <- err
			}()
			if err := <-errs; err != limiter.ErrUncertain {
				t.Fatalf("%v", err)
			}
			if e, _ := old.Lookup([]byte("s")); old.rollbacks.Load() != 1 || e.TTL == 0 {
				t.Errorf("%d times taken back, %+v", old.rollbacks.Load(), e)
			}
			next := s.newLeader(old)
			switch left := s.left(next, "s"); left {
			case 5000 - 4:
				carried++
			case 5000 - 1:
			default:
				t.Errorf("%d left", left)
			}
			s.converge()
		})
	}
	if carried == 0 {
		t.Error("no entry has got to the others")
	}
}

// Hand-over leaves nobody uncertain, and the gap is small.
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
				t.Errorf("%v until %s leads", gap, next.node.id)
			}
			pass(500 * time.Millisecond)
			clients.end()
			for _, o := range clients.ops {
				if o.outcome == unknown {
					t.Errorf("uncertain: %+v", o)
				}
			}
			checkUsed(s, clients.ops)
			checkIntervals(s, clients.ops)
		})
	}
}

// A hand-over that fails leaves the leader deciding, and so does one whose reign ends meanwhile.
func TestFailedHandOver(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		old := s.leader()
		dead := s.followers(old)[0]
		dead.crash(false)
		if err := old.Transfer(t.Context(), dead.node.id); err == nil {
			t.Fatal("handed over to a node that is down")
		}
		s.await("it decides again", 3*time.Second, func() bool {
			_, err := ask1(old.Node, "s")
			return err == nil
		})
		if old.leased(old.reign.Load()) && old.reign.Load().offered.Load() {
			t.Error("a node that was asked to lead may do so, and the lease goes on")
		}
		dead.node.boot()
		s.converge()

		old = s.leader()
		s.isolate(old.node.id)
		decide(old.Node, "s", 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := old.HandOver(ctx); err != limiter.ErrUncertain {
			t.Errorf("%v", err)
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

// A second hand-over does not disturb the first.
func TestHandOverTwice(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		old := s.leader()
		r := old.reign.Load()
		r.leaving.Store(true)
		if err := old.HandOver(t.Context()); err != topology.ErrChanging {
			t.Errorf("%v", err)
		}
		if !r.leaving.Load() {
			t.Error("the second has ended the first")
		}
		if _, err := ask1(old.Node, "s"); err != limiter.ErrNotLeading {
			t.Errorf("it decides while it hands over: %v", err)
		}
	})
	simulate(t, simConfig{size: 1}, func(t *testing.T, s *sim) {
		if err := s.leader().HandOver(t.Context()); err != nil {
			t.Errorf("by itself: %v", err)
		}
		s.grant(s.leader(), "s")
	})
}

// A transfer that is interrupted does not keep the node that leads in the end from deciding.
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
				for _, l := range s.lives() {
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

// A partition that leaves a leader most nodes changes nothing, and others end within a second, or three.
func TestPartitions(t *testing.T) {
	tests := []struct {
		name  string
		size  int
		cut   func(s *sim, leader, other *life)
		stays bool
		slow  bool // the old leader goes on to be heard for a while, or votes are split
	}{
		{"a follower is cut off", 3, func(s *sim, _, other *life) { s.isolate(other.node.id) }, true, false},
		{"one link is cut", 3, func(s *sim, leader, other *life) {
			s.cut(leader.node.id, other.node.id)
			s.cut(other.node.id, leader.node.id)
		}, true, false},
		{"the leader is cut off", 3, func(s *sim, leader, _ *life) { s.isolate(leader.node.id) }, false, false},
		{"the leader cannot send", 3, func(s *sim, leader, _ *life) {
			for _, l := range s.followers(leader) {
				s.cut(leader.node.id, l.node.id)
			}
		}, false, false},
		{"the leader cannot receive", 3, func(s *sim, leader, _ *life) {
			for _, l := range s.followers(leader) {
				s.cut(l.node.id, leader.node.id)
			}
		}, false, true},
		{"the leader sees one of five only", 5, func(s *sim, leader, other *life) {
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
						most := time.Second
						if c.slow {
							most = 3 * time.Second
						}
						if gap := time.Since(begun); gap > most {
							t.Errorf("%v without a leader", gap)
						}
						if leader.View().Leading {
							t.Error("the old leader goes on")
						}
						s.converge()
						return
					}
					pass(10 * time.Second)
					s.heal()
					pass(2 * time.Second)
					if got := leader.raft.CurrentTerm(); got != term || !leader.View().Leading {
						t.Errorf("term %d, was %d", got, term)
					}
				})
			}
		})
	}
}

// Without most nodes nothing is admitted, and as soon as they are back it is.
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
			t.Error("admitted by one of three")
		}
		if waited := time.Since(begun); waited > time.Second {
			t.Errorf("refused after %v", waited)
		}
		pass(30 * time.Second)
		followers[0].node.boot()
		begun = time.Now()
		s.grant(s.leader(), "s")
		if waited := time.Since(begun); waited > 2*time.Second {
			t.Errorf("back after %v", waited)
		}
	})
}
