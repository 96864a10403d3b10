package cluster

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/topology"
)

const (
	// promoteLag is how many entries a node may lack and be given a vote.
	promoteLag = 1000
	// changeWithin is how long a change of the cluster may take at the most.
	changeWithin = 5 * time.Second
)

// Dial opens a stream to a node, on which it serves commands of clients.
func (n *Node) Dial(ctx context.Context, id string) (net.Conn, error) {
	m := n.find(id)
	if m == nil || n.config.Peers == nil {
		return nil, fmt.Errorf("dial %q: %w", id, topology.ErrUnknown)
	}
	return n.config.Peers.Dial(ctx, *m)
}

// change runs one change of the cluster, if no other is in progress.
func (n *Node) change(f func() error) error {
	if !n.changing.TryLock() {
		return topology.ErrChanging
	}
	defer n.changing.Unlock()
	if n.leaderships.current() == nil {
		return topology.ErrNoLeader
	}
	return f()
}

// put hands Raft a change and waits until it is committed, or for ctx to end: the change may then still
// take place. Raft lets the next one wait until it has been decided, and never decides it once it is shut
// down: so Close waits for those that there are, and there are none after that.
func (n *Node) put(ctx context.Context, give func(within time.Duration) raft.Future) error {
	ctx, cancel := context.WithTimeout(ctx, changeWithin)
	defer cancel()
	end, _ := ctx.Deadline() // there is one now
	left := time.Until(end)
	if left <= 0 { // for Raft, that is to wait for ever
		return context.DeadlineExceeded
	}
	done := make(chan error, 1)
	if !n.give(func() {
		f := give(min(left, enqueueWithin))
		n.running.Go(func() { done <- f.Error() })
	}) {
		return errEnded
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// give runs f unless the node has ended, which it does not do meanwhile.
func (n *Node) give(f func()) bool {
	if !n.giving.enter() {
		return false
	}
	defer n.giving.leave()
	f()
	return true
}

// Add lets a node join without a vote.
func (n *Node) Add(ctx context.Context, id, addr string) error {
	return n.change(func() error {
		if n.find(id) != nil {
			return fmt.Errorf("add %s at %s: %w", id, addr, topology.ErrMember)
		}
		return n.addNonvoter(ctx, id, addr)
	})
}

func (n *Node) addNonvoter(ctx context.Context, id, addr string) error {
	if other := n.NodeAt(addr); other != "" && other != id {
		return fmt.Errorf("add %s at %s, where %s is: %w", id, addr, other, topology.ErrMember)
	}
	err := n.put(ctx, func(within time.Duration) raft.Future {
		return n.raft.AddNonvoter(raft.ServerID(id), raft.ServerAddress(addr), 0, within)
	})
	if err != nil {
		return fmt.Errorf("add %s at %s: %w", id, addr, err)
	}
	n.log.Info("a node has joined and has no vote yet", "node", id, "address", addr)
	n.refresh()
	return nil
}

// admit lets in a node that asks for it. One that has lost its data must come under another
// id: it has forgotten for whom it has voted, and what it has told the leader that it has. One that
// was removed does not come back by itself: its key may be in other hands.
func (n *Node) admit(ctx context.Context, q *Question) error {
	if known := n.incarnation(q.Node.ID); known != "" && known != q.Node.Incarnation {
		return fmt.Errorf("%s: %w", q.Node.ID, ErrUsed)
	}
	err := n.change(func() error {
		m := n.find(q.Node.ID)
		switch {
		case m != nil && m.Raft == q.Raft:
			return nil
		case m == nil && n.incarnation(q.Node.ID) != "":
			return fmt.Errorf("%s: %w", q.Node.ID, ErrRemoved)
		}
		return n.addNonvoter(ctx, q.Node.ID, q.Raft)
	})
	if err != nil {
		return err
	}
	return n.propose(ctx, q.Node)
}

// incarnation returns that of a node by what it has announced, or "".
func (n *Node) incarnation(id string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.fsm.announced[id].Incarnation
}

// propose writes what a node announces to the log, unless that says so already.
func (n *Node) propose(ctx context.Context, a *Announcement) error {
	n.mu.Lock()
	known := n.fsm.announced[a.ID]
	n.mu.Unlock()
	switch {
	case known == a.kept():
		return nil
	case known.Incarnation != "" && known.Incarnation != a.Incarnation:
		return fmt.Errorf("%s: %w", a.ID, ErrUsed)
	}
	if r := n.memory.of(a.ID); a.Boot > 0 && r.outdates(a) {
		return r.outdated(a)
	}
	entry, err := a.entry()
	if err != nil {
		return err
	}
	if err := n.put(ctx, func(within time.Duration) raft.Future { return n.raft.Apply(entry, within) }); err != nil {
		return fmt.Errorf("announce %s: %w", a.ID, err)
	}
	return nil
}

// promote gives a node a vote that has caught up.
func (n *Node) promote(ctx context.Context, q *Question) error {
	return n.change(func() error {
		m := n.find(q.Node.ID)
		switch {
		case m == nil:
			return topology.ErrUnknown
		case n.incarnation(m.ID) != q.Node.Incarnation:
			return fmt.Errorf("%s: %w", m.ID, ErrUsed)
		}
		if err := n.pulse.proposing.LockContext(ctx); err != nil {
			return fmt.Errorf("give %s a vote: %w", m.ID, err)
		}
		defer n.pulse.proposing.Unlock()
		if m.Voter || q.Applied+promoteLag < n.raft.CommitIndex() || q.Version != n.pulse.known().Version {
			return nil
		}
		err := n.put(ctx, func(within time.Duration) raft.Future {
			return n.raft.AddVoter(raft.ServerID(m.ID), raft.ServerAddress(m.Raft), 0, within)
		})
		if err != nil {
			return fmt.Errorf("give %s a vote: %w", m.ID, err)
		}
		n.log.Info("a node has caught up and votes", "node", m.ID)
		n.refresh()
		return nil
	})
}

// Remove takes a node out. To take out the node that leads, it is made to follow first.
func (n *Node) Remove(ctx context.Context, id string) error {
	if id == n.config.Self.ID && n.leaderships.current() != nil {
		return n.leave(ctx)
	}
	return n.change(func() error {
		if n.find(id) == nil {
			return fmt.Errorf("remove %s: %w", id, topology.ErrUnknown)
		}
		if !n.canLose(id) {
			return fmt.Errorf("remove %s: %w", id, topology.ErrRefused)
		}
		err := n.put(ctx, func(within time.Duration) raft.Future {
			return n.raft.RemoveServer(raft.ServerID(id), 0, within)
		})
		if err != nil {
			return fmt.Errorf("remove %s: %w", id, err)
		}
		n.refresh()
		return nil
	})
}

// leave hands leadership over, and asks the next leader to take this node out.
func (n *Node) leave(ctx context.Context) error {
	self := n.config.Self.ID
	if !n.canLose(self) {
		return fmt.Errorf("remove %s: %w", self, topology.ErrRefused)
	}
	if err := n.handOver(ctx, ""); err != nil {
		return fmt.Errorf("remove %s: %w", self, err)
	}
	q := Question{About: aboutRemoval, Node: &Announcement{ID: self}}
	for {
		v := n.View()
		if v.Leading { // it has been elected again
			if err := n.handOver(ctx, ""); err != nil {
				return fmt.Errorf("remove %s: %w", self, err)
			}
		}
		if v.Leader != "" && v.Leader != self {
			if err := n.askLeader(ctx, q); err == nil {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("remove %s: %w", self, ctx.Err())
		case <-v.Changed:
		case <-time.After(retryEvery):
		}
	}
}

// canLose reports whether the voters that would be left without a node, and that answer, are a
// majority of those left.
func (n *Node) canLose(id string) bool {
	status := n.Status()
	left, alive := 0, 0
	for _, m := range n.voters() {
		if m.ID == id {
			continue
		}
		left++
		if f := status.Follower(m.ID); f == nil || f.Answers { // only this node itself is no follower
			alive++
		}
	}
	return left > 0 && alive >= left/2+1
}

// Transfer hands leadership over.
func (n *Node) Transfer(ctx context.Context, id string) error {
	m := n.find(id)
	switch {
	case n.leaderships.current() == nil:
		return topology.ErrNoLeader
	case id != "" && (m == nil || !m.Voter):
		return fmt.Errorf("transfer to %s: it is no voter: %w", id, topology.ErrUnknown)
	case id == n.config.Self.ID:
		return fmt.Errorf("transfer to %s: it leads already: %w", id, topology.ErrRefused)
	case len(n.voters()) < 2:
		return fmt.Errorf("transfer: there is no other voter: %w", topology.ErrRefused)
	}
	return n.change(func() error {
		ctx, cancel := context.WithTimeout(ctx, n.heartbeat()*3)
		defer cancel()
		return n.handOver(ctx, id)
	})
}
