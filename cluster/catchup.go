package cluster

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/topology"
)

// Transport is what Raft sends and hears over.
type Transport interface {
	raft.Transport
	raft.WithPreVote
}

// acknowledging is a Transport that sends entries without waiting for each answer. It tells of those that are stored.
type acknowledging interface {
	Acknowledged(func(id string, term, index uint64))
}

// catchUp is the transport of Raft, with one thing changed: while a node does not answer heartbeats,
// entries for it wait. Raft would try to send them again and again, the longer it has failed the more
// rarely, up to ten seconds apart. A node that comes back would wait for as long until it got
// any, and be no help to those who are there.
//
// As it sees what nodes answer, it knows how far they are, too.
type catchUp struct {
	Transport
	// wanted reports whether this node is to send entries to another, and returns what is closed when
	// that may have changed.
	wanted func(raft.ServerID) (changed <-chan struct{}, wanted bool)
	ended  <-chan struct{}      // closed when this node ends
	now    func() time.Duration // on the monotonic clock
	// acknowledged takes in up to where a node has the log of this one, which leads in a term.
	acknowledged func(id string, term, index uint64)
	// check asks another node once whether entries may be sent to it, before the first round trip that is measured.
	check func(id string) error
	trips *roundTrips
	// timeout is the silence after which followers elect another leader. While a change of it is under way, a leader
	// itself runs with the least that any of them may have.
	timeout func() time.Duration

	mu       sync.Mutex
	contacts map[raft.ServerID]*contact
}

// contact is what is known of another node. What was so in another term says nothing: Raft sends entries
// at once when it begins to lead, and the first heartbeat a while later.
type contact struct {
	term   uint64
	silent chan struct{} // closed when the node answers heartbeats again; nil if none has failed since it did
	heard  bool          // it has answered in this term
	last   uint64        // the index of the newest entry in its log then
	at     time.Duration // when that was
}

// newCatchUp returns t with that change.
func (n *Node) newCatchUp(t Transport) *catchUp {
	return &catchUp{
		Transport: t, wanted: n.sendsTo, ended: n.ended, now: n.clock.monotonic,
		contacts: map[raft.ServerID]*contact{}, acknowledged: n.memory.acknowledged,
		check: n.returning.check, trips: &n.trips, timeout: n.shownHeartbeat,
	}
}

// AppendEntries sends a heartbeat, or entries once heartbeats are answered.
func (c *catchUp) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	heartbeat := isHeartbeat(args)
	if !heartbeat {
		c.await(id, args.Term)
	}
	err := c.check(string(id))
	start := c.now()
	if err == nil {
		err = c.Transport.AppendEntries(id, target, args, resp)
	}
	if heartbeat {
		c.note(id, args.Term, err == nil)
	}
	if heartbeat && err == nil {
		end := c.now()
		c.trips.note(string(id), end-start, c.timeout(), end)
	}
	if err == nil {
		c.hear(id, args.Term, newest(args, resp))
		if !heartbeat && resp.Success {
			c.acknowledged(string(id), args.Term, args.PrevLogEntry+uint64(len(args.Entries)))
		}
	}
	return err
}

// isHeartbeat tells heartbeats as Raft's own transport does.
func isHeartbeat(a *raft.AppendEntriesRequest) bool {
	return a.PrevLogEntry == 0 && a.PrevLogTerm == 0 && len(a.Entries) == 0 && a.LeaderCommitIndex == 0
}

// newest returns the index of the newest entry in the log of a node that has answered so.
func newest(args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) uint64 {
	if n := len(args.Entries); n > 0 && resp.Success {
		return args.Entries[n-1].Index // LastLog is from before them
	}
	return resp.LastLog
}

// in returns what is known of a node in a term, or nil if there has been a later one. c.mu is held.
func (c *catchUp) in(id raft.ServerID, term uint64) *contact {
	k := c.contacts[id]
	switch {
	case k == nil:
	case k.term == term:
		return k
	case k.term > term:
		return nil
	default:
		k.answered()
	}
	k = &contact{term: term}
	c.contacts[id] = k
	return k
}

// answered lets go what waits for the node to answer heartbeats.
func (k *contact) answered() {
	if k.silent != nil {
		close(k.silent)
		k.silent = nil
	}
}

// note notes whether a node has answered a heartbeat.
func (c *catchUp) note(id raft.ServerID, term uint64, answered bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch k := c.in(id, term); {
	case k == nil:
	case answered:
		k.answered()
	case k.silent == nil:
		k.silent = make(chan struct{})
	}
}

// hear notes how far a node is that has answered.
func (c *catchUp) hear(id raft.ServerID, term, last uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.in(id, term); k != nil {
		k.heard, k.last, k.at = true, last, c.now()
	}
}

// await waits until a node answers that has not in a term, for as long as it is wanted.
func (c *catchUp) await(id raft.ServerID, term uint64) {
	for {
		silent := c.unanswered(id, term)
		changed, wanted := c.wanted(id)
		if silent == nil || !wanted {
			return
		}
		select {
		case <-silent:
		case <-changed:
		case <-c.ended:
			return
		}
	}
}

// unanswered returns a channel that is closed when a node answers heartbeats again, or nil if it does in a term.
func (c *catchUp) unanswered(id raft.ServerID, term uint64) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.contacts[id]; k != nil && k.term == term {
		return k.silent
	}
	return nil
}

// follower returns what is known of a node in a term. It answers if no heartbeat has failed since one
// was answered, and something was answered not longer ago than patience.
func (c *catchUp) follower(id string, term uint64, patience time.Duration) topology.Follower {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := topology.Follower{ID: id}
	if k := c.contacts[raft.ServerID(id)]; k != nil && k.term == term && k.heard {
		f.Last, f.Silent = k.last, c.now()-k.at
		f.Answers = k.silent == nil && f.Silent <= patience
	}
	return f
}

// followers returns what this node, which leads in a term, knows of the other members.
func (n *Node) followers(term uint64) (list []topology.Follower) {
	for _, m := range n.View().Members {
		if m.ID != n.config.Self.ID {
			list = append(list, n.contacts.follower(m.ID, term, n.heartbeat()))
		}
	}
	return list
}

// Close closes what can be closed, as Raft does at its end.
func (c *catchUp) Close() error {
	if closing, ok := c.Transport.(raft.WithClose); ok {
		return closing.Close()
	}
	return nil
}

// sendsTo reports whether entries for another node may wait: this node leads by Raft and the other is a
// member. While leadership is being handed over nothing may wait that Raft waits for in turn.
func (n *Node) sendsTo(id raft.ServerID) (changed <-chan struct{}, wanted bool) {
	v := n.View()
	l := n.leaderships.current()
	return v.Changed, v.Leader == v.Self && v.Find(string(id)) != nil && (l == nil || !l.leaving.Load())
}
