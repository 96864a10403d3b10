package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/throttledhq/throttled/cluster/transport"
	"github.com/throttledhq/throttled/topology"
)

// Peers reaches other nodes. A member without an ID is whoever is at its address.
type Peers interface {
	// Ask puts a question to a node.
	Ask(ctx context.Context, to topology.Member, q Question) (Answer, error)
	// Dial opens a stream on which a node serves commands of clients.
	Dial(ctx context.Context, to topology.Member) (net.Conn, error)
}

// topic is what a question is about.
type topic string

const (
	aboutMeeting topic = "meet"     // a node without data asks whether the cluster has begun
	aboutTime    topic = "time"     // a leader-to-be asks for the log time
	aboutJoining topic = "join"     // a node asks to be added
	aboutSelf    topic = "announce" // a node tells what others should know of it
	aboutVoting  topic = "vote"     // a node that has caught up asks for a vote
	aboutRemoval topic = "remove"   // a node asks to take a node out
	aboutReturn  topic = "return"   // a node that comes back with data asks whether that is as new as any
	aboutBeing   topic = "member"   // a node that hears of no leader asks whether it is a member
	aboutPeer    topic = "peer"     // a node asks whether another, which it does not know, is a member
)

// askers describes which nodes other than members may ask about a topic, each about itself, and whether the answer can
// stop the asking node.
type askers struct {
	strangers bool // nodes that are no members, too
	others    bool // on behalf of another node than the one that asks, too
	stale     bool // the answer can be that the data of the node that asks is out of date
}

// topics has all topics there are.
var topics = map[topic]askers{
	aboutMeeting:   {strangers: true},
	aboutJoining:   {strangers: true, stale: true},
	aboutBeing:     {strangers: true},
	aboutTime:      {},
	aboutSelf:      {stale: true},
	aboutVoting:    {},
	aboutRemoval:   {},
	aboutPeer:      {others: true},
	aboutReturn:    {strangers: true, stale: true}, // the one that is asked may have missed that the other was added
	aboutHeartbeat: {},
}

// Question is what one node asks another.
type Question struct {
	About   topic         `json:"about"`
	Node    *Announcement `json:"node,omitempty"`
	Raft    string        `json:"raft,omitempty"`    // raft address of Node
	Applied uint64        `json:"applied,omitempty"` // the newest entry that Node has applied
	Version uint64        `json:"version,omitempty"` // of the heartbeat with which Node runs
	Last    entryID       `json:"last,omitzero"`     // the newest entry in the log of Node when it began
	Note    bool          `json:"note,omitempty"`    // the start of Node, before it takes part
}

// Answer answers it.
type Answer struct {
	Error   string        `json:"error,omitempty"`
	Node    *Announcement `json:"node,omitempty"`   // the node that answers
	Leader  string        `json:"leader,omitempty"` // raft address of the leader, if the question is for it
	Begun   bool          `json:"begun,omitempty"`  // the cluster has begun, as far as the node knows
	Known   string        `json:"known,omitempty"`  // the incarnation that the node knows of the one that asks
	Removed bool          `json:"removed,omitempty"`
	Member  string        `json:"member,omitempty"` // raft address of the member that was asked about
	Term    uint64        `json:"term,omitempty"`   // of Raft, for a node that joins
	Time    *timeAnswer   `json:"time,omitempty"`
	Stale   string        `json:"stale,omitempty"` // why the data of the one that asks is out of date

	Recovery topology.Recovery `json:"recovery,omitempty"` // of the cluster that a node has joined
	Members  []topology.Member `json:"members,omitempty"`  // that the node knows of, for one that comes back

	Heartbeat *heartbeatAnswer `json:"heartbeat,omitempty"`
}

const (
	maxMessage    = 64 << 10 // bytes of a question or an answer
	messageWithin = 5 * time.Second
)

