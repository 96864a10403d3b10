package cluster

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/throttledhq/throttled/cluster/transport"
	"github.com/throttledhq/throttled/internal/failpoint"
	"github.com/throttledhq/throttled/topology"
)

const (
	confirmedFor = 5 * time.Second        // before members are asked again about a node that they have confirmed
	refusedFor   = 250 * time.Millisecond // likewise about one that they have not
	inquiryTakes = 2 * time.Second        // at most
	maxStrangers = 16                     // nodes that are remembered
)

// strangers are nodes that are no members as far as this node knows. It may have missed that they were
// added, so it asks those that it knows. Until one has confirmed a node, that node is refused.
type strangers struct {
	ask func(id string) // starts an inquiry, whose result is for settle
	now func() time.Duration

	mu    sync.Mutex
	known map[string]*stranger
}

// stranger is the result of the last inquiry about a node.
type stranger struct {
	addr   string        // raft address; "" if it was not confirmed
	until  time.Duration // on the monotonic clock
	asking bool
}

// confirmed returns the raft address of a node that a known member has confirmed not long ago, or "". It does
// not wait: it starts an inquiry where there is none, and a node that is refused tries again.
func (s *strangers) confirmed(id string) string {
	addr, ask := s.look(id)
	if ask {
		s.ask(id)
	}
	return addr
}

// look returns what is known of a node, and whether the caller is to start an inquiry.
func (s *strangers) look(id string) (addr string, ask bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	k := s.known[id]
	if k == nil {
		if k = s.addLocked(id, now); k == nil {
			return "", false
		}
	}
	left := k.until - now
	ask = !k.asking && (left <= 0 || k.addr != "" && left < confirmedFor/2)
	k.asking = k.asking || ask
	if left <= 0 {
		return "", ask
	}
	return k.addr, ask
}

// addLocked adds a node, in place of those that nobody has asked for lately. It returns nil if there is no room.
func (s *strangers) addLocked(id string, now time.Duration) *stranger {
	if len(s.known) >= maxStrangers {
		for other, k := range s.known {
			if !k.asking && k.until <= now {
				delete(s.known, other)
			}
		}
	}
	if len(s.known) >= maxStrangers {
		return nil
	}
	k := &stranger{until: now}
	s.known[id] = k
	return k
}

// settle takes the result of an inquiry: the raft address of a node that was confirmed, or "".
func (s *strangers) settle(id, addr string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.known[id]
	if k == nil {
		return // forgotten meanwhile
	}
	k.asking, k.addr, k.until = false, addr, s.now()+refusedFor
	if addr != "" {
		k.until = s.now() + confirmedFor
	}
}

// forget drops all results: the members have changed.
func (s *strangers) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.known)
}

// Allows reports whether a node may have streams of a purpose. Commands are taken from members only: the node
// that leads, which is the one that runs them, knows all members. Messages of Raft are taken from a node that
// this one does not know, too, once a known member has confirmed it. If this node has come back with data, they
// are not taken from a node before that has been asked whether it remembers newer data.
func (n *Node) Allows(id string, p transport.Purpose) bool {
	if failpoint.Is(failpoint.AnyStream) && p == transport.Client {
		return true
	}
	if p != transport.Raft {
		return n.isMember(id)
	}
	return (n.isMember(id) || n.strangers.confirmed(id) != "") && n.returning.allows(id)
}

// isMember reports whether a node is a member as far as this node knows.
func (n *Node) isMember(id string) bool { return n.guard.member(id) != nil }

// startInquiry asks the members about a node, without waiting for them.
func (n *Node) startInquiry(id string) {
	n.give(func() { n.running.Go(func() { n.strangers.settle(id, n.inquire(id)) }) })
}

// inquire asks all members that this node knows for another node, and returns its raft address if one has
// confirmed it. If none has answered, as when all of them have been replaced or this node has just joined, the
// nodes that it was to join through are asked. A member that knows of no leader has answered: during an election
// the word of a member is not replaced by that of any node at an address.
func (n *Node) inquire(id string) (addr string) {
	ctx, cancel := context.WithTimeout(context.Background(), inquiryTakes)
	defer cancel()
	var members, others []topology.Member
	for _, m := range n.View().Members {
		if m.ID != n.config.Self.ID {
			members = append(members, m)
		}
	}
	for _, addr := range n.config.Join {
		others = append(others, topology.Member{Raft: addr})
	}
	addr, answered := n.inquireOf(ctx, id, members)
	if !answered {
		addr, _ = n.inquireOf(ctx, id, others)
	}
	return addr
}

// inquireOf asks some nodes at once. It returns the address of the first that confirms, and whether any has
// answered, if only with an error.
func (n *Node) inquireOf(ctx context.Context, id string, nodes []topology.Member) (addr string, answered bool) {
	if n.config.Peers == nil {
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
			a, err := n.askThrough(ctx, m, Question{About: aboutPeer, Node: &Announcement{ID: id}})
			results <- result{a, err}
		}()
	}
	for range nodes {
		select {
		case r := <-results:
			if r.err == nil && r.answer.Member != "" {
				return r.answer.Member, true
			}
			answered = answered || r.err == nil || errors.As(r.err, new(errAnswer))
		case <-n.ended:
			return "", true
		}
	}
	return "", answered
}
