package cluster

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// A node that comes back has caught up soon, however long it was away.
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
				t.Errorf("away for %v, it has caught up after %v", away, took)
			}
		})
	}
}

// A leader that is cut off does not go on to send when it has been replaced, nor when it ends.
func TestWaitsForNobodyInVain(t *testing.T) {
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
		pass(testHeartbeat / 2) // the leader still leads, and its heartbeats fail
	})
}

// quiet is a transport of which heartbeats fail at will.
type quiet struct {
	raft.Transport
	raft.WithPreVote
	fail error
	sent int // entries
}

func (q *quiet) AppendEntries(_ raft.ServerID, _ raft.ServerAddress, args *raft.AppendEntriesRequest, _ *raft.AppendEntriesResponse) error {
	q.sent += len(args.Entries)
	return q.fail
}

func TestEntriesWaitForHeartbeats(t *testing.T) {
	heartbeat := &raft.AppendEntriesRequest{Term: 1}
	entries := &raft.AppendEntriesRequest{Term: 1, PrevLogEntry: 1, PrevLogTerm: 1, Entries: []*raft.Log{{}}}
	for _, tt := range []struct {
		name    string
		release func(q *quiet, c *catchUp, changed, ended chan struct{}, wanted *bool)
	}{
		{"the node answers", func(q *quiet, c *catchUp, _, _ chan struct{}, _ *bool) {
			q.fail = nil
			if err := c.AppendEntries("n2", "", heartbeat, nil); err != nil {
				t.Error(err)
			}
		}},
		{"this node leads no more", func(_ *quiet, _ *catchUp, changed, _ chan struct{}, wanted *bool) {
			*wanted = false
			close(changed)
		}},
		{"this node ends", func(_ *quiet, _ *catchUp, _, ended chan struct{}, _ *bool) { close(ended) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				wanted, changed, ended := true, make(chan struct{}), make(chan struct{})
				q := &quiet{fail: errors.New("down")}
				c := &catchUp{Transport: q, WithPreVote: q, ended: ended, silent: map[raft.ServerID]silence{}}
				c.wanted = func(raft.ServerID) (<-chan struct{}, bool) { return changed, wanted }
				for range 2 {
					if err := c.AppendEntries("n2", "", heartbeat, nil); err == nil {
						t.Error("the heartbeat did not fail")
					}
				}
				sent := make(chan error, 1)
				go func() { sent <- c.AppendEntries("n2", "", entries, nil) }()
				if err := c.AppendEntries("n3", "", entries, nil); err == nil || q.sent != 1 {
					t.Errorf("to another: %v, %d sent", err, q.sent)
				}
				later := *entries
				later.Term++
				if err := c.AppendEntries("n2", "", &later, nil); err == nil || q.sent != 2 {
					t.Errorf("in a later term: %v, %d sent", err, q.sent)
				}
				synctest.Wait()
				if q.sent != 2 {
					t.Error("entries are sent to a node that does not answer")
				}
				tt.release(q, c, changed, ended, &wanted)
				if err := <-sent; err != q.fail || q.sent != 3 {
					t.Errorf("%v, %d sent", err, q.sent)
				}
			})
		})
	}
}
