package cluster

import (
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/internal/failpoint"
	"github.com/throttledhq/throttled/internal/histogram"
)

const (
	// tickEvery is the interval at which an idle leader submits an entry with only the log time if the table has keys.
	// Followers then have a recent log time, from which the next leader continues.
	tickEvery = 250 * time.Millisecond
	// enqueueWithin is the timeout for passing an entry to Raft.
	enqueueWithin = time.Second
	// asyncPause is the minimum time between two entries in async mode. The pause delays no reply, because no reply
	// waits for an entry. A key that is charged several times during the pause is sent only once.
	asyncPause = 5 * time.Millisecond
)

// flusher submits the generations of one leadership to Raft. Each entry contains the changes from all decisions made
// while earlier entries were in flight: a few decisions under low load, and thousands under high load.
type flusher struct {
	leadership *leadership
	table      *buckets.Table
	clock      *logClock
	raft       applier
	async      bool
	counts     *entryCounts
	futures    chan raft.ApplyFuture // futures of all entries, in order; closed when run returns

	closed    uint64 // newest generation that was submitted
	entrySize int    // expected size of the next entry, in bytes
	gathering gathering
}

// decided returns the number of admissions in the open generation. In async mode, the generation counts as full, because
// no reply waits for it.
func (f *flusher) decided() int64 {
	if f.async {
		return fullEntry
	}
	return f.counts.decided.Load()
}

// applier is implemented by *raftHandle.
type applier interface {
	Apply(entry []byte, within time.Duration) raft.ApplyFuture
}

// entryCounts counts the entries that a node has submitted.
type entryCounts struct {
	entries, bytes atomic.Uint64
	decided        atomic.Int64 // admissions since the last entry was submitted
	groups         histogram.Histogram
	commits        histogram.Histogram
}

// CommitStats is the statistics of the entries that a node has submitted as the leader since it started.
type CommitStats struct {
	// Decisions has the number of decisions in each entry, without entries that have none. Refusals and errors are not
	// counted, because they are not a part of an entry. A decision that is made while an entry is collected may be counted
	// in the entry before or after its own.
	Decisions histogram.Counts
	// Latency has the time from the end of the collection of an entry to its commit, for all entries that were committed.
	Latency histogram.Counts
}

// stats returns the statistics.
func (c *entryCounts) stats() CommitStats { return CommitStats{c.groups.Load(), c.commits.Load()} }

// decide counts admissions, and reports whether they complete a full entry.
func (c *entryCounts) decide(n int) (full bool) {
	sum := c.decided.Add(int64(n))
	return sum >= fullEntry && sum-int64(n) < fullEntry
}

// submit counts an entry, and returns the number of its decisions.
func (c *entryCounts) submit(size int) (decisions int64) {
	c.entries.Add(1)
	c.bytes.Add(uint64(size))
	n := c.decided.Swap(0)
	if n > 0 {
		c.groups.AddNumber(n)
	}
	return n
}

// run submits generations until the leadership ends.
func (f *flusher) run() {
	l := f.leadership
	defer close(l.done)
	defer close(f.futures)
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	for {
		tick := false
		select {
		case <-l.over:
			return
		case <-l.wake:
		case <-ticker.C:
			tick = f.tickDue()
		}
		if !tick && !f.table.Pending() && l.demanded.Load() <= f.closed {
			continue
		}
		if !l.awaitRoom(f.decided) || !f.gather() {
			return
		}
		future := f.submit()
		if future == nil {
			return
		}
		f.futures <- future
		if f.async && !l.pause(asyncPause) {
			return
		}
	}
}

// tickDue reports whether an entry with only the log time is due: no recent entry has been committed, and the table has
// keys.
func (f *flusher) tickDue() bool {
	return f.clock.monotonic()-time.Duration(f.leadership.lease.confirmed.Load()) >= tickEvery/2 && f.table.Usage().Keys > 0
}

// submit closes the open generation and passes it to Raft. It returns nil if the leadership has ended.
func (f *flusher) submit() raft.ApplyFuture {
	generation, buf := f.table.Collect(make([]byte, changesHeader, changesHeader+f.entrySize))
	if generation == 0 {
		return nil
	}
	f.entrySize = len(buf) + len(buf)/4
	if failpoint.Is(failpoint.LostBatch) && generation%50 == 0 {
		buf = buf[:changesHeader]
	}
	// The log time is read after the last decision, so no decision in the entry is later. When the entry is applied,
	// Clock records the log time together with readAt, and later adds the time since readAt. readAt is read after the
	// log time. A pause between the two reads therefore makes log time fall behind, and never run ahead.
	l := f.leadership
	c := changes{term: l.term, epoch: l.epoch, generation: generation, time: f.clock.Now()}
	readAt := f.clock.monotonic()
	c.wall = f.clock.wall().UnixNano()
	c.seal(buf)
	f.closed = generation
	l.flights.add(generation, readAt, f.counts.submit(len(buf)))
	return f.raft.Apply(buf, enqueueWithin)
}
