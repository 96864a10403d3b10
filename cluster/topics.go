package cluster

import (
	"context"
	"errors"

	"github.com/throttledhq/throttled/topology"
)

// topic is the subject of a question.
type topic string

const (
	topicMeet      topic = "meet"      // bootstrap handshake: a node without data asks whether the cluster has begun
	topicTime      topic = "time"      // a new leader asks for the log time
	topicJoin      topic = "join"      // a node asks to be added
	topicAnnounce  topic = "announce"  // a node announces itself
	topicVote      topic = "vote"      // a node that has caught up asks for a vote
	topicRemove    topic = "remove"    // a node asks to be removed
	topicReturn    topic = "return"    // a node that starts with data asks whether newer data of it is known
	topicMember    topic = "member"    // a node without a leader asks whether it is a member
	topicPeer      topic = "peer"      // a node asks whether another one is a member
	topicHeartbeat topic = "heartbeat" // a leader asks for the heartbeat that a voter runs with
)

// topicRow defines a topic: the nodes that may ask about it, the nodes that answer, and the handler. Without a flag, only
// members may ask, about themselves only, and only the leader answers.
type topicRow struct {
	nonMembers bool // nodes that are not members may ask
	onBehalf   bool // a node may ask about another one
	stale      bool // the answer can report that the data of the asking node is out of date
	unstarted  bool // a node answers before it takes part
	followers  bool // nodes that do not lead answer
	noNode     bool // the question names no node
	handle     func(r *responder, ctx context.Context, q *Question, a *Answer) error
}

// topics is the table of all topics.
var topics = map[topic]topicRow{
	topicMeet:      {nonMembers: true, unstarted: true, followers: true, handle: (*responder).meet},
	topicJoin:      {nonMembers: true, stale: true, handle: (*responder).join},
	topicMember:    {nonMembers: true, handle: (*responder).isMember},
	topicReturn:    {nonMembers: true, stale: true, followers: true, handle: (*responder).checkReturn}, // this node may have missed that the other one was added
	topicTime:      {followers: true, noNode: true, handle: (*responder).time},
	topicHeartbeat: {followers: true, noNode: true, handle: (*responder).heartbeat},
	topicAnnounce:  {stale: true, handle: (*responder).announce},
	topicVote:      {handle: (*responder).vote},
	topicRemove:    {handle: (*responder).remove},
	topicPeer:      {onBehalf: true, followers: true, handle: (*responder).confirm},
}

var errQuestion = errors.New("unknown question; run the same version on all nodes")

// The parts of a node that answer questions.
type (
	// role is the role of the node in the cluster.
	role interface {
		started() bool // the node takes part
		leads() bool   // the node decides
		CurrentTerm() uint64
	}
	// memberChanges changes the members. The node leads.
	memberChanges interface {
		admit(ctx context.Context, q *Question) error
		announce(ctx context.Context, a *Announcement) error
		promote(ctx context.Context, q *Question) error
		Remove(ctx context.Context, id string) error
	}
	// handshake answers the bootstrap handshake, and holds the recovery of the cluster.
	handshake interface {
		answer(from *Announcement, a *Answer)
		recoveryOf() topology.Recovery
	}
	// returnChecker checks the data of nodes that start with data.
	returnChecker interface {
		checkReturn(q *Question) error
	}
)

// responder answers questions.
type responder struct {
	role      role
	members   members
	announced *announcements
	changes   memberChanges
	handshake handshake
	returns   returnChecker
	logTime   func() timeAnswer
	beat      func() heartbeatAnswer
}

// answer answers a question of a node that may ask it.
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

// redirect answers with the leader.
func (r *responder) redirect(a *Answer) error {
	v := r.members.View()
	if leader := v.Find(v.Leader); leader != nil {
		a.Leader = leader.Raft
	}
	return topology.ErrNoLeader
}

func (r *responder) meet(_ context.Context, q *Question, a *Answer) error {
	r.handshake.answer(q.Node, a)
	return nil
}

func (r *responder) time(_ context.Context, _ *Question, a *Answer) error {
	t := r.logTime()
	a.Time = &t
	return nil
}

func (r *responder) heartbeat(_ context.Context, _ *Question, a *Answer) error {
	h := r.beat()
	a.Heartbeat = &h
	return nil
}

func (r *responder) checkReturn(_ context.Context, q *Question, a *Answer) error {
	a.Members = r.members.View().Members
	return r.returns.checkReturn(q)
}

func (r *responder) isMember(_ context.Context, q *Question, a *Answer) error {
	a.Removed = r.members.View().Find(q.Node.ID) == nil
	return nil
}

// confirm answers whether the node in a question is a member. Only the leader, and nodes that follow the node in
// question, answer: the configuration of other nodes may be out of date.
func (r *responder) confirm(_ context.Context, q *Question, a *Answer) error {
	if !r.role.leads() && r.members.View().Leader != q.Node.ID {
		return r.redirect(a)
	}
	if m := r.members.member(q.Node.ID); m != nil {
		a.Member = m.Raft
	}
	return nil
}

func (r *responder) join(ctx context.Context, q *Question, a *Answer) error {
	a.Known, a.Recovery, a.Term = r.announced.of(q.Node.ID).Incarnation, r.handshake.recoveryOf(), r.role.CurrentTerm()
	err := r.changes.admit(ctx, q)
	a.Removed = errors.Is(err, ErrRemoved)
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
