package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/throttledhq/throttled/ruleset"
	"github.com/throttledhq/throttled/topology"
)

// answerRig implements the dependencies of responder without a node. It records the calls.
type answerRig struct {
	takesPart, decides bool
	view               topology.View
	calls              []string
	err                error // returned by all handlers
}

func (r *answerRig) started() bool        { return r.takesPart }
func (r *answerRig) leads() bool          { return r.decides }
func (r *answerRig) CurrentTerm() uint64  { return 7 }
func (r *answerRig) View() *topology.View { return &r.view }

func (r *answerRig) member(id string) *topology.Member { return r.view.Find(id) }

func (r *answerRig) call(name string) error {
	r.calls = append(r.calls, name)
	return r.err
}

func (r *answerRig) admit(context.Context, *Question) error        { return r.call("admit") }
func (r *answerRig) announce(context.Context, *Announcement) error { return r.call("announce") }
func (r *answerRig) promote(context.Context, *Question) error      { return r.call("promote") }
func (r *answerRig) Remove(_ context.Context, id string) error     { return r.call("remove " + id) }
func (r *answerRig) checkReturn(*Question) error                   { return r.call("return") }
func (r *answerRig) answer(*Announcement, *Answer)                 { _ = r.call("meet") }
func (r *answerRig) recoveryOf() topology.Recovery                 { return "1-0123456789abcdef" }
func (r *answerRig) time() timeAnswer                              { _ = r.call("time"); return timeAnswer{Term: 3} }
func (r *answerRig) heartbeat() heartbeatAnswer {
	_ = r.call("heartbeat")
	return heartbeatAnswer{Version: 4}
}

func (r *answerRig) propose(_ context.Context, p ruleset.Proposal) (ruleset.Result, error) {
	return ruleset.Result{Changed: true}, r.call("propose " + p.Author + " " + p.Text)
}

func (r *answerRig) awaitUsers(_ context.Context, number uint64) error {
	return r.call(fmt.Sprint("await users ", number))
}

func (r *answerRig) proposeUsers(_ context.Context, base uint64, text string) (uint64, error) {
	return 9, r.call(fmt.Sprint("propose users ", base, " ", text))
}

// newAnswerRig returns the control of n1, a member of a cluster in which n2 is the leader.
func newAnswerRig() (*answerRig, *control) {
	r := &answerRig{view: topology.View{
		Self: "n1", Leader: "n2", Members: []topology.Member{{ID: "n1", Raft: "h1:1", Voter: true}, {ID: "n2", Raft: "h2:1", Voter: true}},
	}}
	announced := newAnnouncements()
	announced.set(Announcement{ID: "n2", Incarnation: "of n2"})
	c := &control{
		self: &Announcement{ID: "n1"}, isMember: func(id string) bool { return r.member(id) != nil }, life: newLifetime(),
		log: slog.New(slog.DiscardHandler),
		responder: &responder{
			role: r, members: r, announced: announced, changes: r, handshake: r, returns: r, logTime: r.time, runningHeartbeat: r.heartbeat,
			propose: r.propose, awaitUsers: r.awaitUsers, proposeUsers: r.proposeUsers,
		},
	}
	return r, c
}

// among reports whether a topic is in a list.
func (about topic) among(list ...topic) bool { return slices.Contains(list, about) }

