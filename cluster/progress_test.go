package cluster

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/topology"
)

// TestCatchesUpSoon checks that a restarted node catches up soon, no matter how long it was down.
func TestCatchesUpSoon(t *testing.T) {
	for _, away := range []time.Duration{time.Second, 20 * time.Second, 2 * time.Minute} {
		simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
			leader := s.leader()
			node := s.followers(leader)[0].node
			s.alive(node.id).crash(false)
			for end := time.Now().Add(away); time.Now().Before(end); pass(time.Second) {
				s.grant(leader, "s")
			}
			l := node.boot()
			<-l.started
			begun := time.Now()
			s.await("it has caught up", 20*time.Second, func() bool {
				return l.Fingerprint() == leader.Fingerprint()
			})
			if took := time.Since(begun); took > 2*testHeartbeat {
				t.Errorf("after a downtime of %v, catching up took %v, want at most 2 heartbeats", away, took)
			}
		})
	}
}

// TestIsolatedLeaderHoldsNoEntries checks that a leader releases the entries that it holds for unreachable followers,
// both when another node replaces it and when it is closed.
func TestIsolatedLeaderHoldsNoEntries(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		old := s.leader()
		s.isolate(old.node.id)
		next := s.newLeader(old)
		s.grant(next, "s")
		pass(5 * time.Second)
		s.converge()
		others := s.followers(next)
		for _, l := range others {
			l.crash(false)
		}
		pass(testHeartbeat / 2) // next is closed while it is the leader and its heartbeats fail
	})
}

// TestHeartbeat_Checked checks that the round trip of the first heartbeat does not include the rejoin check.
func TestHeartbeat_Checked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(soloConfig("n1"))
		c := n.leader.tracker
		c.Transport = &quiet{}
		refused := errors.New("refused")
		c.check = func(string) error { pass(time.Minute); return refused }
		args, resp := &raft.AppendEntriesRequest{Term: 1}, &raft.AppendEntriesResponse{}
		if err := c.AppendEntries("n2", "n2", args, resp); err != refused || c.roundTrips.status().Answered > 0 {
			t.Errorf("heartbeat to a node that the check rejects: error %v, round trips %+v; want the error of the check, and no round trip", err, c.roundTrips.status())
		}
		c.check = func(string) error { pass(time.Minute); return nil }
		if err := c.AppendEntries("n2", "n2", args, resp); err != nil {
			t.Fatal(err)
		}
		if got := c.roundTrips.status(); got.Answered != 1 || got.Longest != 0 || got.Slow != 0 {
			t.Errorf("round trips %+v, want one, without the time of the check", got)
		}
	})
}

// quiet is a transport that sends nothing. AppendEntries counts the entries, and returns the error in the fail field.
type quiet struct {
	raft.Transport
	raft.WithPreVote
	fail error
	sent int // number of entries passed to AppendEntries
	last uint64
}

func (q *quiet) AppendEntries(_ raft.ServerID, _ raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	q.sent += len(args.Entries)
	*resp = raft.AppendEntriesResponse{LastLog: q.last, Success: true}
	return q.fail
}

// through returns a tracker that wraps q.
func (q *quiet) through(ended <-chan struct{}) *tracker {
	c := &tracker{Transport: q, check: func(string) error { return nil }, ended: ended, now: NewClock().monotonic, progress: map[raft.ServerID]*progress{}, acknowledged: newNodeRecords().acknowledged,
		roundTrips: &roundTrips{log: slog.New(slog.DiscardHandler)}, timeout: func() time.Duration { return testHeartbeat }}
	c.mayHold = func(raft.ServerID) (<-chan struct{}, bool) { return nil, true }
	return c
}

// send sends a request to a node.
func (t *tracker) send(id raft.ServerID, args *raft.AppendEntriesRequest) error {
	return t.AppendEntries(id, "", args, &raft.AppendEntriesResponse{})
}

func TestEntriesWaitForHeartbeats(t *testing.T) {
	heartbeat := &raft.AppendEntriesRequest{Term: 1}
	entries := &raft.AppendEntriesRequest{Term: 1, PrevLogEntry: 1, PrevLogTerm: 1, Entries: []*raft.Log{{}}}
	for _, tt := range []struct {
		name    string
		release func(q *quiet, c *tracker, changed, ended chan struct{}, wanted *bool)
	}{
		{"the node answers", func(q *quiet, c *tracker, _, _ chan struct{}, _ *bool) {
			q.fail = nil
			if err := c.send("n2", heartbeat); err != nil {
				t.Error(err)
			}
		}},
		{"this node does not lead any more", func(_ *quiet, _ *tracker, changed, _ chan struct{}, wanted *bool) {
			*wanted = false
			close(changed)
		}},
		{"this node is closed", func(_ *quiet, _ *tracker, _, ended chan struct{}, _ *bool) { close(ended) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				wanted, changed, ended := true, make(chan struct{}), make(chan struct{})
				q := &quiet{fail: errors.New("down")}
				c := q.through(ended)
				c.mayHold = func(raft.ServerID) (<-chan struct{}, bool) { return changed, wanted }
				for range 2 {
					if err := c.send("n2", heartbeat); err == nil {
						t.Error("a heartbeat that the transport rejects returned no error")
					}
				}
				sent := make(chan error, 1)
				go func() { sent <- c.send("n2", entries) }()
				if err := c.send("n3", entries); err == nil || q.sent != 1 {
					t.Errorf("entries to another node: error %v, %d entries sent; want an error, and 1 entry", err, q.sent)
				}
				later := *entries
				later.Term++
				if err := c.send("n2", &later); err == nil || q.sent != 2 {
					t.Errorf("entries in a later term: error %v, %d entries sent; want an error, and 2 entries", err, q.sent)
				}
				synctest.Wait()
				if q.sent != 2 {
					t.Error("entries were sent to a node that does not answer heartbeats")
				}
				tt.release(q, c, changed, ended, &wanted)
				if err := <-sent; err != q.fail || q.sent != 3 {
					t.Errorf("entries that were held: error %v, %d entries sent in total; want the error of the transport, and 3", err, q.sent)
				}
			})
		})
	}
}

