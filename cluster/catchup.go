package cluster

import (
	"sync"

	"github.com/hashicorp/raft"
)

// catchUp is the transport of Raft, with one thing changed: while a node does not answer heartbeats,
// entries for it wait. Raft would try to send them again and again, the longer it has failed the more
// rarely, up to ten seconds apart. A node that comes back would wait for as long until it got
// any, and be no help to those who are there.
type catchUp struct {
	raft.Transport
	raft.WithPreVote
	// wanted reports whether this node is to send entries to another, and returns what is closed when
	// that may have changed.
	wanted func(raft.ServerID) (changed <-chan struct{}, wanted bool)
	ended  <-chan struct{} // closed when this node ends

	mu     sync.Mutex
	silent map[raft.ServerID]silence // nodes that do not answer
}

// silence is that of a node. What was so in another term says nothing: Raft sends entries at once when
// it begins to lead, and the first heartbeat a while later.
type silence struct {
	term uint64
	over chan struct{} // closed when the node answers
}

// newCatchUp returns t with that change.
func (n *Node) newCatchUp(t raft.Transport) raft.Transport {
	voting, ok := t.(raft.WithPreVote)
	if !ok {
		return t
	}
	return &catchUp{Transport: t, WithPreVote: voting, wanted: n.sendsTo, ended: n.ended, silent: map[raft.ServerID]silence{}}
}

// AppendEntries sends a heartbeat, or entries once heartbeats are answered.
func (c *catchUp) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if !isHeartbeat(args) {
		c.await(id, args.Term)
		return c.Transport.AppendEntries(id, target, args, resp)
	}
	err := c.Transport.AppendEntries(id, target, args, resp)
	c.note(id, args.Term, err == nil)
	return err
}

// isHeartbeat tells heartbeats as Raft's own transport does.
func isHeartbeat(a *raft.AppendEntriesRequest) bool {
	return a.PrevLogEntry == 0 && a.PrevLogTerm == 0 && len(a.Entries) == 0 && a.LeaderCommitIndex == 0
}

// note notes whether a node has answered a heartbeat.
func (c *catchUp) note(id raft.ServerID, term uint64, answered bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, silent := c.silent[id]
	if silent && (answered || s.term != term) {
		delete(c.silent, id)
		close(s.over)
		silent = false
	}
	if !answered && !silent {
		c.silent[id] = silence{term, make(chan struct{})}
	}
}

// await waits until a node answers that has not in a term, for as long as it is wanted.
func (c *catchUp) await(id raft.ServerID, term uint64) {
	for {
		c.mu.Lock()
		s, silent := c.silent[id]
		c.mu.Unlock()
		changed, wanted := c.wanted(id)
		if !silent || s.term != term || !wanted {
			return
		}
		select {
		case <-s.over:
		case <-changed:
		case <-c.ended:
			return
		}
	}
}

// Close closes what can be closed, as Raft does at its end.
func (c *catchUp) Close() error {
	if closing, ok := c.Transport.(raft.WithClose); ok {
		return closing.Close()
	}
	return nil
}

// sendsTo reports whether this node leads by Raft and another is a member.
func (n *Node) sendsTo(id raft.ServerID) (changed <-chan struct{}, wanted bool) {
	v := n.View()
	return v.Changed, v.Leader == v.Self && v.Find(string(id)) != nil
}
