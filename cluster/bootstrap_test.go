package cluster

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/topology"
)

// joined adds a node to a cluster, and waits until it is a voter.
func (s *sim) joined(id string) *simNode {
	s.t.Helper()
	n := s.add(id)
	for _, other := range s.list() {
		if other != n {
			n.join = append(n.join, other.id)
		}
	}
	n.boot()
	s.await(id+" votes", 10*time.Second, func() bool {
		m := s.leader().observer.find(id)
		return m != nil && m.Voter && s.leader().announcement(id).Incarnation != ""
	})
	return n
}

// wipe deletes the data of a node that is down.
func (n *simNode) wipe() {
	disk := newDisk()
	disk.stored, disk.slow = n.disk.stored, n.disk.slow
	n.disk, n.incarnation = disk, "another of "+n.id
}

// down stops the process of a node.
func (n *simNode) down() {
	if l := n.sim.alive(n.id); l != nil {
		l.crash(false)
	}
}

// ends waits until Start has returned, and returns its error.
func (p *process) ends(t *testing.T, within time.Duration) error {
	t.Helper()
	select {
	case <-p.started:
		return p.err
	case <-time.After(within):
		t.Fatalf("%s: Start has not returned in time", p.node.id)
		return nil
	}
}

// TestUsedID checks that a node that has lost its data is rejected under its old id: first a node of the bootstrapped
// cluster, then a node that has joined.
func TestUsedID(t *testing.T) {
	for _, id := range []string{"n2", "n4"} { // n2 was bootstrapped, n4 has joined
		simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
			s.joined("n4")
			s.await("the node is announced", 5*time.Second, func() bool { return s.leader().announcement(id).Incarnation != "" })
			n := s.list()[id[1]-'1']
			n.down()
			n.wipe()
			l := n.boot()
			if err := l.ends(t, 20*time.Second); !errors.Is(err, ErrUsed) {
				t.Errorf("start of %s without its data: %v, want ErrUsed", id, err)
			}
			if l.raft.started() {
				t.Errorf("Raft was started on %s, which should have been rejected", id)
			}
			l.crash(true)
			s.grant(s.leader(), "s")
		})
	}
}

// TestForgottenVote stops the leader, and then starts two nodes: one that lacks the last charge, and n3, which has
// lost its data. n3 must not start Raft: with its vote, the node that lacks the charge could become the leader. n3
// must be rejected when the old leader is up again.
func TestForgottenVote(t *testing.T) {
	simulate(t, simConfig{size: 2}, func(t *testing.T, s *sim) {
		n3 := s.joined("n3")
		if s.leader().node == n3 {
			if err := s.leader().Transfer(t.Context(), "n1"); err != nil {
				t.Fatal(err)
			}
		}
		s.await("a node other than n3 leads", 5*time.Second, func() bool { return s.leading() != nil && s.leading().node != n3 })
		leader := s.leader()
		stale := s.list()[0]
		if stale == leader.node {
			stale = s.list()[1]
		}
		stale.down()
		left := s.grant(leader, "s")
		leader.crash(false)
		n3.down()
		n3.wipe()
		stale.boot()
		l := n3.boot()
		pass(20 * time.Second)
		if s.leading() != nil || l.raft.started() {
			t.Fatalf("without the old leader, a node leads, or Raft was started on n3, which has lost its data: %s", s.describe())
		}
		leader.node.boot()
		if err := l.ends(t, 20*time.Second); !errors.Is(err, ErrUsed) {
			t.Errorf("start of n3 without its data: %v, want ErrUsed", err)
		}
		l.crash(true)
		if got := s.remaining(s.leader(), "s"); got != left {
			t.Errorf("%d units remain, want %d as after the last charge", got, left)
		}
	})
}

// TestJoinAgain checks that a node can join again if it was admitted before, but was stopped before it received the
// answer or any other message.
func TestJoinAgain(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		n := s.add("n4")
		n.join = []string{"unreachable", "n1", "n2", "n3"}
		s.cut("n1", "n4")
		s.cut("n2", "n4")
		s.cut("n3", "n4")
		n.boot()
		s.await("n4 is admitted", 20*time.Second, func() bool { return s.leader().announcement("n4").Incarnation != "" })
		n.down()
		s.heal()
		n.boot()
		s.await("n4 votes", 20*time.Second, func() bool {
			m := s.leader().observer.find("n4")
			return m != nil && m.Voter
		})
		s.converge()
	})
}

// TestAddUsedID checks that a member that was started with a different data directory is not promoted to a voter, and
// exits when it receives the log.
func TestAddUsedID(t *testing.T) {
	var why chan error // created in the simulation: fake time stops during a wait for a channel created outside
	c := simConfig{size: 3, unexpected: func(id string, err error) bool {
		why <- err
		return id != "n4"
	}}
	simulate(t, c, func(t *testing.T, s *sim) {
		why = make(chan error, 1)
		n := s.joined("n4")
		leader := s.leader()
		n.down()
		if err := leader.members.promote(t.Context(), &Question{Node: &Announcement{ID: "n4", Incarnation: "another"}}); !errors.Is(err, ErrUsed) {
			t.Errorf("promotion of a node with a different data directory: %v, want ErrUsed", err)
		}
		n.wipe()
		n.join = nil // n4 does not ask to join; it receives the log, because it is still a member
		n.boot()
		select {
		case err := <-why:
			if !errors.Is(err, ErrUsed) {
				t.Errorf("a node exited with the error %v; want an exit of n4 with ErrUsed", err)
			}
		case <-time.After(20 * time.Second):
			t.Error("n4, which has lost its data, did not exit within 20s")
		}
	})
}

// TestOneIDTwice appends two announcements with the same id, as if two nodes were started under that id at the same
// time. The announcement that is appended first must be accepted.
func TestOneIDTwice(t *testing.T) {
	simulate(t, simConfig{size: 1}, func(t *testing.T, s *sim) {
		leader := s.leader()
		for _, incarnation := range []string{"first", "second"} {
			entry, err := (&Announcement{ID: "n9", Incarnation: incarnation, Host: incarnation}).entry()
			if err != nil {
				t.Fatal(err)
			}
			if err := leader.raft.Apply(entry, time.Second).Error(); err != nil {
				t.Fatal(err)
			}
		}
		if got := leader.announcement("n9").Incarnation; got != "first" {
			t.Errorf("the incarnation of n9 is %s, want first", got)
		}
	})
}

// TestJoinAtTakenAddress checks that a node cannot join or be added with the address of another node.
func TestJoinAtTakenAddress(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		q := Question{About: topicJoin, Node: &Announcement{ID: "n9", Incarnation: "x"}, Raft: "n2"}
		for name, err := range map[string]error{
			"join": s.leader().members.admit(t.Context(), &q),
			"add":  s.leader().Add(t.Context(), "n9", "n2"),
		} {
			if !errors.Is(err, topology.ErrMember) || !strings.Contains(err.Error(), "the address of n2") {
				t.Errorf("%s with the address of n2: %v, want ErrMember with the text 'the address of n2'", name, err)
			}
		}
	})
}