// TestProgress checks that responses from a follower count only in their own term, and that they set the progress of
// the follower.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &quiet{fail: errors.New("down"), last: 7}
		c := q.through(nil)
		expect := func(what string, term uint64, want topology.Follower) {
			t.Helper()
			want.ID = "n2"
			if got := c.follower("n2", term, testHeartbeat); got != want {
				t.Errorf("%s: progress %+v, want %+v", what, got, want)
			}
		}
		send := func(term uint64, entries ...*raft.Log) {
			args := &raft.AppendEntriesRequest{Term: term, Entries: entries}
			if err := c.send("n2", args); err != q.fail {
				t.Errorf("AppendEntries returned %v, want %v", err, q.fail)
			}
		}
		expect("nothing was sent", 3, topology.Follower{})
		send(3)
		expect("no answer", 3, topology.Follower{})
		q.fail = nil
		send(3)
		expect("an answer", 3, topology.Follower{Answers: true, Last: 7})
		send(3, &raft.Log{Index: 8}, &raft.Log{Index: 9})
		expect("entries", 3, topology.Follower{Answers: true, Last: 9})
		pass(testHeartbeat)
		expect("silent for one heartbeat", 3, topology.Follower{Answers: true, Last: 9, Silent: testHeartbeat})
		pass(1)
		expect("silent for longer than one heartbeat", 3, topology.Follower{Last: 9, Silent: testHeartbeat + 1})
		q.last = 8
		send(3)
		expect("it has discarded an entry", 3, topology.Follower{Answers: true, Last: 8})
		pass(time.Millisecond)
		q.fail = errors.New("down")
		send(3)
		expect("a heartbeat has failed", 3, topology.Follower{Last: 8, Silent: time.Millisecond})
		q.fail = nil
		send(4)
		expect("a later term", 4, topology.Follower{Answers: true, Last: 8})
		expect("the previous term", 3, topology.Follower{})
		q.last = 5
		send(3)
		q.fail = errors.New("down")
		send(3)
		expect("a late answer and a late failure", 4, topology.Follower{Answers: true, Last: 8})
	})
}

// TestFollowers checks the progress of a follower that is killed, isolated or paused, and that only the leader has the
// progress of the followers.
func TestFollowers(t *testing.T) {
	for _, fault := range []struct {
		name string
		do   func(*sim, *process)
	}{
		{"killed", func(_ *sim, l *process) { l.crash(false) }},
		{"isolated", func(s *sim, l *process) { s.isolate(l.node.id) }},
		{"paused", func(_ *sim, l *process) { l.pause() }},
	} {
		t.Run(fault.name, func(t *testing.T) {
			simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
				leader := s.leader()
				others := s.followers(leader)
				away, there := others[0].node.id, others[1].node.id
				look := func(id string) topology.Follower {
					status := leader.Status()
					if len(status.Followers) != 2 {
						t.Fatalf("the leader does not have the progress of two followers: %+v", status.Followers)
					}
					return *status.Follower(id)
				}
				even := func(id string) func() bool {
					return func() bool { f := look(id); return f.Answers && f.Last == leader.Status().Last }
				}
				s.await("it answers, and has all entries", testHeartbeat, even(away))
				before := look(away).Last
				fault.do(s, others[0])
				s.await("it does not answer", 2*testHeartbeat, func() bool { return !look(away).Answers })
				for range 40 {
					s.grant(leader, "s")
					pass(10 * time.Millisecond)
				}
				if f := look(away); f.Answers || f.Last != before || f.Silent < 400*time.Millisecond {
					t.Errorf("progress of the follower with the fault: %+v; want no answers, and %d as the newest entry, as before the fault", f, before)
				}
				if f := look(there); !f.Answers || f.Last < before+40 || f.Silent > testHeartbeat {
					t.Errorf("progress of the other follower: %+v; want answers, and at least 40 entries more than entry %d", f, before)
				}
				s.converge()
				if s.leader() != leader {
					t.Fatal("the leader has changed during the fault of a follower")
				}
				s.await("it answers again, and has all entries", 2*testHeartbeat, even(away))
				for _, l := range s.followers(leader) {
					if f := l.Status().Followers; f != nil {
						t.Errorf("a follower returned progress of other nodes: %+v, want nil", f)
					}
				}
			})
		})
	}
}

// TestFollowersOfNewLeader checks that a follower that has not responded to a new leader does not count as answering.
func TestFollowersOfNewLeader(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		old := s.leader()
		old.crash(false)
		next := s.newLeader(old)
		look := func(id string) *topology.Follower {
			status := next.Status()
			return status.Follower(id)
		}
		check := func() {
			t.Helper()
			if f := look(old.node.id); f == nil || *f != (topology.Follower{ID: old.node.id}) {
				t.Errorf("progress of the old leader, which has not responded: %+v, want only its id", f)
			}
		}
		check() // before the first heartbeat fails
		third := s.followers(next)[0].node.id
		if f := look(third); f == nil || !f.Answers || f.Last == 0 {
			t.Errorf("progress of the voter that has elected the new leader: %+v; want answers, and a newest entry", f)
		}
		pass(2 * testHeartbeat)
		check()
	})
}
