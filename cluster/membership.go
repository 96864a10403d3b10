package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/topology"
)

// promoteLag is how many entries a node may lack when it gets a vote.
const promoteLag = 1000

// The errors with which a change of members is rejected.
var (
	ErrUsed    = errors.New("the cluster has known a node of that id with other data; add the node under another id")
	ErrRemoved = errors.New("the node was removed from the cluster; add it under another id")
)

// The parts of a node that a change of members uses.
type (
	// memberRaft is the part of Raft that changes members.
	memberRaft interface {
		AddNonvoter(id raft.ServerID, address raft.ServerAddress, previous uint64, within time.Duration) raft.IndexFuture
		AddVoter(id raft.ServerID, address raft.ServerAddress, previous uint64, within time.Duration) raft.IndexFuture
		RemoveServer(id raft.ServerID, previous uint64, within time.Duration) raft.IndexFuture
		Apply(entry []byte, within time.Duration) raft.ApplyFuture
		CommitIndex() uint64
	}
	// memberView is the view of the node.
	memberView interface {
		View() *topology.View
		refresh() // makes a new view after a change
	}
	// leaderRole is the leadership of the node.
	leaderRole interface {
		leads() bool
		handOver(ctx context.Context, id string) error
		// followers returns the progress of the other members; nil if the node does not lead.
		followers() []topology.Follower
	}
	// leaderAsker asks the leader, which is another node.
	leaderAsker interface {
		askLeader(ctx context.Context, q Question) error
	}
)

// membership changes the members of the cluster, one at a time, while the node leads.
type membership struct {
	self      string
	raft      memberRaft
	view      memberView
	leader    leaderRole
	peers     leaderAsker
	announced *announcements
	records   *nodeRecords
	setting   *heartbeatSetting
	life      *lifetime
	log       *slog.Logger

	change sync.Mutex // held while the members are changed
}

// exclusively calls f unless another change is in progress.
func (s *membership) exclusively(f func() error) error {
	if !s.change.TryLock() {
		return topology.ErrChanging
	}
	defer s.change.Unlock()
	if !s.leader.leads() {
		return topology.ErrNoLeader
	}
	return f()
}

func (s *membership) find(id string) *topology.Member { return s.view.View().Find(id) }

// Add adds a node without a vote.
func (s *membership) Add(ctx context.Context, id, addr string) error {
	return s.exclusively(func() error {
		if s.find(id) != nil {
			return fmt.Errorf("add %s at %s: %w", id, addr, topology.ErrMember)
		}
		return s.addNonvoter(ctx, id, addr)
	})
}

func (s *membership) addNonvoter(ctx context.Context, id, addr string) error {
	if other := idAt(s.view.View(), addr); other != "" && other != id {
		return fmt.Errorf("add %s at %s, the address of %s: %w", id, addr, other, topology.ErrMember)
	}
	err := s.life.submit(ctx, func(within time.Duration) raft.Future {
		return s.raft.AddNonvoter(raft.ServerID(id), raft.ServerAddress(addr), 0, within)
	})
	if err != nil {
		return fmt.Errorf("add %s at %s: %w", id, addr, err)
	}
	s.log.Info("a node has joined and has no vote yet", "node", id, "address", addr)
	s.view.refresh()
	return nil
}

// admit adds a node at its own request. A node that has lost its data must join under another id: it has forgotten its
// votes and the entries that it has acknowledged. A removed node is not added again, as its key may be compromised.
func (s *membership) admit(ctx context.Context, q *Question) error {
	if known := s.announced.of(q.Node.ID).Incarnation; known != "" && known != q.Node.Incarnation {
		return fmt.Errorf("%s: %w", q.Node.ID, ErrUsed)
	}
	err := s.exclusively(func() error {
		m := s.find(q.Node.ID)
		switch {
		case m != nil && m.Raft == q.Raft:
			return nil
		case m == nil && s.announced.of(q.Node.ID).Incarnation != "":
			return fmt.Errorf("%s: %w", q.Node.ID, ErrRemoved)
		}
		return s.addNonvoter(ctx, q.Node.ID, q.Raft)
	})
	if err != nil {
		return err
	}
	return s.announce(ctx, q.Node)
}

// announce writes an announcement to the log, unless the log has it.
func (s *membership) announce(ctx context.Context, a *Announcement) error {
	known := s.announced.of(a.ID)
	switch {
	case known == a.stored():
		return nil
	case known.Incarnation != "" && known.Incarnation != a.Incarnation:
		return fmt.Errorf("%s: %w", a.ID, ErrUsed)
	}
	if r := s.records.of(a.ID); a.Boot > 0 && r.outdates(a) {
		return r.outdated(a)
	}
	entry, err := a.entry()
	if err != nil {
		return err
	}
	if err := s.life.submit(ctx, func(within time.Duration) raft.Future { return s.raft.Apply(entry, within) }); err != nil {
		return fmt.Errorf("announce %s: %w", a.ID, err)
	}
	return nil
}

