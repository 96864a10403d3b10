package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/throttledhq/throttled/topology"
)

// Peers connects to other nodes. If a member has no ID, any node at its address is accepted.
type Peers interface {
	// Ask sends a question to a node and returns its answer.
	Ask(ctx context.Context, to topology.Member, q Question) (Answer, error)
	// Dial opens a stream for forwarded client commands to a node.
	Dial(ctx context.Context, to topology.Member) (net.Conn, error)
}

// messageWithin is the timeout of most questions.
const messageWithin = 5 * time.Second

// answerError is an error that another node has returned in its answer.
type answerError string

func (e answerError) Error() string { return string(e) }

// errUnconfirmed is the cause of an exit if another node rejects the data of this node as out of date, but the other
// node is not a voter in the configuration of this node. In this case, the data directory is not marked as outdated.
var errUnconfirmed = errors.New("the rejecting node is not a voter in the configuration of this node, so the data directory was not marked as outdated; " +
	"if the data directory is an old copy, remove this node and add one under another id, and otherwise revoke the certificate of the rejecting node")

// members is implemented by *observer.
type members interface {
	View() *topology.View
	// member returns a member in the newest configuration, or nil.
	member(id string) *topology.Member
}

// peerClient sends questions to other nodes and opens streams to them.
type peerClient struct {
	peers   Peers // nil if there are no other nodes
	members members
	failure *failure
}

// dial opens a stream for forwarded client commands to a member.
func (c *peerClient) dial(ctx context.Context, id string) (net.Conn, error) {
	m := c.members.View().Find(id)
	if m == nil || c.peers == nil {
		return nil, fmt.Errorf("dial %q: %w", id, topology.ErrUnknown)
	}
	return c.peers.Dial(ctx, *m)
}

// ask sends a question to a node and returns the answer. If the answer contains an error, ask returns that error, too.
// If the answer reports that the data of this node is out of date, and the topic permits such answers, the process
// exits.
func (c *peerClient) ask(ctx context.Context, to topology.Member, q Question) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, topics[q.About].timeout())
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

// rejected returns the error with which the process exits if another node has a record of newer data. The error wraps
// ErrStale if the other node is a voter in the configuration of this node, or if this node is joining and has no
// configuration yet. The data directory is then marked as outdated. Otherwise the error wraps errUnconfirmed, and the
// data directory is not marked: a stolen certificate of a nonvoter must not suffice to make a data directory
// unusable.
func (c *peerClient) rejected(by topology.Member, about topic, why string) error {
	cause := ErrStale
	if m := c.members.member(by.ID); about != topicJoin && (m == nil || !m.Voter) {
		cause = errUnconfirmed
	}
	return fmt.Errorf("the node at %s has a record of newer data: %s: %w", by.Raft, why, cause)
}

// askThrough sends a question to a node. If the node is not the leader but returns the leader's address, askThrough
// sends the question to the leader. If that fails, too, the error contains both errors.
func (c *peerClient) askThrough(ctx context.Context, to topology.Member, q Question) (Answer, error) {
	a, err := c.ask(ctx, to, q)
	if err == nil || a.LeaderAddr == "" || a.LeaderAddr == to.Raft {
		return a, err
	}
	leader := a.LeaderAddr
	a, leaderErr := c.ask(ctx, topology.Member{Raft: leader}, q)
	if leaderErr != nil {
		return a, fmt.Errorf("%w; ask the leader at %s: %w", err, leader, leaderErr)
	}
	return a, nil
}

// askLeader sends a question to the leader. It returns topology.ErrNoLeader if there is no leader or this node is the
// leader.
func (c *peerClient) askLeader(ctx context.Context, q Question) error {
	_, err := c.answerOfLeader(ctx, q)
	return err
}

// answerOfLeader sends a question to the leader and returns the answer. The errors are those of askLeader.
func (c *peerClient) answerOfLeader(ctx context.Context, q Question) (Answer, error) {
	v := c.members.View()
	leader := v.Find(v.Leader)
	if leader == nil || leader.ID == v.Self || c.peers == nil {
		return Answer{}, topology.ErrNoLeader
	}
	return c.ask(ctx, *leader, q)
}
