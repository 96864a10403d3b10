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

// confirmationsRig wraps confirmations. The test sets the clock (at), the members (current) and the results. No member
// is asked. Instead, the field ids records about which nodes the members would be asked.
type confirmationsRig struct {
	*confirmations
	at      time.Duration
	ids     []string
	current []topology.Member
}

func newConfirmationsRig() *confirmationsRig {
	a := &confirmationsRig{}
	a.confirmations = newConfirmations(nil, func() time.Duration { return a.at }, func() []topology.Member { return a.current }, nil)
	a.start = func(id string) { a.ids = append(a.ids, id) }
	return a
}

func (a *confirmationsRig) expect(t *testing.T, id, addr string, inquiries int) {
	t.Helper()
	if got := a.confirmed(id); got != addr || len(a.ids) != inquiries {
		t.Errorf("time %v: confirmed for node %s returned %q after %d inquiries, want %q after %d", a.at, id, got, len(a.ids), addr, inquiries)
	}
}

func TestConfirmations(t *testing.T) {
	a := newConfirmationsRig()
	a.expect(t, "n4", "", 1)
	a.expect(t, "n4", "", 1) // no second inquiry while one is in progress
	a.set("n4", "")
	a.expect(t, "n4", "", 1)
	a.at += unconfirmedFor
	a.expect(t, "n4", "", 2)
	a.set("n4", "host:1")
	a.expect(t, "n4", "host:1", 2)
	a.at += confirmedFor/2 + 1 // the members are asked again before the result expires
	a.expect(t, "n4", "host:1", 3)
	a.at += confirmedFor / 2
	a.expect(t, "n4", "", 3)
	a.set("n4", "host:1")
	a.current = []topology.Member{{ID: "n4"}} // results are dropped if the members change
	a.set("n4", "host:1")                     // result of an inquiry that began before the change; it is dropped
	a.expect(t, "n4", "", 4)
}

func TestConfirmationsAreBounded(t *testing.T) {
	a := newConfirmationsRig()
	for i := range 10 * maxConfirmations {
		a.expect(t, fmt.Sprint("n", i), "", min(i+1, maxConfirmations))
	}
	a.set("n0", "")
	a.expect(t, "new", "", maxConfirmations)
	a.at += unconfirmedFor
	a.expect(t, "new", "", maxConfirmations+1) // the expired result of n0 was dropped
}

// fixedAnswers implements Peers with fixed answers, by raft address. Nodes at other addresses do not answer.
type fixedAnswers map[string]Answer

func (p fixedAnswers) Ask(_ context.Context, to topology.Member, _ Question) (Answer, error) {
	if a, ok := p[to.Raft]; ok {
		return a, nil
	}
	return Answer{}, errors.New("connection refused")
}

func (fixedAnswers) Dial(context.Context, topology.Member) (net.Conn, error) {
	return nil, errors.New("connection refused")
}

// nodeWithMembers returns a node that was not started, with members in its view.
func nodeWithMembers(peers Peers, fatal func(error), members ...topology.Member) *Node {
	n := New(Config{Clock: NewClock(), Self: Announcement{ID: "n1"}, Join: []string{"join"}, Peers: peers, Fatal: fatal})
	n.observer.view.Store(&publishedView{View: topology.View{Self: "n1", Members: members}})
	return n
}

// TestInquire checks that the nodes to join through are asked only if no known member answers.
func TestInquire(t *testing.T) {
	noLeader, confirms := Answer{Error: topology.ErrNoLeader.Error()}, Answer{MemberAddr: "n9:1"}
	redirects := Answer{Error: topology.ErrNoLeader.Error(), LeaderAddr: "leader"}
	for _, tt := range []struct {
		name  string
		peers fixedAnswers
		want  string
	}{
		{"a member confirms", fixedAnswers{"n2": confirms, "n3": noLeader}, "n9:1"},
		{"the leader confirms", fixedAnswers{"n2": redirects, "leader": confirms}, "n9:1"},
		{"a member refuses", fixedAnswers{"n2": {}, "join": confirms}, ""},
		{"there is no leader", fixedAnswers{"n2": noLeader, "join": confirms}, ""},
		{"the leader does not answer", fixedAnswers{"n2": redirects, "join": confirms}, ""},
		{"no member answers", fixedAnswers{"join": confirms}, "n9:1"},
		{"no node answers", fixedAnswers{}, ""},
	} {
		n := nodeWithMembers(tt.peers, nil, topology.Member{ID: "n1", Raft: "n1"}, topology.Member{ID: "n2", Raft: "n2"}, topology.Member{ID: "n3", Raft: "n3"})
		i := &inquirer{view: n.observer, joinAddrs: n.config.Join, peers: n.peers, life: n.life}
		if got := i.inquire("n9"); got != tt.want {
			t.Errorf("%s: inquire returned %q, want %q", tt.name, got, tt.want)
		}
	}
}