// promote gives a vote to a node that has caught up and runs with the heartbeat in force. It does nothing if the node is
// not ready.
func (s *membership) promote(ctx context.Context, q *Question) error {
	return s.exclusively(func() error {
		m := s.find(q.Node.ID)
		switch {
		case m == nil:
			return topology.ErrUnknown
		case s.announced.of(m.ID).Incarnation != q.Node.Incarnation:
			return fmt.Errorf("%s: %w", m.ID, ErrUsed)
		}
		if err := s.setting.proposing.LockContext(ctx); err != nil {
			return fmt.Errorf("give %s a vote: %w", m.ID, err)
		}
		defer s.setting.proposing.Unlock()
		if m.Voter || q.Applied+promoteLag < s.raft.CommitIndex() || q.Version != s.setting.known().Version {
			return nil
		}
		return s.addVoter(ctx, m)
	})
}

func (s *membership) addVoter(ctx context.Context, m *topology.Member) error {
	err := s.life.submit(ctx, func(within time.Duration) raft.Future {
		return s.raft.AddVoter(raft.ServerID(m.ID), raft.ServerAddress(m.Raft), 0, within)
	})
	if err != nil {
		return fmt.Errorf("give %s a vote: %w", m.ID, err)
	}
	s.log.Info("a node has caught up and has a vote now", "node", m.ID)
	s.view.refresh()
	return nil
}

// Remove removes a node. If it is the leader, it hands leadership over first.
func (s *membership) Remove(ctx context.Context, id string) error {
	if id == s.self && s.leader.leads() {
		return s.leave(ctx)
	}
	return s.exclusively(func() error {
		if s.find(id) == nil {
			return fmt.Errorf("remove %s: %w", id, topology.ErrUnknown)
		}
		if !s.canRemove(id) {
			return fmt.Errorf("remove %s: %w", id, topology.ErrRefused)
		}
		err := s.life.submit(ctx, func(within time.Duration) raft.Future {
			return s.raft.RemoveServer(raft.ServerID(id), 0, within)
		})
		if err != nil {
			return fmt.Errorf("remove %s: %w", id, err)
		}
		s.view.refresh()
		return nil
	})
}

// leave hands leadership over, and asks the next leader to remove this node.
func (s *membership) leave(ctx context.Context) error {
	if !s.canRemove(s.self) {
		return fmt.Errorf("remove %s: %w", s.self, topology.ErrRefused)
	}
	if err := s.leader.handOver(ctx, ""); err != nil {
		return fmt.Errorf("remove %s: %w", s.self, err)
	}
	q := Question{About: topicRemove, Node: &Announcement{ID: s.self}}
	for {
		v := s.view.View()
		if v.Leading { // it was elected again
			if err := s.leader.handOver(ctx, ""); err != nil {
				return fmt.Errorf("remove %s: %w", s.self, err)
			}
		}
		if v.Leader != "" && v.Leader != s.self {
			if err := s.peers.askLeader(ctx, q); err == nil {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("remove %s: %w", s.self, ctx.Err())
		case <-v.Changed:
		case <-time.After(retryEvery):
		}
	}
}

// canRemove reports whether a majority of the voters except one answers.
func (s *membership) canRemove(id string) bool {
	status := topology.Status{Followers: s.leader.followers()}
	remaining, answering := 0, 0
	for _, m := range voters(s.view.View()) {
		if m.ID == id {
			continue
		}
		remaining++
		if f := status.Follower(m.ID); f == nil || f.Answers { // only this node itself is not a follower
			answering++
		}
	}
	return remaining > 0 && answering >= remaining/2+1
}

// Transfer transfers leadership to a voter, or to the most advanced one if id is empty.
func (s *membership) Transfer(ctx context.Context, id string) error {
	m := s.find(id)
	switch {
	case !s.leader.leads():
		return topology.ErrNoLeader
	case id != "" && (m == nil || !m.Voter):
		return fmt.Errorf("transfer to %s, which is not a voter: %w", id, topology.ErrUnknown)
	case id == s.self:
		return fmt.Errorf("transfer to %s, which leads already: %w", id, topology.ErrRefused)
	case len(voters(s.view.View())) < 2:
		return fmt.Errorf("transfer: there is no other voter: %w", topology.ErrRefused)
	}
	return s.exclusively(func() error {
		ctx, cancel := context.WithTimeout(ctx, 3*s.setting.heartbeat())
		defer cancel()
		return s.leader.handOver(ctx, id)
	})
}
