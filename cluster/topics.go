package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/throttledhq/throttled/acl"
	"github.com/throttledhq/throttled/ruleset"
	"github.com/throttledhq/throttled/topology"
)

// topic is the subject of a question.
type topic string

const (
	topicHandshake      topic = "meet"      // a node without data starts the bootstrap handshake
	topicTime           topic = "time"      // a new leader asks for the log time
	topicJoin           topic = "join"      // a node asks to be added
	topicAnnounce       topic = "announce"  // a node announces itself
	topicVote           topic = "vote"      // a nonvoter asks to be promoted to a voter
	topicRemove         topic = "remove"    // a node asks to be removed
	topicReturn         topic = "return"    // a node that was started with data asks whether there is a record of newer data
	topicOwnMembership  topic = "member"    // a node that has no leader asks whether it is a member
	topicPeerMembership topic = "peer"      // a node asks whether another node is a member
	topicHeartbeat      topic = "heartbeat" // the leader asks for the heartbeat that a voter runs with
	topicRules          topic = "rules"     // the leader asks whether a member can read the entries of rules
	topicPropose        topic = "propose"   // a follower proposes a rule set
	topicUsers          topic = "users"     // the leader asks whether a member can read the entries of users, and uses a version
	topicProposeUsers   topic = "set-users" // a follower proposes users
)

// topicRow defines which nodes may ask about a topic, which nodes answer, and the handler. If no flag is set, only
// members may ask, a node may ask only about itself, and only the leader answers.
type topicRow struct {
	nonMembers bool          // nodes that are not members may ask
	onBehalf   bool          // a node may ask about another node
	stale      bool          // the answer can report that the data of the asking node is out of date
	unstarted  bool          // a node answers before Raft is started
	followers  bool          // nodes other than the leader answer, too
	noNode     bool          // the question need not name a node
	maxBody    int           // maximum size of the body that follows the question, in bytes; 0: no body may follow
	within     time.Duration // timeout; messageWithin by default
	handle     func(r *responder, ctx context.Context, q *Question, a *Answer) error
}

// topics is the table of all topics.
var topics = map[topic]topicRow{
	topicHandshake:      {nonMembers: true, unstarted: true, followers: true, handle: (*responder).answerHandshake},
	topicJoin:           {nonMembers: true, stale: true, handle: (*responder).join},
	topicOwnMembership:  {nonMembers: true, handle: (*responder).isMember},
	topicReturn:         {nonMembers: true, stale: true, followers: true, handle: (*responder).checkReturn}, // nonMembers, because the asking node may have been added while this node was disconnected
	topicTime:           {followers: true, noNode: true, handle: (*responder).time},
	topicHeartbeat:      {followers: true, noNode: true, handle: (*responder).heartbeat},
	topicRules:          {followers: true, noNode: true, handle: (*responder).readsRules},
	topicPropose:        {noNode: true, maxBody: ruleset.MaxText, within: proposeWithin, handle: (*responder).proposal},
	topicUsers:          {followers: true, noNode: true, handle: (*responder).usesUsers},
	topicProposeUsers:   {noNode: true, maxBody: acl.MaxText, within: proposeWithin, handle: (*responder).usersProposal},
	topicAnnounce:       {stale: true, handle: (*responder).announce},
	topicVote:           {handle: (*responder).vote},
	topicRemove:         {handle: (*responder).remove},
	topicPeerMembership: {onBehalf: true, followers: true, handle: (*responder).confirm},
}

// timeout returns the time within which a question about the topic must be answered.
func (r topicRow) timeout() time.Duration {
	if r.within > 0 {
		return r.within
	}
	return messageWithin
}

var errQuestion = errors.New("unknown question; run the same version on all nodes")

// Dependencies of responder, as interfaces for tests.
type (
	// role is implemented by nodeRole.
	role interface {
		started() bool // Raft is started
		leads() bool   // this node is the leader
		CurrentTerm() uint64
	}
	// memberChanges is implemented by *membership. Its methods must be called on the leader.
	memberChanges interface {
		admit(ctx context.Context, q *Question) error
		announce(ctx context.Context, a *Announcement) error
		promote(ctx context.Context, q *Question) error
		Remove(ctx context.Context, id string) error
	}
	// handshake is implemented by *bootstrap.
	handshake interface {
		answer(from *Announcement, a *Answer)
		recoveryOf() topology.Recovery
	}
	// returnChecker is implemented by *recordKeeper.
	returnChecker interface {
		checkReturn(q *Question) error
	}
)

