package cluster

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/acl"
	"github.com/throttledhq/throttled/topology"
)

// TestUsersAfterUnknownOutcome changes a version while an earlier change of it, whose outcome is unknown, is committed.
func TestUsersAfterUnknownOutcome(t *testing.T) {
	simulate(t, simConfig{size: 3, latency: 2 * time.Millisecond}, func(t *testing.T, s *sim) {
		leader := s.leader()
		base := s.setUsers(leader, "base")
		short, cancel := context.WithTimeout(t.Context(), time.Microsecond) // much less than a commit takes
		defer cancel()
		if _, err := leader.ProposeUsers(short, base, "first"); !errors.Is(err, topology.ErrUsersUnknown) {
			t.Errorf("a change that is not committed in time: error %v, want %v", err, topology.ErrUsersUnknown)
		}
		newest, err := leader.ProposeUsers(t.Context(), base, "second")
		if !errors.Is(err, topology.ErrUsersChanged) || leader.fsm.users.text != "first" || newest != leader.fsm.users.Number {
			t.Errorf("the next change returned %d and the error %v, want %v; the users are %q", newest, err, topology.ErrUsersChanged, leader.fsm.users.text)
		}
		s.converge()
		s.awaitUsers(newest)
	})
}

// TestVoidUsers appends entries to the log whose base is not the newest version. They change nothing.
func TestVoidUsers(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		leader := s.leader()
		version := s.setUsers(leader, "text")
		for _, base := range []uint64{0, version - 1, version + 1} {
			f, err := leader.Node.users.submit(t.Context(), leader.leaderships.current(), usersEntryOf(base, "void"))
			if err != nil || f.Response() != version {
				t.Errorf("base %d: future %v, error %v; want the response %d", base, f, err, version)
			}
		}
		s.converge()
		s.checkUsers(version, "text")
	})
}

// TestOutcomeOfUsers loses proposals, and checks whether the outcome is reported as unknown.
func TestOutcomeOfUsers(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		leader := s.leader()
		first := s.setUsers(leader, "first")
		late, cancel := context.WithTimeout(t.Context(), -1)
		defer cancel()
		if _, err := leader.ProposeUsers(late, first, "late"); !errors.Is(err, topology.ErrUnchanged) {
			t.Errorf("a change after its deadline: error %v, want %v", err, topology.ErrUnchanged)
		}
		follower := s.followers(leader)[0]
		lose := func(from, to *process, text string) {
			t.Helper()
			s.cut(from.node.id, to.node.id)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			base := from.users.active().Number
			if _, err := follower.ProposeUsers(ctx, base, text); !errors.Is(err, topology.ErrUsersUnknown) {
				t.Errorf("a change by a follower, with messages from %s to %s lost: error %v, want %v", from.node.id, to.node.id, err, topology.ErrUsersUnknown)
			}
			s.heal()
		}
		lose(follower, leader, "question lost")
		s.converge()
		s.checkUsers(first, "first")
		lose(leader, follower, "answer lost")
		s.await("the change is active", 10*time.Second, func() bool { return s.leader().users.active().text == "answer lost" })
		s.converge()
		s.awaitUsers(s.leader().users.active().Number)
		old := s.leader()
		s.isolate(old.node.id)
		short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if _, err := old.ProposeUsers(short, old.users.active().Number, "not committed"); !errors.Is(err, topology.ErrUsersUnknown) {
			t.Errorf("a change by an isolated leader: error %v, want %v", err, topology.ErrUsersUnknown)
		}
		version := s.setUsers(s.newLeader(old), "committed")
		s.converge()
		s.awaitUsers(version)
		s.checkUsers(version, "committed")
	})
}

// TestUsersWhileMemberIsSilent changes the users while a member is paused. The change is acknowledged after a limited
// time, and the member uses it later.
func TestUsersWhileMemberIsSilent(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		s.setUsers(s.leader(), "first")
		paused := s.followers(s.leader())[0]
		paused.pause()
		begun := time.Now()
		version := s.setUsers(s.leader(), "second")
		if took := time.Since(begun); took < answerWithin || took > 2*answerWithin {
			t.Errorf("the change took %v, want about %v", took, answerWithin)
		}
		paused.resume()
		s.converge()
		s.awaitUsers(version)
	})
}

