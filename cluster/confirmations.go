package cluster

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/throttledhq/throttled/topology"
)

const (
	confirmedFor     = 5 * time.Second        // time for which a confirmation is valid
	unconfirmedFor   = 250 * time.Millisecond // time for which the result is valid if no member has confirmed the node
	confirmWithin    = 2 * time.Second        // timeout of the questions to all members about one node
	maxConfirmations = 16                     // maximum number of results that are stored
)

// confirmations determines whether a node that is not in the configuration of this node is a member. The node may
// have been added while this node was disconnected. This node therefore asks the members in its configuration, and
// stores the result. It rejects the unknown node until a member has confirmed that the node is a member.
type confirmations struct {
	start   func(id string)          // asks the members about a node in a goroutine, which passes the result to set
	members func() []topology.Member // known members
	now     func() time.Duration     // monotonic clock

	mu    sync.Mutex
	known map[string]*confirmation
	asked []topology.Member // members when the results were obtained; if the members change, the results are dropped
}

// confirmation is the latest result for a node.
type confirmation struct {
	addr   string        // raft address; "" if the node was not confirmed
	until  time.Duration // time at which the result expires, on the monotonic clock
	asking bool          // the members are being asked about the node
}

// newConfirmations returns confirmations that call inquire to ask the members.
func newConfirmations(life *lifetime, now func() time.Duration, members func() []topology.Member, inquire func(id string) (addr string)) *confirmations {
	c := &confirmations{members: members, now: now, known: map[string]*confirmation{}}
	c.start = func(id string) {
		life.unlessEnded(func() { life.run(func() { c.set(id, inquire(id)) }) })
	}
	return c
}

// confirmed returns the raft address of a node that a member has recently confirmed, or "". It does not block. If there
// is no result, or a confirmation expires soon, the members are asked in the background. The node is rejected until a
// member has confirmed it. A rejected node tries again later.
func (c *confirmations) confirmed(id string) string {
	addr, due := c.lookup(id)
	if due {
		c.start(id)
	}
	return addr
}

// lookup returns the address of a confirmed node, or "", and reports whether the members must be asked about it.
func (c *confirmations) lookup(id string) (addr string, due bool) {
	members := c.members()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.invalidate(members)
	now := c.now()
	k := c.known[id]
	if k == nil {
		if k = c.add(id, now); k == nil {
			return "", false
		}
	}
	left := k.until - now
	due = !k.asking && (left <= 0 || k.addr != "" && left < confirmedFor/2)
	k.asking = k.asking || due
	if left <= 0 {
		return "", due
	}
	return k.addr, due
}

// invalidate drops all results if the members have changed. The caller must hold c.mu.
func (c *confirmations) invalidate(members []topology.Member) {
	if !slices.Equal(members, c.asked) {
		clear(c.known)
		c.asked = members
	}
}

// add adds a node without a result. If maxConfirmations results are stored, it first drops the expired ones, and
// returns nil if none has expired. The caller must hold c.mu.
func (c *confirmations) add(id string, now time.Duration) *confirmation {
	if len(c.known) >= maxConfirmations {
		for other, k := range c.known {
			if !k.asking && k.until <= now {
				delete(c.known, other)
			}
		}
	}
	if len(c.known) >= maxConfirmations {
		return nil
	}
	k := &confirmation{until: now}
	c.known[id] = k
	return k
}

// set stores a result: the raft address of a confirmed node, or "".
func (c *confirmations) set(id, addr string) {
	members := c.members()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.invalidate(members)
	k := c.known[id]
	if k == nil {
		return // dropped while the members were asked
	}
	k.asking, k.addr, k.until = false, addr, c.now()+unconfirmedFor
	if addr != "" {
		k.until = c.now() + confirmedFor
	}
}

// inquirer asks members whether a node is a member.
type inquirer struct {
	view      *observer
	joinAddrs []string // raft addresses of nodes to join through
	peers     *peerClient
	life      *lifetime
}

// inquire asks all known members about a node, and returns the node's raft address if a member confirms it. If no
// member answers, because all members were replaced or because this node has just joined, inquire asks the nodes in
// i.joinAddrs. A member that has no leader answers with an error. That error counts as an answer, so that the nodes
// in i.joinAddrs are not asked during each election.
func (i *inquirer) inquire(id string) (addr string) {
	ctx, cancel := context.WithTimeout(i.life.ctx, confirmWithin)
	defer cancel()
	v := i.view.View()
	members := slices.DeleteFunc(slices.Clone(v.Members), func(m topology.Member) bool { return m.ID == v.Self })
	addr, answered := i.inquireOf(ctx, id, members)
	if answered {
		return addr
	}
	var others []topology.Member
	for _, addr := range i.joinAddrs {
		others = append(others, topology.Member{Raft: addr})
	}
	addr, _ = i.inquireOf(ctx, id, others)
	return addr
}

// inquireOf asks several nodes concurrently. It returns the address from the first confirmation, and reports whether
// any node has answered. An error in an answer counts as an answer.
func (i *inquirer) inquireOf(ctx context.Context, id string, nodes []topology.Member) (addr string, answered bool) {
	if i.peers.peers == nil {
		return "", false
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		answer Answer
		err    error
	}
	results := make(chan result, len(nodes))
	for _, m := range nodes {
		go func() {
			a, err := i.peers.askThrough(ctx, m, Question{About: topicPeerMembership, Node: &Announcement{ID: id}})
			results <- result{a, err}
		}()
	}
	for range nodes {
		select {
		case r := <-results:
			if r.err == nil && r.answer.MemberAddr != "" {
				return r.answer.MemberAddr, true
			}
			answered = answered || r.err == nil || errors.As(r.err, new(answerError))
		case <-i.life.ended():
			return "", true
		}
	}
	return "", answered
}