// TestTopics_States asks about all topics in each state of a node: before Raft is started, on a follower, and on the
// leader. It checks whether the node answers or redirects the question.
func TestTopics_States(t *testing.T) {
	for about := range topics {
		byFollowers := about.among(topicHandshake, topicReturn, topicTime, topicHeartbeat, topicRules, topicUsers, topicPeerMembership)
		for _, state := range []struct {
			takesPart, decides, answers bool
		}{{false, false, about == topicHandshake}, {true, false, byFollowers}, {true, true, true}} {
			r, c := newAnswerRig()
			r.takesPart, r.decides = state.takesPart, state.decides
			a := c.reply(t.Context(), Question{About: about, Node: &Announcement{ID: "n2"}, Proposal: &ruleset.Proposal{}})
			if answers := a.Error == ""; answers != state.answers {
				t.Errorf("question about %s in state %+v: error %q, want no error if and only if answers is true", about, state, a.Error)
			}
			if redirects := a.LeaderAddr == "h2:1"; redirects != (state.takesPart && !state.answers) {
				t.Errorf("question about %s in state %+v: redirected to %q; want h2:1 if takesPart is true and answers is false, and '' otherwise", about, state, a.LeaderAddr)
			}
			if a.Node == nil || a.Node.ID != "n1" {
				t.Errorf("question about %s: answered by %+v, want n1", about, a.Node)
			}
		}
		r, c := newAnswerRig()
		r.takesPart, r.decides = true, true
		if a := c.reply(t.Context(), Question{About: about}); (a.Error == errQuestion.Error()) == about.among(topicTime, topicHeartbeat, topicRules, topicUsers, topicProposeUsers) {
			t.Errorf("question about %s without a node and a proposal: error %q; want errQuestion, except about topics that need neither", about, a.Error)
		}
	}
}

// TestTopics_Answers asks a leader about all topics, and checks the calls and the answers.
func TestTopics_Answers(t *testing.T) {
	members := []topology.Member{{ID: "n1", Raft: "h1:1", Voter: true}, {ID: "n2", Raft: "h2:1", Voter: true}}
	joined := Answer{KnownIncarnation: "of n2", Recovery: "1-0123456789abcdef", Term: 7}
	for _, tt := range []struct {
		about topic
		id    string
		call  string // recorded call; "" if there must be none
		want  Answer
	}{
		{topicHandshake, "n2", "meet", Answer{}},
		{topicTime, "n2", "time", Answer{Time: &timeAnswer{Term: 3}}},
		{topicJoin, "n2", "admit", joined},
		{topicAnnounce, "n2", "announce", Answer{}},
		{topicVote, "n2", "promote", Answer{}},
		{topicRemove, "n2", "remove n2", Answer{}},
		{topicReturn, "n2", "return", Answer{Members: members}},
		{topicOwnMembership, "n2", "", Answer{}},
		{topicOwnMembership, "n9", "", Answer{NotMember: true}},
		{topicPeerMembership, "n2", "", Answer{MemberAddr: "h2:1"}},
		{topicPeerMembership, "n9", "", Answer{}},
		{topicHeartbeat, "n2", "heartbeat", Answer{Heartbeat: &heartbeatAnswer{Version: 4}}},
		{topicRules, "n2", "", Answer{}},
		{topicPropose, "n2", "propose ann text", Answer{Rules: &ruleset.Result{Changed: true}}},
		{topicUsers, "n2", "await users 7", Answer{}},
		{topicProposeUsers, "n2", "propose users 7 text", Answer{Users: &usersAnswer{Version: 9}}},
	} {
		r, c := newAnswerRig()
		r.takesPart, r.decides = true, true
		q := Question{About: tt.about, Node: &Announcement{ID: tt.id}, Proposal: &ruleset.Proposal{Author: "ann"}, Users: 7, body: []byte("text")}
		a := c.reply(t.Context(), q)
		if a.Error != "" || a.KnownIncarnation != tt.want.KnownIncarnation || a.Recovery != tt.want.Recovery || a.Term != tt.want.Term || a.NotMember != tt.want.NotMember ||
			a.MemberAddr != tt.want.MemberAddr || !slices.Equal(a.Members, tt.want.Members) {
			t.Errorf("answer about %s of node %s: %+v, want %+v", tt.about, tt.id, a, tt.want)
		}
		if (a.Time == nil) != (tt.want.Time == nil) || a.Time != nil && *a.Time != *tt.want.Time {
			t.Errorf("answer about %s: time %+v, want term 3 for topicTime, and nil otherwise", tt.about, a.Time)
		}
		if (a.Heartbeat == nil) != (tt.want.Heartbeat == nil) || a.Heartbeat != nil && *a.Heartbeat != *tt.want.Heartbeat {
			t.Errorf("answer about %s: heartbeat %+v, want version 4 for topicHeartbeat, and nil otherwise", tt.about, a.Heartbeat)
		}
		if (a.Rules == nil) != (tt.want.Rules == nil) || a.Rules != nil && *a.Rules != *tt.want.Rules {
			t.Errorf("answer about %s: rules %+v, want a result for topicPropose, and nil otherwise", tt.about, a.Rules)
		}
		if (a.Users == nil) != (tt.want.Users == nil) || a.Users != nil && *a.Users != *tt.want.Users {
			t.Errorf("answer about %s: users %+v, want a version for topicProposeUsers, and nil otherwise", tt.about, a.Users)
		}
		if calls := slices.DeleteFunc([]string{tt.call}, func(s string) bool { return s == "" }); !slices.Equal(r.calls, calls) {
			t.Errorf("question about %s: methods called %q, want %q", tt.about, r.calls, calls)
		}
	}
}

