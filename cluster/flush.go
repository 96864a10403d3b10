package cluster

import (
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/internal/failpoint"
)

const (
	// tickEvery is how often an entry with the log time is submitted while there are keys, so that the node
	// which leads next loses little of it.
	tickEvery = 250 * time.Millisecond
	// enqueueWithin is how long an entry may wait to get into Raft.
	enqueueWithin = time.Second
	// asyncPause is the least time between two entries in async mode: no reply waits for them,
	// and a key that is charged several times is sent once.
	asyncPause = 5 * time.Millisecond
)

// flusher submits the generations of one leadership to Raft. Each entry has all that was decided while the entries
// before it were in flight: a few decisions under low load, and thousands under high load.
type flusher struct {
	leadership *leadership
	table      *buckets.Table
	clock      *logClock
	raft       applier
	async      bool
	counts     *entryCounts
	futures    chan raft.ApplyFuture // of all entries, in order; closed after the last one

	closed    uint64 // the newest generation that has been submitted
	entrySize int    // expected bytes of the next entry
}

// applier is the part of Raft that a flusher uses.
type applier interface {
	Apply(entry []byte, within time.Duration) raft.ApplyFuture
}

// entryCounts counts the entries that a node has submitted.
type entryCounts struct{ entries, bytes atomic.Uint64 }

func (n *Node) newFlusher(l *leadership) *flusher {
	return &flusher{
		leadership: l, table: n.table, clock: n.clock, raft: n.raft, async: n.config.Async, counts: &n.leaderships.submitted,
		futures: make(chan raft.ApplyFuture, maxInFlight),
	}
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
		if !l.room() {
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

// tickDue reports whether no entry has been committed for a while, and there are keys for which the log time matters.
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
	// The log time is read after the last decision, so that no decision in the entry is later than that. The
	// monotonic clock is read after it: if the process is paused in between, time is lost, not gained.
	l := f.leadership
	c := changes{term: l.term, epoch: l.epoch, generation: generation, time: f.clock.Now()}
	taken := f.clock.monotonic()
	c.wall = f.clock.wall().UnixNano()
	c.seal(buf)
	f.closed = generation
	l.pipeline.add(generation, taken)
	f.counts.entries.Add(1)
	f.counts.bytes.Add(uint64(len(buf)))
	return f.raft.Apply(buf, enqueueWithin)
}
