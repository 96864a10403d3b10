package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/throttledhq/throttled/topology"
)

// Peers reaches other nodes. A member without an ID is the node at its address, whichever that is.
type Peers interface {
	// Ask sends a question to a node and returns its answer.
	Ask(ctx context.Context, to topology.Member, q Question) (Answer, error)
	// Dial opens a stream on which a node serves commands of clients.
	Dial(ctx context.Context, to topology.Member) (net.Conn, error)
}

// messageWithin is the timeout of a question.
const messageWithin = 5 * time.Second

// answerError is an error in the answer of another node.
type answerError string

func (e answerError) Error() string { return string(e) }

// errUnconfirmed is the error of a node that exits and does not mark its data directory.
var errUnconfirmed = errors.New("that node has no vote as far as this one knows, so the data directory can be used again; " +
	"if it is an old copy, remove this node and add one under another id, and otherwise revoke the certificate of that node")

// members are the members of the cluster, as far as this node knows.
type members interface {
	View() *topology.View
	// member returns a member by the newest configuration, or nil.
	member(id string) *topology.Member
}

// peerClient asks other nodes.
type peerClient struct {
	peers   Peers // nil if there are no other nodes
	members members
	failure *failure
}

// dial opens a stream to a member, on which it serves commands of clients.
func (c *peerClient) dial(ctx context.Context, id string) (net.Conn, error) {
	m := c.members.View().Find(id)
	if m == nil || c.peers == nil {
		return nil, fmt.Errorf("dial %q: %w", id, topology.ErrUnknown)
	}
	return c.peers.Dial(ctx, *m)
}

// ask sends a question to a node and returns the answer, or the error that it contains. If the answer reports that the
// data of this node is out of date, and answers about the topic can report that, the process exits.
func (c *peerClient) ask(ctx context.Context, to topology.Member, q Question) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, messageWithin)
	defer cancel()
	a, err := c.peers.Ask(ctx, to, q)
	if err == nil && a.Stale != "" && topics[q.About].stale {
		c.failure.fail(c.rejected(to, q.About, a.Stale))
	}
	if err == nil && a.Error != "" {
		err = answerError(a.Error)
	}
	return a, err
}

// rejected returns the error of this node when another one remembers newer data of it. It wraps ErrStale, which marks
// the data directory as outdated, if the other node is a voter by the configuration of this node, or if this node is
// joining and has no log. The certificate of another node must not be enough to invalidate a directory.
func (c *peerClient) rejected(by topology.Member, about topic, why string) error {
	cause := ErrStale
	if m := c.members.member(by.ID); about != topicJoin && (m == nil || !m.Voter) {
		cause = errUnconfirmed
	}
	return fmt.Errorf("the node at %s remembers newer data: %s: %w", by.Raft, why, cause)
}

// askThrough sends a question for the leader to any node, which may know the leader. If the leader does not answer
// either, the error contains both errors.
func (c *peerClient) askThrough(ctx context.Context, to topology.Member, q Question) (Answer, error) {
	a, err := c.ask(ctx, to, q)
	if err == nil || a.Leader == "" || a.Leader == to.Raft {
		return a, err
	}
	leader := a.Leader
	a, leaderErr := c.ask(ctx, topology.Member{Raft: leader}, q)
	if leaderErr != nil {
		return a, fmt.Errorf("%w; ask the leader at %s: %w", err, leader, leaderErr)
	}
	return a, nil
}

// askLeader sends a question to the leader. It returns topology.ErrNoLeader if no other node leads.
func (c *peerClient) askLeader(ctx context.Context, q Question) error {
	v := c.members.View()
	leader := v.Find(v.Leader)
	if leader == nil || leader.ID == v.Self {
		return topology.ErrNoLeader
	}
	_, err := c.ask(ctx, *leader, q)
	return err
}
