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
	stable raft.StableStore // holds the wall offset
	log    *slog.Logger

	arrivals  *arrivals // nil before Raft is started
	bootIndex uint64    // the last entry that was in the log when this process began
	bootTerm  uint64    // the newest term that this node knew of then

	mu     sync.Mutex // after Node.mu, before Clock.mu
	newest stamp
	live   bool       // an entry has come in that was decided while this process was running
	offset wallOffset // written by keepOffset only
}

// stamp is the part of an entry with changes, besides its log time, that later log times depend on.
type stamp struct {
	term uint64 // in which it was decided
	wall int64  // wall time of the leader then
}

// begin records the last entry and term of the log at the start of this process, and loads the wall offset that the
// previous process has stored.
func (c *logClock) begin(lastIndex, knownTerm uint64) {
	c.bootIndex, c.bootTerm = lastIndex, knownTerm
	c.loadOffset()
}

// observe returns a log store that records when entries come in.
func (c *logClock) observe(logs raft.LogStore) raft.LogStore {
	c.arrivals = &arrivals{LogStore: logs, now: c.monotonic}
	return c.arrivals
}

// cameIn returns when an entry came in, on the monotonic clock. It must be called once for each entry, as this frees
// the memory of its arrival.
func (c *logClock) cameIn(log *raft.Log) time.Duration {
	if c.arrivals == nil { // entries are applied without Raft
		return c.monotonic()
	}
	return c.arrivals.take(log.Index, log.Term)
}

// isFresh reports whether an entry was decided while this process was running, where current is the current term. An
// entry that another node still had to send may be as old as those that were in the log; but the node that leads now
// has not been down since its term began, and a term that this node did not know of when it began is mostly newer than
// that. Where it is not, time is lost, not gained.
func (c *logClock) isFresh(log *raft.Log, current uint64) bool {
	return log.Index > c.bootIndex && (log.Term > c.bootTerm || log.Term == current)
}

// note records that an entry has been applied. taken is when its log time was read, for an entry of this node's own,
// and otherwise when it came in.
func (c *logClock) note(e *changes, taken time.Duration, fresh bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.applied(e.time, taken)
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

// save records the newest entry applied in the head of a snapshot.
func (c *logClock) save(h *head) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h.Time, h.Term, h.Wall = c.standing(), c.newest.term, c.newest.wall
}

// replayTime returns the time up to which an entry lets records expire.
func (c *logClock) replayTime(e *changes) uint64 {
	if failpoint.Is(failpoint.LocalExpiry) {
		return uint64(max(0, c.wall().UnixNano()))
	}
	return e.time
}

// answer returns what this node knows of the log time.
func (c *logClock) answer() timeAnswer {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.standing()
	a := timeAnswer{Term: c.newest.term, ByWall: c.byWall(last)}
	if last > 0 {
		a.Live, a.Now = c.live, c.estimate()
	}
	return a
}
