package cluster

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/topology"
)

const (
	// compactEvery is how often the length of the log is looked at.
	compactEvery = time.Second
	// leastLog is how many bytes of entries are kept at the least before a snapshot takes their
	// place: a node that was away comes back by entries, which is quicker.
	leastLog = 256 << 20
	// logShare is how many times as large as the state the log may grow: a snapshot writes
	// all of the state.
	logShare = 4

	leastTrailing, mostTrailing = 1000, 200_000 // entries that are kept behind a snapshot

	// mostPause is how long at the most there is no other attempt after snapshots that have failed.
	mostPause = time.Minute
)

// keepShort makes Raft take a snapshot when the log has grown by so many bytes: Raft itself
// counts entries, and one of ours can be as long as ten thousand others. After one that has failed it
// waits longer each time.
func (n *Node) keepShort() {
	ticker := time.NewTicker(compactEvery)
	defer ticker.Stop()
	last, pause, next := n.entriesApplied(), compactEvery, time.Time{}
	for {
		select {
		case <-n.ended:
			return
		case <-ticker.C:
		}
		grown, limit := n.fsm.grown.Load(), n.longestLog()
		if grown < limit || time.Now().Before(next) {
			continue
		}
		now := n.entriesApplied()
		n.keepTrailing(limit, grown, now-last)
		if err := n.Snapshot(); err != nil && !errors.Is(err, raft.ErrNothingNewToSnapshot) {
			pause = min(2*pause, mostPause)
			next = time.Now().Add(pause)
			n.log.Warn("the log stays long: no snapshot was taken", "error", err, "retry in", pause)
			continue
		}
		n.fsm.grown.Add(-grown)
		last, pause = now, compactEvery
	}
}

// Snapshot makes Raft write the committed state to a file, and delete the entries before it.
func (n *Node) Snapshot() error {
	if !n.begun() {
		return topology.ErrNoLeader
	}
	if err := n.raft.Snapshot().Error(); err != nil {
		return fmt.Errorf("take a snapshot: %w", err)
	}
	return nil
}

func (n *Node) entriesApplied() uint64 { return n.raft.AppliedIndex() }

// longestLog returns at how many bytes of new entries a snapshot is due.
func (n *Node) longestLog() int64 { return max(leastLog, logShare*n.table.Usage().Bytes) }

// keepTrailing makes Raft keep about so many bytes of entries behind a snapshot, by the length
// of the latest ones.
func (n *Node) keepTrailing(limit, grown int64, entries uint64) {
	if err := n.reload(func(s *raft.ReloadableConfig) { s.TrailingLogs = trailing(limit, grown, entries) }); err != nil {
		n.log.Warn("the number of entries behind a snapshot stays", "error", err)
	}
}

// trailing returns how many entries take limit bytes, if so many took grown.
func trailing(limit, grown int64, entries uint64) uint64 {
	average := max(1, grown/int64(max(1, entries)))
	return min(mostTrailing, max(leastTrailing, uint64(limit/average)))
}
