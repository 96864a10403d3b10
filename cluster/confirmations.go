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
	confirmedFor     = 5 * time.Second        // time after which members are asked again about a confirmed node
	unconfirmedFor   = 250 * time.Millisecond // the same for a node that was not confirmed
	confirmWithin    = 2 * time.Second        // timeout of a request
	maxConfirmations = 16                     // nodes that are remembered
)

// confirmations holds nodes that are not members as far as this node knows. This node may have missed that they were
// added, so it asks the members that it knows. A node is rejected until a member has confirmed it.
type confirmations struct {
	start   func(id string)          // starts to ask about a node; the result is passed to set
	members func() []topology.Member // known members
	now     func() time.Duration     // monotonic clock

	mu    sync.Mutex
	known map[string]*confirmation
	asked []topology.Member // members at the time of the results; other members make the results invalid
}

// confirmation is the last result for a node.
type confirmation struct {
	addr   string        // raft address; "" if the node was not confirmed
	until  time.Duration // on the monotonic clock
	asking bool
}

// newConfirmations returns confirmations whose results inquire returns.
func newConfirmations(life *lifetime, now func() time.Duration, members func() []topology.Member, inquire func(id string) (addr string)) *confirmations {
	c := &confirmations{members: members, now: now, known: map[string]*confirmation{}}
	c.start = func(id string) {
		life.unlessEnded(func() { life.run(func() { c.set(id, inquire(id)) }) })
	}
	return c
}

// confirmed returns the raft address of a node that a member has confirmed recently, or "". It does not wait: if the
// result is unknown or old, it starts to ask, and a rejected node retries.
func (c *confirmations) confirmed(id string) string {
	addr, due := c.lookup(id)
	if due {
		c.start(id)
	}
	return addr
}

// lookup returns the address of a node, and whether the members are to be asked.
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

// invalidate drops all results if the members have changed. c.mu is held.
func (c *confirmations) invalidate(members []topology.Member) {
	if !slices.Equal(members, c.asked) {
		clear(c.known)
		c.asked = members
	}
}

// add adds a node, in place of expired results. It returns nil if there is no room. c.mu is held.
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
		return // dropped meanwhile
	}
	k.asking, k.addr, k.until = false, addr, c.now()+unconfirmedFor
	if addr != "" {
		k.until = c.now() + confirmedFor
	}
}

// inquirer asks members whether another node is a member.
type inquirer struct {
	view    *observer
	through []string // raft addresses of nodes to join through
	peers   *peerClient
	life    *lifetime
}

// inquire asks all known members about a node, and returns its raft address if one of them confirms it. If none answers,
// because all of them were replaced or because this node has just joined, it asks the nodes to join through. A member
// without a leader has answered: during an election, the answer of any node at an address does not replace it.
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
	for _, addr := range i.through {
		others = append(others, topology.Member{Raft: addr})
	}
	addr, _ = i.inquireOf(ctx, id, others)
	return addr
}

// inquireOf asks some nodes concurrently. It returns the address that the first of them confirms, and whether any has
// answered, including with an error.
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
			a, err := i.peers.askThrough(ctx, m, Question{About: topicPeer, Node: &Announcement{ID: id}})
			results <- result{a, err}
		}()
	}
	for range nodes {
		select {
		case r := <-results:
			if r.err == nil && r.answer.Member != "" {
				return r.answer.Member, true
			}
			answered = answered || r.err == nil || errors.As(r.err, new(answerError))
		case <-i.life.ended():
			return "", true
		}
	}
	return "", answered
}