// TestTopics_Peers asks as a member and as a node that is not a member, each about itself and about a different node,
// and checks which questions are permitted.
func TestTopics_Peers(t *testing.T) {
	for about := range topics {
		for _, tt := range []struct {
			peer, id string
			want     error
		}{{"n2", "n2", nil}, {"n2", "n1", ErrNotItself}, {"n9", "n9", ErrNotMember}, {"n9", "n1", ErrNotItself}} {
			want := tt.want
			if want == ErrNotItself && about == topicPeerMembership {
				want = map[string]error{"n2": nil, "n9": ErrNotMember}[tt.peer]
			}
			if want == ErrNotMember && about.among(topicHandshake, topicJoin, topicOwnMembership, topicReturn) {
				want = nil
			}
			_, c := newAnswerRig()
			err := c.mayAsk(tt.peer, &Question{About: about, Node: &Announcement{ID: tt.id}})
			if !errors.Is(err, want) {
				t.Errorf("%s asks about %s for node %s: %v, want %v", tt.peer, about, tt.id, err, want)
			}
		}
	}
	_, c := newAnswerRig()
	if a := c.replyTo(t.Context(), "n2", Question{About: "nonsense"}, nil); a.Error != `"nonsense": `+errQuestion.Error() {
		t.Errorf("question about an unknown topic: error %q, want errQuestion", a.Error)
	}
}

// TestTopics_Errors checks how the errors of handlers appear in answers.
func TestTopics_Errors(t *testing.T) {
	r, c := newAnswerRig()
	r.takesPart, r.decides = true, true
	for _, tt := range []struct {
		about topic
		err   error
		want  Answer
	}{
		{topicReturn, staleError("outdated"), Answer{Error: ErrStale.Error(), Stale: "outdated"}},
		{topicJoin, ErrRemoved, Answer{Error: ErrRemoved.Error(), NotMember: true}},
		{topicVote, topology.ErrChanging, Answer{Error: topology.ErrChanging.Error()}},
	} {
		r.err = tt.err
		if a := c.reply(t.Context(), Question{About: tt.about, Node: &Announcement{ID: "n2"}}); a.Error != tt.want.Error || a.Stale != tt.want.Stale || a.NotMember != tt.want.NotMember {
			t.Errorf("question about %s, handler returns %v: answer %+v, want the text of this error, and its field Stale or NotMember", tt.about, tt.err, a)
		}
	}
}

// TestConfirmByFollower checks that a follower confirms only its leader.
func TestConfirmByFollower(t *testing.T) {
	r, c := newAnswerRig()
	r.takesPart = true
	if a := c.reply(t.Context(), Question{About: topicPeerMembership, Node: &Announcement{ID: "n2"}}); a.Error != "" || a.MemberAddr != "h2:1" {
		t.Errorf("question to a follower about its leader: answer %+v, want its address", a)
	}
	if a := c.reply(t.Context(), Question{About: topicPeerMembership, Node: &Announcement{ID: "n1"}}); a.Error != topology.ErrNoLeader.Error() || a.LeaderAddr != "h2:1" {
		t.Errorf("question to a follower about another node: answer %+v, want a redirect", a)
	}
}

