package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/cluster/transport"
	"github.com/throttledhq/throttled/topology"
)

// asked is strangers whose inquiries a test answers, on a clock that it moves.
type asked struct {
	*strangers
	at  time.Duration
	ids []string
}

func newAsked() *asked {
	a := &asked{}
	a.strangers = &strangers{ask: func(id string) { a.ids = append(a.ids, id) }, now: func() time.Duration { return a.at }, known: map[string]*stranger{}}
	return a
}

func (a *asked) expect(t *testing.T, id, addr string, inquiries int) {
	t.Helper()
	if got := a.confirmed(id); got != addr || len(a.ids) != inquiries {
		t.Errorf("at %v %s is at %q after %d inquiries, want %q after %d", a.at, id, got, len(a.ids), addr, inquiries)
	}
}

func TestStrangers(t *testing.T) {
	a := newAsked()
	a.expect(t, "n4", "", 1)
	a.expect(t, "n4", "", 1) // one at a time
	a.settle("n4", "")
	a.expect(t, "n4", "", 1)
	a.at += refusedFor
	a.expect(t, "n4", "", 2)
	a.settle("n4", "host:1")
	a.expect(t, "n4", "host:1", 2)
	a.at += confirmedFor/2 + 1 // asked again in time
	a.expect(t, "n4", "host:1", 3)
	a.at += confirmedFor / 2
	a.expect(t, "n4", "", 3)
	a.settle("n4", "host:1")
	a.forget()
	a.settle("n4", "host:1") // of an inquiry before that
	a.expect(t, "n4", "", 4)
}

func TestStrangersAreBounded(t *testing.T) {
	a := newAsked()
	for i := range 10 * maxStrangers {
		a.expect(t, fmt.Sprint("n", i), "", min(i+1, maxStrangers))
	}
	a.settle("n0", "")
	a.expect(t, "new", "", maxStrangers)
	a.at += refusedFor
	a.expect(t, "new", "", maxStrangers+1) // in place of n0
}

// answering are Peers that give the answers of a test, by raft address. The others do not answer.
type answering map[string]Answer

func (p answering) Ask(_ context.Context, to topology.Member, _ Question) (Answer, error) {
	if a, ok := p[to.Raft]; ok {
		return a, nil
	}
	return Answer{}, errors.New("connection refused")
}

func (answering) Dial(context.Context, topology.Member) (net.Conn, error) {
	return nil, errors.New("connection refused")
}

// knowing returns a node that has not started and knows some members. It asks peers.
func knowing(peers Peers, fatal func(error), members ...topology.Member) *Node {
	n := New(Config{Clock: NewClock(), Self: Announcement{ID: "n1"}, Join: []string{"join"}, Peers: peers, Fatal: fatal})
	n.view.Store(&shownView{View: topology.View{Self: "n1", Members: members}})
	return n
}

// TestInquire asks the nodes that this one was to join through only if no member that it knows answers.
func TestInquire(t *testing.T) {
	noLeader, confirms := Answer{Error: topology.ErrNoLeader.Error()}, Answer{Member: "n9:1"}
	redirects := Answer{Error: topology.ErrNoLeader.Error(), Leader: "leader"}
	for _, tt := range []struct {
		name  string
		peers answering
		want  string
	}{
		{"a member confirms", answering{"n2": confirms, "n3": noLeader}, "n9:1"},
		{"the leader confirms", answering{"n2": redirects, "leader": confirms}, "n9:1"},
		{"a member refuses", answering{"n2": {}, "join": confirms}, ""},
		{"there is no leader", answering{"n2": noLeader, "join": confirms}, ""},
		{"the leader does not answer", answering{"n2": redirects, "join": confirms}, ""},
		{"no member answers", answering{"join": confirms}, "n9:1"},
		{"no node answers", answering{}, ""},
	} {
		n := knowing(tt.peers, nil, topology.Member{ID: "n1", Raft: "n1"}, topology.Member{ID: "n2", Raft: "n2"}, topology.Member{ID: "n3", Raft: "n3"})
		if got := n.inquire("n9"); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func memberAt(l *transport.Link, id string) topology.Member {
	return topology.Member{ID: id, Raft: addrOf(l)}
}

// TestMembersOnly asks all questions in the name of a node that is no member yet, is one, and is none any more.
func TestMembersOnly(t *testing.T) {
	links := openLinks(t, false, "n1", "n2")
	log, c := &lockedLog{}, soloConfig("n1")
	c.Logger = log.logger()
	n := startSolo(t, c)
	served := make(chan error, 1)
	go func() { served <- n.ServeControl(links[0].Streams(transport.Control)) }()
	defer func() {
		if err := links[0].Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
		closeSolo(t, n)
	}()
	ask := func(about topic) Answer {
		t.Helper()
		who := &Announcement{ID: "n2", Incarnation: "of n2", Host: "127.0.0.2", Port: 2}
		a, err := Over(links[1]).Ask(t.Context(), memberAt(links[0], "n1"), Question{About: about, Node: who, Raft: "127.0.0.1:1"})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	membersOnly := []topic{aboutTime, aboutHeartbeat, aboutSelf, aboutVoting, aboutRemoval, aboutPeer}
	refused := func(when string) {
		t.Helper()
		for _, about := range membersOnly {
			if got := ask(about).Error; !strings.Contains(got, ErrNotMember.Error()) {
				t.Errorf("%s: %s is answered with %q", when, about, got)
			}
		}
		for _, p := range []transport.Purpose{transport.Raft, transport.Client} {
			if n.Allows("n2", p) {
				t.Errorf("%s: it may have a stream for %s", when, p)
			}
		}
	}
	refused("before it joins")
	if a := ask("nonsense"); !strings.Contains(a.Error, errQuestion.Error()) {
		t.Errorf("nonsense is answered with %q", a.Error)
	}
	if a := ask(aboutJoining); a.Error != "" || a.Term == 0 {
		t.Errorf("joining: %+v", a)
	}
	if lines := log.count("has joined and has no vote yet\" node=n2"); lines != 1 {
		t.Errorf("%d lines tell that n2 has joined, want 1", lines)
	}
	for _, about := range membersOnly[:3] {
		if a := ask(about); a.Error != "" {
			t.Errorf("a member asks about %s: %q", about, a.Error)
		}
	}
	if a := ask(aboutPeer); a.Member != "127.0.0.1:1" {
		t.Errorf("a member is at %q", a.Member)
	}
	if !n.Allows("n2", transport.Raft) || !n.Allows("n2", transport.Client) {
		t.Error("a member may not have streams")
	}
	if err := n.Remove(t.Context(), "n2"); err != nil {
		t.Fatal(err)
	}
	refused("after it was removed")
	if a := ask(aboutBeing); a.Error != "" || !a.Removed {
		t.Errorf("whether it was removed: %+v", a)
	}
	if a := ask(aboutJoining); !strings.Contains(a.Error, ErrRemoved.Error()) || !a.Removed || n.find("n2") != nil {
		t.Errorf("joining again: %+v", a)
	}
	if err := n.Add(t.Context(), "n2", "127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	if a := ask(aboutJoining); a.Error != "" {
		t.Errorf("joining after it was added: %q", a.Error)
	}
}
