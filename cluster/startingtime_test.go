package cluster

import (
	"context"
	"testing"
	"time"
)

func TestTimeFromAnswers(t *testing.T) {
	const majority = 2
	own := timeAnswer{Term: 3, Now: 1000, ByWall: 5000}
	tests := []struct {
		name   string
		own    timeAnswer
		others []timeAnswer
		want   uint64
	}{
		{"no node answers", own, nil, 0},
		{"no node was up: the earliest wall time", own, []timeAnswer{{ByWall: 4000}, {ByWall: 6000}}, 4000},
		{"one node was up", own, []timeAnswer{{ByWall: 9000}, {Live: true, Now: 3000, ByWall: 1}}, 3000},
		{"two nodes were up", own, []timeAnswer{{Live: true, Now: 3001}, {Live: true, Now: 3000}}, 3001},
		{"a new cluster, and no node answers", timeAnswer{ByWall: 5000}, nil, 5000},
		{"a new cluster", timeAnswer{ByWall: 5000}, []timeAnswer{{ByWall: 4000}}, 4000},
	}
	for _, c := range tests {
		if got := c.own.logTimeWith(c.others, majority); got != c.want {
			t.Errorf("%s: logTimeWith returned %d, want %d", c.name, got, c.want)
		}
	}
}

// TestDowntimeCounts stops all nodes, and checks that log time continues according to the wall clocks, even if one
// node receives the newest entry only after its restart.
func TestDowntimeCounts(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		leader := s.leader()
		behind := s.followers(leader)[0]
		s.isolate(behind.node.id)
		for range 10 {
			s.grant(leader, "b0")
		}
		for _, l := range s.processes() {
			l.crash(false)
		}
		s.heal()
		pass(10 * time.Minute)
		behind.node.boot()
		leader.node.boot()
		next := s.leader()
		if lag := lag(next); lag < 0 || lag > time.Second {
			t.Errorf("log time is %v behind real time, want 0 to 1s", lag)
		}
		if left := s.remaining(next, "b0"); left != 10 {
			t.Errorf("%d units remain, want 10, because the bucket has been refilled", left)
		}
	})
}

// TestWallClocksDoNotCount checks that the log time of a node that was up takes precedence over all wall clocks.
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
					t.Errorf("log time is %v behind real time on %s, want 0 to 15s", lag, next.node.id)
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

// TestStaleNodeDoesNotKnowTheTime isolates a node, so that it lacks the newest entry. The next leader must not use the
// log time of the isolated node: the estimate of this node is too high, because the log time of the other nodes has
// fallen behind since the isolation.
func TestStaleNodeDoesNotKnowTheTime(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		leader := s.leader()
		s.grant(leader, "s")
		s.converge()
		stale := s.followers(leader)[0]
		other := s.followers(leader)[1]
		s.isolate(stale.node.id)
		leader.crash(false) // log time is lost during the outage, because wall clocks are set back
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
			t.Fatalf("log time is only %v behind real time, so nothing was tested", before)
		}
		pass(time.Second)
		term := next.leader.times.answer().Term
		answer := stale.Reply(t.Context(), Question{About: topicTime}).Time
		if !answer.Live || answer.Term == term || answer.Now <= next.clock.Now() {
			t.Errorf("the answer of the stale node is %+v, and the new leader has entries of term %d and log time %d; want a live answer with another term and a later time", answer, term, next.clock.Now())
		}
		ctx, cancel := context.WithTimeout(t.Context(), testHeartbeat)
		defer cancel()
		if asked := next.leader.times.askAll(ctx, term); len(asked) != 1 {
			t.Errorf("askAll returned the answers %+v, want only the answer of the node with the newest entry", asked)
		}
	})
}

// lag returns the time by which log time is behind real time on the leader.
func lag(l *process) time.Duration { return time.Since(time.Unix(0, int64(l.clock.Now()))) }
