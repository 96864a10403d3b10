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

// promoteLag is the maximum number of committed entries that a node may be behind when it is promoted to a voter.
const promoteLag = 1000

// Errors returned if a node may not join.
var (
	ErrUsed    = errors.New("this id was used with a different data directory; add the node under another id")
	ErrRemoved = errors.New("the node was removed from the cluster; add it under another id")
)

// Dependencies of membership, as interfaces for tests.
type (
	// memberRaft is implemented by *raftHandle.
	memberRaft interface {
		AddNonvoter(id raft.ServerID, address raft.ServerAddress, previous uint64, within time.Duration) raft.IndexFuture
		AddVoter(id raft.ServerID, address raft.ServerAddress, previous uint64, within time.Duration) raft.IndexFuture
		RemoveServer(id raft.ServerID, previous uint64, within time.Duration) raft.IndexFuture
		Apply(entry []byte, within time.Duration) raft.ApplyFuture
		CommitIndex() uint64
	}
	// memberView is implemented by *observer.
	memberView interface {
		View() *topology.View
		refresh() // publishes a new view if the members have changed
	}
	// leaderRole is implemented by *leader.
	leaderRole interface {
		leads() bool
		handOver(ctx context.Context, id string) error
		// followers returns the progress of the other members, or nil if this node is not the leader.
		followers() []topology.Follower
	}
	// leaderAsker sends a question to the leader, which must be a different node.
	leaderAsker interface {
		askLeader(ctx context.Context, q Question) error
	}
)

// membership changes the members of the cluster while this node is the leader. Only one change can be in progress.
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

	change sync.Mutex // held during a change
}

// exclusively calls f with s.change held. It returns topology.ErrChanging if another change is in progress, and
// topology.ErrNoLeader if this node is not the leader.
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

// Add adds a node as a nonvoter.
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
		return fmt.Errorf("add %s at %s: %w", id, addr, outcomeError(err))
	}
	s.log.Info("a node has joined and has no vote yet", "node", id, "address", addr)
	s.view.refresh()
	return nil
}

// admit adds a node that has asked to join. A node that has lost its data must join under a new id, because the data
// contained its votes and the entries that it has acknowledged. A removed node is not added again, because its private
// key may be compromised.
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

// announce appends an announcement to the log, unless the log already contains it.
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

// promote makes a node a voter if it has caught up and runs with the current heartbeat. It returns nil and changes
// nothing if the node is not ready or is already a voter.
func (s *membership) promote(ctx context.Context, q *Question) error {
	return s.exclusively(func() error {
		m := s.find(q.Node.ID)
		switch {
		case m == nil:
			return topology.ErrUnknown
		case s.announced.of(m.ID).Incarnation != q.Node.Incarnation:
			return fmt.Errorf("%s: %w", m.ID, ErrUsed)
		}
		if err := s.setting.proposing.lockContext(ctx); err != nil {
			return fmt.Errorf("promote %s to a voter: %w", m.ID, err)
		}
		defer s.setting.proposing.Unlock()
		if m.Voter || q.Applied+promoteLag < s.raft.CommitIndex() || q.Version != s.setting.replicated().Version {
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
		return fmt.Errorf("promote %s to a voter: %w", m.ID, outcomeError(err))
	}
	s.log.Info("a node has caught up and has a vote now", "node", m.ID)
	s.view.refresh()
	return nil
}

// Remove removes a node from the cluster. If the node is the leader itself, Remove first hands over leadership.
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
			return fmt.Errorf("remove %s: %w", id, outcomeError(err))
		}
		s.view.refresh()
		return nil
	})
}

// leave hands over leadership, and then asks the next leader to remove this node.
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
		if v.Leading { // this node was elected again
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
			return fmt.Errorf("remove %s: %w", s.self, outcomeError(ctx.Err()))
		case <-v.Changed:
		case <-time.After(retryEvery):
		}
	}
}

// canRemove reports whether a node can be removed: a majority of the voters that remain after the removal must respond
// to heartbeats.
func (s *membership) canRemove(id string) bool {
	status := topology.Status{Followers: s.leader.followers()}
	remaining, answering := 0, 0
	for _, m := range voters(s.view.View()) {
		if m.ID == id {
			continue
		}
		remaining++
		if f := status.Follower(m.ID); f == nil || f.Answers { // nil for this node only
			answering++
		}
	}
	return remaining > 0 && answering >= remaining/2+1
}

// Transfer transfers leadership to the voter with the given id, or to the most up-to-date voter if id is empty.
func (s *membership) Transfer(ctx context.Context, id string) error {
	m := s.find(id)
	switch {
	case !s.leader.leads():
		return topology.ErrNoLeader
	case id != "" && (m == nil || !m.Voter):
		return fmt.Errorf("transfer to %s, which is not a voter: %w", id, topology.ErrUnknown)
	case id == s.self:
		return fmt.Errorf("transfer to %s, which is already the leader: %w", id, topology.ErrRefused)
	case len(voters(s.view.View())) < 2:
		return fmt.Errorf("transfer: there is no other voter: %w", topology.ErrRefused)
	}
	return s.exclusively(func() error {
		ctx, cancel := context.WithTimeout(ctx, 3*s.setting.heartbeat())
		defer cancel()
		return s.leader.handOver(ctx, id)
	})
}