// ServeControl answers the questions that come in on streams of ln, until ln is closed. It has to have
// returned before Close is called. On a stream of a [transport.Link] a node is heard only on what is its own.
func (n *Node) ServeControl(ln net.Listener) error {
	for {
		conn, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept a question: %w", err)
		}
		n.running.Go(func() {
			defer func() { _ = conn.Close() }() // nothing is lost that was not answered
			if err := n.serveQuestion(conn); err != nil {
				n.log.Debug("a question was not answered", "error", err)
			}
		})
	}
}

func (n *Node) serveQuestion(conn net.Conn) error {
	if err := conn.SetDeadline(time.Now().Add(messageWithin)); err != nil {
		return err
	}
	var q Question
	if err := json.NewDecoder(io.LimitReader(conn, maxMessage)).Decode(&q); err != nil {
		return fmt.Errorf("read a question: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), messageWithin)
	defer cancel()
	go func() { // an answer is not needed after the node is closed
		select {
		case <-n.ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	return json.NewEncoder(conn).Encode(n.replyTo(ctx, transport.PeerOf(conn), q))
}

// The errors with which a question is refused.
var (
	ErrNotItself = errors.New("a node speaks only for itself")
	ErrNotMember = errors.New("not a member of the cluster")
)

// replyTo answers the question of a peer; "" is one that has not shown who it is.
func (n *Node) replyTo(ctx context.Context, peer string, q Question) Answer {
	if peer != "" {
		if err := n.mayAsk(peer, &q); err != nil {
			return Answer{Node: &n.config.Self, Error: err.Error()}
		}
	}
	return n.Reply(ctx, q)
}

// mayAsk returns why a peer may not ask a question, or nil.
func (n *Node) mayAsk(peer string, q *Question) error {
	r, known := topics[q.About]
	switch {
	case !known:
		return fmt.Errorf("%q: %w", q.About, errQuestion)
	case q.Node != nil && q.Node.ID != peer && !r.others:
		return fmt.Errorf("%s asks for %s: %w", peer, q.Node.ID, ErrNotItself)
	case !r.strangers && !n.isMember(peer):
		return fmt.Errorf("%s asks about %s: %w", peer, q.About, ErrNotMember)
	}
	return nil
}

// AskOver puts a question to whoever is at the other end of a stream.
func AskOver(ctx context.Context, conn net.Conn, q Question) (a Answer, err error) {
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	if err := json.NewEncoder(conn).Encode(q); err != nil {
		return a, fmt.Errorf("ask about %s: %w", q.About, err)
	}
	if err := json.NewDecoder(io.LimitReader(conn, maxMessage)).Decode(&a); err != nil {
		return a, fmt.Errorf("ask about %s: %w", q.About, err)
	}
	return a, nil
}

// Reply answers a question of somebody who may ask it.
func (n *Node) Reply(ctx context.Context, q Question) Answer {
	a := Answer{Node: &n.config.Self}
	if err := n.answer(ctx, &q, &a); errors.Is(err, ErrStale) {
		a.Error, a.Stale = ErrStale.Error(), err.Error()
	} else if err != nil {
		a.Error = err.Error()
	}
	return a
}

var errQuestion = errors.New("unknown question")

func (n *Node) answer(ctx context.Context, q *Question, a *Answer) error {
	if q.About == aboutMeeting && q.Node != nil {
		n.meetWith(q.Node, a)
		return nil
	}
	if !n.begun() {
		return topology.ErrNoLeader
	}
	switch {
	case q.About == aboutTime:
		t := n.knownTime()
		a.Time = &t
		return nil
	case q.About == aboutHeartbeat:
		h := n.runsWith()
		a.Heartbeat = &h
		return nil
	case q.Node == nil:
		return errQuestion
	case q.About == aboutReturn:
		a.Members = n.View().Members
		return n.checkReturn(q)
	}
	if n.leaderships.current() == nil {
		if q.About == aboutPeer && n.View().Leader == q.Node.ID {
			n.confirm(q, a)
			return nil
		}
		if leader := n.find(n.View().Leader); leader != nil {
			a.Leader = leader.Raft
		}
		return topology.ErrNoLeader
	}
	switch q.About {
	case aboutBeing:
		a.Removed = n.find(q.Node.ID) == nil
		return nil
	case aboutPeer:
		n.confirm(q, a)
		return nil
	case aboutJoining:
		a.Known, a.Recovery, a.Term = n.incarnation(q.Node.ID), n.config.Recovery, n.raft.CurrentTerm()
		err := n.admit(ctx, q)
		a.Removed = errors.Is(err, ErrRemoved)
		return err
	case aboutSelf:
		return n.propose(ctx, q.Node)
	case aboutVoting:
		return n.promote(ctx, q)
	case aboutRemoval:
		return n.Remove(ctx, q.Node.ID)
	}
	return fmt.Errorf("%q: %w", q.About, errQuestion)
}

// confirm answers whether the node that a question names is a member. Only the leader, and nodes that the
// node in question leads, answer that: others may be behind.
func (n *Node) confirm(q *Question, a *Answer) {
	if m := n.guard.member(q.Node.ID); m != nil {
		a.Member = m.Raft
	}
}

// errAnswer is an error that another node has answered with.
type errAnswer string

func (e errAnswer) Error() string { return string(e) }

// ask sends a question to a node and returns the answer, or the error that it contains. It stops this node if the answer
// reports that its data is out of date and answers about the topic can report that.
func (n *Node) ask(ctx context.Context, to topology.Member, q Question) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, messageWithin)
	defer cancel()
	a, err := n.config.Peers.Ask(ctx, to, q)
	if err == nil && a.Stale != "" && topics[q.About].stale {
		n.stop(n.turnedAway(to, q.About, a.Stale))
	}
	if err == nil && a.Error != "" {
		err = errAnswer(a.Error)
	}
	return a, err
}

// errUnsure is why a node stops without a mark on its data.
var errUnsure = errors.New("that node is no voter as far as this one knows, so the data directory can be used again; " +
	"if it is an old copy, remove this node and add one under another id, and otherwise revoke the certificate of that node")

// turnedAway returns the error with which this node stops because another one remembers newer data of it. It wraps
// ErrStale, by which the data directory is never used again, if the other one is a voter by the configuration of this
// node, or if this node joins and so has no log yet: a directory must not be lost by the word of any certificate.
func (n *Node) turnedAway(by topology.Member, about topic, why string) error {
	sure := ErrStale
	if m := n.guard.member(by.ID); about != aboutJoining && (m == nil || !m.Voter) {
		sure = errUnsure
	}
	return fmt.Errorf("the node at %s remembers newer data: %s: %w", by.Raft, why, sure)
}

// askThrough puts a question for the leader to any node, which may know which one leads. If the leader does not
// answer, the error is that of both.
func (n *Node) askThrough(ctx context.Context, to topology.Member, q Question) (Answer, error) {
	a, err := n.ask(ctx, to, q)
	if err == nil || a.Leader == "" || a.Leader == to.Raft {
		return a, err
	}
	leader := a.Leader
	a, leaderErr := n.ask(ctx, topology.Member{Raft: leader}, q)
	if leaderErr != nil {
		return a, fmt.Errorf("%w; ask the leader at %s: %w", err, leader, leaderErr)
	}
	return a, nil
}

// askLeader puts a question to the leader, which may be this node.
func (n *Node) askLeader(ctx context.Context, q Question) error {
	leader := n.find(n.View().Leader)
	if leader == nil {
		return topology.ErrNoLeader
	}
	if leader.ID == n.config.Self.ID {
		if a := n.Reply(ctx, q); a.Error != "" {
			return errAnswer(a.Error)
		}
		return nil
	}
	_, err := n.ask(ctx, *leader, q)
	return err
}
