package cluster

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/topology"
)

// joined adds a node to a cluster, and waits until it votes.
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
		m := s.leader().find(id)
		return m != nil && m.Voter && s.leader().incarnation(id) != ""
	})
	return n
}

// wipe has a node that is down lose its data.
func (n *simNode) wipe() {
	disk := newDisk()
	disk.stored, disk.slow = n.disk.stored, n.disk.slow
	n.disk, n.incarnation = disk, "another of "+n.id
}

// down ends the process of a node.
func (n *simNode) down() {
	if l := n.sim.alive(n.id); l != nil {
		l.crash(false)
	}
}

// ends waits until a process does not start, and returns why.
func (l *life) ends(t *testing.T, within time.Duration) error {
	t.Helper()
	select {
	case <-l.started:
		return l.err
	case <-time.After(within):
		t.Fatalf("%s neither starts nor ends", l.node.id)
		return nil
	}
}

// A node that has lost its data is turned away under its old id, however it was to come to the cluster.
func TestUsedID(t *testing.T) {
	for _, id := range []string{"n2", "n4"} { // one that began with the cluster, and one that has joined
		simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
			s.joined("n4")
			s.await("all are known", 5*time.Second, func() bool { return s.leader().incarnation(id) != "" })
			n := s.list()[id[1]-'1']
			n.down()
			n.wipe()
			l := n.boot()
			if err := l.ends(t, 20*time.Second); !errors.Is(err, ErrUsed) {
				t.Errorf("%s comes back without its data: %v", id, err)
			}
			if l.begun() {
				t.Errorf("%s takes part", id)
			}
			l.crash(true)
			s.grant(s.leader(), "s")
		})
	}
}

// Without a leader nobody can tell whether a node has been there. Until there is one it does not take part:
// by its vote a node would lead that has not heard of the last charges.
func TestForgottenVote(t *testing.T) {
	simulate(t, simConfig{size: 2}, func(t *testing.T, s *sim) {
		n3 := s.joined("n3")
		if s.leader().node == n3 {
			if err := s.leader().Transfer(t.Context(), "n1"); err != nil {
				t.Fatal(err)
			}
		}
		s.await("another than n3 leads", 5*time.Second, func() bool { return s.leading() != nil && s.leading().node != n3 })
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
		if s.leading() != nil || l.begun() {
			t.Fatalf("a node that has forgotten everything takes part: %s", s.describe())
		}
		leader.node.boot()
		if err := l.ends(t, 20*time.Second); !errors.Is(err, ErrUsed) {
			t.Errorf("it is let in: %v", err)
		}
		l.crash(true)
		if got := s.left(s.leader(), "s"); got != left {
			t.Errorf("%d left, %d were when the last charge was acknowledged", got, left)
		}
	})
}

// A node that was admitted and ended before it heard of anything is admitted again.
func TestJoinAgain(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		n := s.add("n4")
		n.join = []string{"nobody", "n1", "n2", "n3"}
		s.cut("n1", "n4")
		s.cut("n2", "n4")
		s.cut("n3", "n4")
		n.boot()
		s.await("n4 is admitted", 20*time.Second, func() bool { return s.leader().incarnation("n4") != "" })
		n.down()
		s.heal()
		n.boot()
		s.await("n4 votes", 20*time.Second, func() bool {
			m := s.leader().find("n4")
			return m != nil && m.Voter
		})
		s.converge()
	})
}

// A node that was added under an id which the cluster has known with other data ends, as it never gets a vote.
func TestAddUsedID(t *testing.T) {
	var why chan error // of the simulation, whose time stands still until it is heard
	c := simConfig{size: 3, unexpected: func(id string, err error) bool {
		why <- err
		return id != "n4"
	}}
	simulate(t, c, func(t *testing.T, s *sim) {
		why = make(chan error, 1)
		n := s.joined("n4")
		leader := s.leader()
		n.down()
		if err := leader.promote(t.Context(), &Question{Node: &Announcement{ID: "n4", Incarnation: "another"}}); !errors.Is(err, ErrUsed) {
			t.Errorf("another gets its vote: %v", err)
		}
		n.wipe()
		n.join = nil // as Raft alone would have it
		n.boot()
		select {
		case err := <-why:
			if !errors.Is(err, ErrUsed) {
				t.Errorf("it ends by %v", err)
			}
		case <-time.After(20 * time.Second):
			t.Error("it goes on")
		}
	})
}

// Where two nodes are started under one id at the same moment, the one whose announcement comes first is it.
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
		if got := leader.incarnation("n9"); got != "first" {
			t.Errorf("n9 is the %s", got)
		}
	})
}

// A node does not get the address of another.
func TestJoinAtTakenAddress(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		q := Question{About: aboutJoining, Node: &Announcement{ID: "n9", Incarnation: "x"}, Raft: "n2"}
		for name, err := range map[string]error{
			"join": s.leader().admit(t.Context(), &q),
			"add":  s.leader().Add(t.Context(), "n9", "n2"),
		} {
			if !errors.Is(err, topology.ErrMember) || !strings.Contains(err.Error(), "where n2 is") {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
