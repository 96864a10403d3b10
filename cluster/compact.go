package cluster

import (
	"errors"
	"log/slog"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/buckets"
)

const (
	// compactEvery is the interval at which the length of the log is checked.
	compactEvery = time.Second
	// minLog is the size, in bytes, that the entries since the last snapshot must have before another snapshot is
	// taken. A node that was down for a short time catches up faster from entries than from a snapshot.
	minLog = 256 << 20
	// logShare is another minimum for the size of these entries, as a multiple of the size of the state. The larger
	// minimum applies. A snapshot contains the whole state, so snapshots of a large state are taken less often.
	logShare = 4

	minTrailing, maxTrailing = 1000, 200_000 // limits of the number of entries that are kept after a snapshot

	// maxCompactPause is the maximum pause after a failed snapshot.
	maxCompactPause = time.Minute
)

// compactor makes Raft take a snapshot when the entries since the last snapshot exceed a number of bytes. Raft
// counts entries only, but the sizes of entries differ by a factor of up to ten thousand.
type compactor struct {
	fsm   *fsm
	table *buckets.Table
	raft  *raftHandle
	tuner *tuner
	life  *lifetime
	log   *slog.Logger
}

// run takes snapshots until the node is closed. After a failed snapshot it pauses. The pause doubles with each failure,
// up to maxCompactPause.
func (c *compactor) run() {
	ticker := time.NewTicker(compactEvery)
	defer ticker.Stop()
	last, pause, next := c.raft.AppliedIndex(), compactEvery, time.Time{}
	for {
		select {
		case <-c.life.ended():
			return
		case <-ticker.C:
		}
		grown, limit := c.fsm.grown.Load(), c.maxLog()
		if grown < limit || time.Now().Before(next) {
			continue
		}
		now := c.raft.AppliedIndex()
		c.keepTrailing(limit, grown, now-last)
		if err := c.raft.takeSnapshot(); err != nil && !errors.Is(err, raft.ErrNothingNewToSnapshot) {
			pause = min(2*pause, maxCompactPause)
			next = time.Now().Add(pause)
			c.log.Warn("cannot take a snapshot to shorten the log; check the disk of the data directory", "error", err, "retry_in", pause)
			continue
		}
		c.fsm.grown.Add(-grown)
		last, pause = now, compactEvery
	}
}

// maxLog returns the size of the entries since the last snapshot, in bytes, at which another snapshot is taken.
func (c *compactor) maxLog() int64 { return max(minLog, logShare*c.table.Usage().Bytes) }

// keepTrailing makes Raft keep about limit bytes of entries after a snapshot, based on the average size of recent
// entries.
func (c *compactor) keepTrailing(limit, grown int64, entries uint64) {
	if err := c.tuner.reload(func(s *raft.ReloadableConfig) { s.TrailingLogs = trailing(limit, grown, entries) }); err != nil {
		c.log.Warn("cannot change the number of entries behind a snapshot", "error", err)
	}
}

// trailing returns the number of entries that together have about limit bytes, but at least minTrailing and at most
// maxTrailing. It assumes the average size of the recent entries. The argument entries is the number of recent entries,
// and grown is their total size in bytes.
func trailing(limit, grown int64, entries uint64) uint64 {
	average := max(1, grown/int64(max(1, entries)))
	return min(maxTrailing, max(minTrailing, uint64(limit/average)))
}
