package cluster

import (
	"fmt"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/topology"
)

// raftHandle gives the parts of a node access to Raft, which is started after the parts are created. The methods of
// Raft must not be called before started returns true.
type raftHandle struct {
	*raft.Raft
	isSet atomic.Bool
}

func (h *raftHandle) set(r *raft.Raft) {
	h.Raft = r
	h.isSet.Store(true)
}

// started reports whether Raft has been started.
func (h *raftHandle) started() bool { return h.isSet.Load() }

// leaderTerm identifies a leader and the Raft term in which it is the leader.
type leaderTerm struct {
	leader string
	term   uint64
}

// leading returns the leader according to Raft, and the term. The leader is "" if Raft has no leader at present.
func (h *raftHandle) leading() leaderTerm {
	_, leader := h.LeaderWithID()
	return leaderTerm{string(leader), h.CurrentTerm()}
}

// isVoter reports whether a server in a configuration is a voter.
func isVoter(s raft.Server) bool { return s.Suffrage == raft.Voter }

// servers returns the members in the newest configuration.
func (h *raftHandle) servers() []raft.Server { return h.GetConfiguration().Configuration().Servers }

// takeSnapshot makes Raft write a snapshot of the committed state and delete older entries.
func (h *raftHandle) takeSnapshot() error {
	if !h.started() {
		return topology.ErrNoLeader
	}
	if err := h.Snapshot().Error(); err != nil {
		return fmt.Errorf("take a snapshot: %w", err)
	}
	return nil
}

// entryID identifies an entry of the log.
type entryID struct {
	Index uint64 `json:"index"`
	Term  uint64 `json:"term"`
}

// lastEntry returns the newest entry in the log or in the snapshots.
func lastEntry(logs raft.LogStore, snapshots raft.SnapshotStore) (last entryID, err error) {
	list, err := snapshots.List()
	if err != nil {
		return last, err
	}
	for _, s := range list {
		if s.Index > last.Index {
			last = entryID{s.Index, s.Term}
		}
	}
	index, err := logs.LastIndex()
	if err != nil || index <= last.Index {
		return last, err
	}
	var log raft.Log
	err = logs.GetLog(index, &log)
	return entryID{log.Index, log.Term}, err
}

// storedTerm returns the current term that Raft has stored. It returns 0 if no term is stored, or if the term cannot be
// read. The caller need not handle the read error, because Raft then fails to start.
func storedTerm(stable raft.StableStore) uint64 {
	term, err := stable.GetUint64([]byte("CurrentTerm"))
	if err != nil {
		return 0
	}
	return term
}

func firstConfiguration(members []topology.Member) (c raft.Configuration) {
	for _, m := range members {
		c.Servers = append(c.Servers, raft.Server{Suffrage: raft.Voter, ID: raft.ServerID(m.ID), Address: raft.ServerAddress(m.Raft)})
	}
	return c
}