// TestBootstrap_Answer checks the answers in the handshake before and after Raft is started.
func TestBootstrap_Answer(t *testing.T) {
	takesPart := false
	b := &bootstrap{started: func() bool { return takesPart }, announced: newAnnouncements(), participants: map[string]Announcement{}}
	ask := func(id, incarnation string) (a Answer) {
		b.answer(&Announcement{ID: id, Incarnation: incarnation}, &a)
		return a
	}
	if a := ask("n2", "first"); a.Begun || a.KnownIncarnation != "first" {
		t.Errorf("answer to a new node: %+v, want its incarnation", a)
	}
	if a := ask("n2", "second"); a.Begun || a.KnownIncarnation != "first" {
		t.Errorf("answer to the same node with other data: %+v, want the first incarnation", a)
	}
	v := topology.View{Members: []topology.Member{{ID: "n2"}}}
	if list := b.unannounced(&v); len(list) != 1 || list[0].Incarnation != "first" {
		t.Errorf("nodes to announce: %+v, want n2 with the first incarnation", list)
	}
	b.announced.set(Announcement{ID: "n2", Incarnation: "announced"})
	takesPart = true
	if a := ask("n2", "second"); !a.Begun || a.KnownIncarnation != "announced" {
		t.Errorf("answer after the announcement: %+v, want the announced incarnation", a)
	}
	if a := ask("n3", "late"); !a.Begun || a.KnownIncarnation != "" {
		t.Errorf("answer to an unknown node after the start of Raft: %+v, want no incarnation", a)
	}
	if list := b.unannounced(&v); len(list) != 0 {
		t.Errorf("nodes to announce after the announcement: %+v, want none", list)
	}
}

// joinAnswers implements the interface asking. It contains the answer of each node, by raft address. Nodes at other
// addresses do not answer.
type joinAnswers map[string]Answer

func (j joinAnswers) ask(_ context.Context, to topology.Member, _ Question) (Answer, error) {
	a, ok := j[to.Raft]
	switch {
	case !ok:
		return a, errors.New("connection refused")
	case a.Error != "":
		return a, answerError(a.Error)
	}
	return a, nil
}

func (j joinAnswers) askThrough(ctx context.Context, to topology.Member, q Question) (Answer, error) {
	return j.ask(ctx, to, q)
}

// TestBootstrap_Join checks that a node joins through the first node that admits it, and fails if no node can admit it.
func TestBootstrap_Join(t *testing.T) {
	admitted := Answer{Recovery: "1-0123456789abcdef", Term: 5}
	for _, tt := range []struct {
		name    string
		answers joinAnswers
		want    error // nil if the node joins
	}{
		{"the second node answers", joinAnswers{"b": admitted}, nil},
		{"it was removed", joinAnswers{"a": {Error: "removed", NotMember: true}, "b": admitted}, ErrRemoved},
		{"its id is used", joinAnswers{"a": {Error: "used", KnownIncarnation: "other"}, "b": admitted}, ErrUsed},
		{"no node answers", joinAnswers{}, context.DeadlineExceeded},
	} {
		var stored topology.Recovery
		b := &bootstrap{
			self: &Announcement{ID: "n9", Incarnation: "own"}, joinAddrs: []string{"a", "b"}, peers: tt.answers, life: newLifetime(),
			log: slog.New(slog.DiscardHandler), storeRecovery: func(r topology.Recovery) error { stored = r; return nil },
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		term, err := b.join(ctx)
		cancel()
		if !errors.Is(err, tt.want) || tt.want == nil && (err != nil || term != 5 || stored != admitted.Recovery || b.recoveryOf() != stored) {
			t.Errorf("%s: join returned term %d, stored recovery %q, and returned error %v", tt.name, term, stored, err)
		}
	}
}
