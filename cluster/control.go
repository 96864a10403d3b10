package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/throttledhq/throttled/cluster/transport"
	"github.com/throttledhq/throttled/ruleset"
	"github.com/throttledhq/throttled/topology"
)

// Question is a request from one node to another.
type Question struct {
	About   topic         `json:"about"`
	Node    *Announcement `json:"node,omitempty"`    // node that the question is about
	Raft    string        `json:"raft,omitempty"`    // raft address of Node
	Applied uint64        `json:"applied,omitempty"` // newest entry that Node has applied
	Version uint64        `json:"version,omitempty"` // version of the heartbeat that Node has adopted
	Last    entryID       `json:"last,omitzero"`     // newest entry in the log of Node when it started
	// RecordStart makes the answering node record the start of Node.
	RecordStart bool `json:"note,omitempty"`
	// Proposal is a rule set without its text. The text is the body.
	Proposal *ruleset.Proposal `json:"proposal,omitempty"`
	// Users is a version of the users: the one that a proposal replaces, or that the answering node must use.
	Users uint64 `json:"users,omitempty"`
	Size  int    `json:"size,omitempty"` // of the body, in bytes
	body  []byte // follows the question on the stream; too large for JSON
}

// Answer is the answer to a question.
type Answer struct {
	Error            string        `json:"error,omitempty"`
	Node             *Announcement `json:"node,omitempty"`    // the answering node
	LeaderAddr       string        `json:"leader,omitempty"`  // raft address of the leader, which must be asked instead
	Begun            bool          `json:"begun,omitempty"`   // Raft is started on the answering node
	KnownIncarnation string        `json:"known,omitempty"`   // recorded incarnation of the asking node
	NotMember        bool          `json:"removed,omitempty"` // the asking node was removed, or never added
	MemberAddr       string        `json:"member,omitempty"`  // raft address of the node asked about; "" if not a member
	Term             uint64        `json:"term,omitempty"`    // term of Raft, for a joining node
	Time             *timeAnswer   `json:"time,omitempty"`
	Stale            string        `json:"stale,omitempty"` // how the data of the asking node is out of date; "" if it is not

	Recovery topology.Recovery `json:"recovery,omitempty"` // recovery of the cluster, for a joining node
	Members  []topology.Member `json:"members,omitempty"`  // known members, for a node that was started with data

	Heartbeat *heartbeatAnswer `json:"heartbeat,omitempty"`
	Rules     *ruleset.Result  `json:"rules,omitempty"`
	Users     *usersAnswer     `json:"users,omitempty"`
}

// maxMessage is the maximum size of a question without its body, or of an answer, in bytes.
const maxMessage = 64 << 10

// Errors returned if a node may not ask a question.
var (
	ErrNotItself = errors.New("a node may ask about itself only; check node-id and certificate of that node")
	ErrNotMember = errors.New("the node is not a member of the cluster")

	errBody = errors.New("the body of the question is missing, not permitted or too large")
)

// control answers questions from other nodes.
type control struct {
	self      *Announcement
	isMember  func(id string) bool
	responder *responder
	life      *lifetime
	log       *slog.Logger
}

// serve answers the questions on streams accepted from ln, until ln is closed.
func (c *control) serve(ln net.Listener) error {
	for {
		conn, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept a question: %w", err)
		}
		c.life.run(func() {
			defer func() { _ = conn.Close() }() // the answer was sent or sending it failed
			if err := c.serveOne(conn); err != nil {
				c.log.Debug("cannot answer a question", "error", err)
			}
		})
	}
}

func (c *control) serveOne(conn net.Conn) error {
	if err := conn.SetDeadline(time.Now().Add(messageWithin)); err != nil {
		return err
	}
	var q Question
	decoder := json.NewDecoder(io.LimitReader(conn, maxMessage))
	if err := decoder.Decode(&q); err != nil {
		return fmt.Errorf("read a question: %w", err)
	}
	within := topics[q.About].timeout()
	if err := conn.SetDeadline(time.Now().Add(within)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.life.ctx, within)
	defer cancel()
	return json.NewEncoder(conn).Encode(c.replyTo(ctx, transport.PeerOf(conn), q, io.MultiReader(decoder.Buffered(), conn)))
}

// replyTo answers a question from a peer if the peer may ask it. peer is "" on a connection without authentication, on
// which all questions are permitted.
// The body of the question, if it has one, is read from r.
func (c *control) replyTo(ctx context.Context, peer string, q Question, r io.Reader) Answer {
	if peer != "" {
		if err := c.mayAsk(peer, &q); err != nil {
			return Answer{Node: c.self, Error: err.Error()}
		}
	}
	if err := q.readBody(r); err != nil {
		return Answer{Node: c.self, Error: err.Error()}
	}
	return c.reply(ctx, q)
}

// readBody reads the body of a question. The JSON of the question ends in a newline.
func (q *Question) readBody(r io.Reader) error {
	if q.Size == 0 {
		return nil
	}
	if q.Size < 0 || q.Size > topics[q.About].maxBody {
		return fmt.Errorf("%d bytes: %w", q.Size, errBody)
	}
	b, err := io.ReadAll(io.LimitReader(r, int64(q.Size)+1))
	if err != nil || len(b) <= q.Size || b[0] != '\n' {
		return fmt.Errorf("%d bytes: %w", q.Size, errors.Join(errBody, err))
	}
	q.body = b[1:]
	return nil
}

// mayAsk returns an error if the peer may not ask the question.
func (c *control) mayAsk(peer string, q *Question) error {
	row, known := topics[q.About]
	switch {
	case !known:
		return fmt.Errorf("%q: %w", q.About, errQuestion)
	case q.Node != nil && q.Node.ID != peer && !row.onBehalf:
		return fmt.Errorf("%s asks for %s: %w", peer, q.Node.ID, ErrNotItself)
	case !row.nonMembers && !c.isMember(peer):
		return fmt.Errorf("%s asks about %s: %w", peer, q.About, ErrNotMember)
	}
	return nil
}

// reply answers a question without checking whether the asking node may ask it.
func (c *control) reply(ctx context.Context, q Question) Answer {
	a := Answer{Node: c.self}
	if err := c.responder.answer(ctx, &q, &a); errors.Is(err, ErrStale) {
		a.Error, a.Stale = ErrStale.Error(), err.Error()
	} else if err != nil {
		a.Error = err.Error()
	}
	return a
}

// askOver sends a question on a stream and returns the answer.
func askOver(ctx context.Context, conn net.Conn, q Question) (a Answer, err error) {
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	if err := json.NewEncoder(conn).Encode(q); err != nil {
		return a, fmt.Errorf("ask about %s: %w", q.About, err)
	}
	if len(q.body) > 0 {
		_, err = conn.Write(q.body) // if this fails, the answer may have the reason
	}
	if e := json.NewDecoder(io.LimitReader(conn, maxMessage)).Decode(&a); e != nil {
		return a, fmt.Errorf("ask about %s: %w", q.About, errors.Join(err, e))
	}
	return a, nil
}