// responder answers questions as defined in the topics table.
type responder struct {
	role             role
	members          members
	announced        *announcements
	changes          memberChanges
	handshake        handshake
	returns          returnChecker
	logTime          func() timeAnswer
	runningHeartbeat func() heartbeatAnswer
	propose          func(ctx context.Context, p ruleset.Proposal) (ruleset.Result, error)
	awaitUsers       func(ctx context.Context, number uint64) error
	proposeUsers     func(ctx context.Context, base uint64, text string) (version uint64, err error)
}

// answer answers a question. The caller must have checked that the asking node may ask it.
func (r *responder) answer(ctx context.Context, q *Question, a *Answer) error {
	row, known := topics[q.About]
	switch {
	case !known, q.Node == nil && !row.noNode:
		return errQuestion
	case !r.role.started() && !row.unstarted:
		return topology.ErrNoLeader
	case !row.followers && !r.role.leads():
		return r.redirect(a)
	}
	return row.handle(r, ctx, q, a)
}

// redirect stores the address of the leader in the answer, and returns topology.ErrNoLeader.
func (r *responder) redirect(a *Answer) error {
	v := r.members.View()
	if leader := v.Find(v.Leader); leader != nil {
		a.LeaderAddr = leader.Raft
	}
	return topology.ErrNoLeader
}

func (r *responder) answerHandshake(_ context.Context, q *Question, a *Answer) error {
	r.handshake.answer(q.Node, a)
	return nil
}

func (r *responder) time(_ context.Context, _ *Question, a *Answer) error {
	t := r.logTime()
	a.Time = &t
	return nil
}

func (r *responder) heartbeat(_ context.Context, _ *Question, a *Answer) error {
	h := r.runningHeartbeat()
	a.Heartbeat = &h
	return nil
}

// readsRules answers that this program can read the entries of rules. Earlier programs answer the question with an error.
func (r *responder) readsRules(context.Context, *Question, *Answer) error { return nil }

func (r *responder) proposal(ctx context.Context, q *Question, a *Answer) error {
	if q.Proposal == nil {
		return errQuestion
	}
	p := *q.Proposal
	p.Text = string(q.body)
	result, err := r.propose(ctx, p)
	if err == nil {
		a.Rules = &result
	}
	return err
}

// usesUsers answers that this program can read the entries of users, when this node uses the version in the question.
// Number 0 is always in use. Earlier programs answer the question with an error.
func (r *responder) usesUsers(ctx context.Context, q *Question, _ *Answer) error {
	return r.awaitUsers(ctx, q.Users)
}

func (r *responder) usersProposal(ctx context.Context, q *Question, a *Answer) error {
	version, err := r.proposeUsers(ctx, q.Users, string(q.body))
	a.Users = usersAnswerOf(version, err)
	return err
}

func (r *responder) checkReturn(_ context.Context, q *Question, a *Answer) error {
	a.Members = r.members.View().Members
	return r.returns.checkReturn(q)
}

func (r *responder) isMember(_ context.Context, q *Question, a *Answer) error {
	a.NotMember = r.members.View().Find(q.Node.ID) == nil
	return nil
}

// confirm answers whether the node named in a question is a member. Two kinds of nodes answer: the leader, and nodes
// whose leader is the named node. All other nodes return the address of the leader, because their configuration may be
// out of date.
func (r *responder) confirm(_ context.Context, q *Question, a *Answer) error {
	if !r.role.leads() && r.members.View().Leader != q.Node.ID {
		return r.redirect(a)
	}
	if m := r.members.member(q.Node.ID); m != nil {
		a.MemberAddr = m.Raft
	}
	return nil
}

func (r *responder) join(ctx context.Context, q *Question, a *Answer) error {
	a.KnownIncarnation, a.Recovery, a.Term = r.announced.of(q.Node.ID).Incarnation, r.handshake.recoveryOf(), r.role.CurrentTerm()
	err := r.changes.admit(ctx, q)
	a.NotMember = errors.Is(err, ErrRemoved)
	return err
}

func (r *responder) announce(ctx context.Context, q *Question, _ *Answer) error {
	return r.changes.announce(ctx, q.Node)
}

func (r *responder) vote(ctx context.Context, q *Question, _ *Answer) error {
	return r.changes.promote(ctx, q)
}

func (r *responder) remove(ctx context.Context, q *Question, _ *Answer) error {
	return r.changes.Remove(ctx, q.Node.ID)
}