// TestUsersThatANodeDoesNotKnow changes the users to a text that is not valid on one node. This node keeps its users, and
// uses the next valid ones.
func TestUsersThatANodeDoesNotKnow(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		leader := s.leader()
		old := s.followers(leader)[0]
		old.users.refuse("new")
		first := s.setUsers(leader, "first")
		s.setUsers(leader, "new")
		if v := old.users.active(); v.Number != first || leader.users.active().text != "new" {
			t.Errorf("the node that does not know the users has version %+v, want %d", v, first)
		}
		old.crash(false)
		restarted := old.node.boot()
		restarted.users.refuse("new")
		<-restarted.started
		s.converge()
		if v := restarted.users.active(); v.text != "first" {
			t.Errorf("after a restart, the node has version %+v, want %d", v, first)
		}
		version := s.setUsers(s.leader(), "third")
		s.awaitUsers(version)
	})
}

// TestUsersOverAStream sends a proposal to the leader over a stream.
func TestUsersOverAStream(t *testing.T) {
	n := startSolo(t, soloConfig("n1"))
	defer closeSolo(t, n)
	ask := func(base uint64, text string) Answer {
		near, far := net.Pipe()
		served := make(chan error, 1)
		go func() { served <- n.control.serveOne(far) }()
		a, err := askOver(t.Context(), near, Question{About: topicProposeUsers, Users: base, Size: len(text), body: []byte(text)})
		if err := errors.Join(err, <-served); err != nil {
			t.Error(err)
		}
		return a
	}
	a := ask(0, strings.Repeat("x", acl.MaxText))
	if a.Error != "" || a.Users == nil || a.Users.Version == 0 || a.Users.Problem != "" {
		t.Fatalf("the answer is %+v, want a version", a)
	}
	if b := ask(0, "other"); b.Users == nil || usersProblems[b.Users.Problem] != topology.ErrUsersChanged || b.Users.Version != a.Users.Version {
		t.Errorf("the answer to a change of version 0 is %+v, want a conflict with version %d", b, a.Users.Version)
	}
	if v, _ := n.fsm.newestUsers(); v.Number != a.Users.Version || v.Size != acl.MaxText {
		t.Errorf("the newest version is %d of %d bytes, want %d", v.Number, v.Size, a.Users.Version)
	}
}

// TestUsersErrorsOfLeader asks nodes that are not the leader any more, or whose proposal fails. The sentinels of the errors
// are kept.
func TestUsersErrorsOfLeader(t *testing.T) {
	for _, want := range []error{topology.ErrUsersChanged, topology.ErrUsersUnknown, topology.ErrUnchanged, topology.ErrNoUsers, topology.ErrNoLeader} {
		r, c := newAnswerRig()
		r.takesPart, r.decides, r.err = true, true, want
		p := usersProposals{proposer: proposer{document: "users", leaderships: newLeaderships(), peers: &peerClient{
			peers: replies{c}, members: viewOf{{ID: "n1", Raft: "h1:1"}, {ID: "n2", Raft: "h2:1"}},
		}}}
		if _, err := p.ProposeUsers(t.Context(), 7, "text"); !errors.Is(err, want) || err.Error() != want.Error() {
			t.Errorf("the error of the leader was %v, and the follower returned %v", want, err)
		}
	}
}

// replies answers questions by a control.
type replies struct{ *control }

func (r replies) Ask(ctx context.Context, _ topology.Member, q Question) (Answer, error) {
	return r.reply(ctx, q), nil
}

func (replies) Dial(context.Context, topology.Member) (net.Conn, error) { return nil, net.ErrClosed }

// viewOf is the members of a cluster, in which the first one is the leader and the last one asks.
type viewOf []topology.Member

func (v viewOf) View() *topology.View {
	return &topology.View{Self: v[len(v)-1].ID, Leader: v[0].ID, Members: v}
}

func (v viewOf) member(string) *topology.Member { return nil }