func linkMember(l *transport.Link, id string) topology.Member {
	return topology.Member{ID: id, Raft: addrOf(l)}
}

// TestMembersOnly asks questions as a node that is not a member yet, as a member, and as a removed node, and checks
// which questions are answered.
func TestMembersOnly(t *testing.T) {
	links := openLinks(t, false, "n1", "n2")
	log, c := &lockedLog{}, soloConfig("n1")
	c.Logger = log.logger()
	n := startSolo(t, c)
	defer serveControl(t, n, links[0])()
	ask := func(about topic) Answer {
		t.Helper()
		node := &Announcement{ID: "n2", Incarnation: "of n2", Host: "127.0.0.2", Port: 2}
		a, err := Over(links[1]).Ask(t.Context(), linkMember(links[0], "n1"), Question{About: about, Node: node, Raft: "127.0.0.1:1"})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	membersOnly := []topic{topicTime, topicHeartbeat, topicAnnounce, topicVote, topicRemove, topicPeerMembership}
	rejected := func(when string) {
		t.Helper()
		for _, about := range membersOnly {
			if got := ask(about).Error; !strings.Contains(got, ErrNotMember.Error()) {
				t.Errorf("%s: the answer to n2 about %s has error %q, want ErrNotMember", when, about, got)
			}
		}
		for _, p := range []transport.Purpose{transport.Raft, transport.Client} {
			if n.Allows("n2", p) {
				t.Errorf("%s: n2 may open a stream for %s, want no permission", when, p)
			}
		}
	}
	rejected("before it joins")
	if a := ask("nonsense"); !strings.Contains(a.Error, errQuestion.Error()) {
		t.Errorf("unknown topic: error %q, want errQuestion", a.Error)
	}
	if a := ask(topicJoin); a.Error != "" || a.Term == 0 {
		t.Errorf("n2 joins: the answer is %+v, want a term and no error", a)
	}
	if lines := log.count("has joined and has no vote yet\" node=n2"); lines != 1 {
		t.Errorf("%d log lines report that n2 has joined, want 1", lines)
	}
	for _, about := range membersOnly[:3] {
		if a := ask(about); a.Error != "" {
			t.Errorf("n2 is a member and asks about %s: error %q, want none", about, a.Error)
		}
	}
	if a := ask(topicPeerMembership); a.MemberAddr != "127.0.0.1:1" {
		t.Errorf("n2 is a member and asks about its address: raft address %q, want 127.0.0.1:1", a.MemberAddr)
	}
	if !n.Allows("n2", transport.Raft) || !n.Allows("n2", transport.Client) {
		t.Error("n2 is a member, but may not open streams for Raft messages or for forwarded commands")
	}
	if err := n.Remove(t.Context(), "n2"); err != nil {
		t.Fatal(err)
	}
	rejected("after it was removed")
	if a := ask(topicOwnMembership); a.Error != "" || !a.NotMember {
		t.Errorf("n2 was removed and asks whether it is a member: answer %+v, want NotMember", a)
	}
	if a := ask(topicJoin); !strings.Contains(a.Error, ErrRemoved.Error()) || !a.NotMember || n.observer.find("n2") != nil {
		t.Errorf("n2 was removed and asks to join again: answer %+v, want ErrRemoved, and n2 not added", a)
	}
	if err := n.Add(t.Context(), "n2", "127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	if a := ask(topicJoin); a.Error != "" {
		t.Errorf("n2 was removed and then added by an operator, and asks to join: error %q, want none", a.Error)
	}
}
