package cluster

import (
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/internal/failpoint"
)

// logClock keeps the log time of a node. It holds the Clock used for decisions, the arrival times of entries, and the
// state from which log time is derived after this node, or the whole cluster, has restarted.
type logClock struct {
	*Clock
	wall   func() time.Time // wall clock
	stable raft.StableStore // holds the wall offset
	log    *slog.Logger

	arrivals  *arrivals // nil before Raft is started
	bootIndex uint64    // last entry of the log when this process began
	bootTerm  uint64    // newest term that this node knew then

	mu     sync.Mutex // after the lock of the applied state, before Clock.mu
	newest stamp
	live   bool       // an entry was applied that was decided while this process was running
	offset wallOffset // written by keepOffset only
}

// stamp is the part of an entry with changes, besides its log time, that later log times depend on.
type stamp struct {
	term uint64 // term in which it was decided
	wall int64  // wall time of the leader then
}

// begin records the last entry and term of the log at the start of this process, and loads the wall offset that the
// previous process has stored.
func (c *logClock) begin(lastIndex, knownTerm uint64) {
	c.bootIndex, c.bootTerm = lastIndex, knownTerm
	c.loadOffset()
}

// observe returns a log store that records the arrival times of entries.
func (c *logClock) observe(logs raft.LogStore) raft.LogStore {
	c.arrivals = &arrivals{LogStore: logs, now: c.monotonic}
	return c.arrivals
}

// arrivalOf returns the arrival time of an entry, on the monotonic clock. It must be called once for each entry, as it
// frees the memory of the arrival.
func (c *logClock) arrivalOf(log *raft.Log) time.Duration {
	if c.arrivals == nil { // entries are applied without Raft
		return c.monotonic()
	}
	return c.arrivals.take(log.Index, log.Term)
}

// isFresh reports whether an entry was decided while this process was running. current is the current term. An entry that
// was sent after the start may be as old as those in the log at the start. But the present leader has been up since its
// term began, and a term that this node did not know at its start is usually newer than the start. If it is not, time is
// lost, not gained.
func (c *logClock) isFresh(log *raft.Log, current uint64) bool {
	return log.Index > c.bootIndex && (log.Term > c.bootTerm || log.Term == current)
}

// record records that an entry has been applied. readAt is the time at which its log time was read if this node has
// submitted it, and otherwise its arrival time.
func (c *logClock) record(e *changes, readAt time.Duration, fresh bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.applied(e.time, readAt)
	c.newest = stamp{e.term, e.wall}
	c.live = c.live || fresh
}

// restore sets the clock to the newest entry in a snapshot, which may be older than the newest one applied.
func (c *logClock) restore(h *head) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.restored(h.Time)
	c.newest = stamp{h.Term, h.Wall}
}

// save stores the newest applied entry in the head of a snapshot.
func (c *logClock) save(h *head) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h.Time, h.Term, h.Wall = c.lastApplied(), c.newest.term, c.newest.wall
}

// replayTime returns the time up to which records expire when an entry is applied.
func (c *logClock) replayTime(e *changes) uint64 {
	if failpoint.Is(failpoint.LocalExpiry) {
		return uint64(max(0, c.wall().UnixNano()))
	}
	return e.time
}

// answer returns the log time as far as this node knows it.
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
