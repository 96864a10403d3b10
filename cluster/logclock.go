package cluster

import (
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/internal/failpoint"
)

// logClock maintains the log time of a node. It holds the Clock used for decisions, the arrival times of entries, and
// the state from which log time is derived after a restart of this node or of the whole cluster.
type logClock struct {
	*Clock
	wall   func() time.Time // wall clock
	stable raft.StableStore // holds the wall offset
	log    *slog.Logger

	arrivals  *arrivals // nil before Raft is started
	bootIndex uint64    // index of the last entry in the log when this process started
	bootTerm  uint64    // Raft term that was stored when this process started

	mu     sync.Mutex // acquired after the lock of the applied state and before Clock.mu
	newest stamp
	live   bool       // this process has applied an entry that was decided while the process was running
	offset wallOffset // written by keepOffset only
}

// stamp contains the term and the wall time of the newest applied entry. After a restart, log time is derived from
// these values and from the log time of the entry.
type stamp struct {
	term uint64 // term in which the entry was decided
	wall int64  // wall time of the leader when the entry was decided, in nanoseconds
}

// begin records the last entry in the log and the term when this process started, and loads the wall offset that the
// previous process stored.
func (c *logClock) begin(lastIndex, knownTerm uint64) {
	c.bootIndex, c.bootTerm = lastIndex, knownTerm
	c.loadOffset()
}

// observe wraps a log store to record the arrival times of entries.
func (c *logClock) observe(logs raft.LogStore) raft.LogStore {
	c.arrivals = &arrivals{LogStore: logs, now: c.monotonic}
	return c.arrivals
}

// arrivalOf returns the arrival time of an entry on the monotonic clock, and removes it from the recorded arrival
// times. It must be called exactly once for each applied entry.
func (c *logClock) arrivalOf(log *raft.Log) time.Duration {
	if c.arrivals == nil { // entries are applied without Raft
		return c.monotonic()
	}
	return c.arrivals.take(log.Index, log.Term)
}

// isFresh reports whether an entry was decided while this process was running. current is the current term.
//
// An entry that arrived after the start may have been decided before the start. isFresh therefore also requires one of
// two conditions. The first is that the entry is from the current term: the leader of this term has not restarted since
// the term began, and newer entries from it follow. The second is that the entry is from a later term than the term
// stored at the start: a later term usually began after the start. If isFresh returns true for an entry that was
// decided before the start, log time falls behind, but never runs ahead.
func (c *logClock) isFresh(log *raft.Log, current uint64) bool {
	return log.Index > c.bootIndex && (log.Term > c.bootTerm || log.Term == current)
}

// record records that an entry was applied. If this node has submitted the entry, readAt is the time at which this node
// read the log time of the entry. Otherwise readAt is the arrival time of the entry. fresh is the result of isFresh.
func (c *logClock) record(e *changes, readAt time.Duration, fresh bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.applied(e.time, readAt)
	c.newest = stamp{e.term, e.wall}
	c.live = c.live || fresh
}

// restore sets the clock to the log time of the newest entry in a snapshot, which may be older than the newest applied
// entry.
func (c *logClock) restore(h *head) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.restored(h.Time)
	c.newest = stamp{h.Term, h.Wall}
}

// save stores the log time, term and wall time of the newest applied entry in the head of a snapshot.
func (c *logClock) save(h *head) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h.Time, h.Term, h.Wall = c.lastApplied(), c.newest.term, c.newest.wall
}

// replayTime returns the log time of an entry. It determines which records have expired when the entry is applied.
func (c *logClock) replayTime(e *changes) uint64 {
	if failpoint.Is(failpoint.LocalExpiry) {
		return uint64(max(0, c.wall().UnixNano()))
	}
	return e.time
}

// answer returns this node's estimates of the log time.
func (c *logClock) answer() timeAnswer {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.lastApplied()
	a := timeAnswer{Term: c.newest.term, ByWall: c.byWall(last)}
	if last > 0 {
		a.Live, a.Now = c.live, c.estimate()
	}
	return a
}
