package cluster

import (
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/mutant"
)

const (
	// tickEvery is how often the log is told the time while there are keys, so that the node
	// which leads next loses little of it.
	tickEvery = 250 * time.Millisecond
	// enqueueWithin is how long an entry may wait to get into Raft.
	enqueueWithin = time.Second
	// asyncPause is the least time between two entries in async mode: nobody waits for them,
	// and what is hit several times goes out once.
	asyncPause = 5 * time.Millisecond
)

// flush submits generations for as long as a reign lasts. There is one entry for all that came
// while the ones before were on their way: few when it is quiet, and thousands under load.
func (n *Node) flush(r *reign) {
	futures := make(chan raft.ApplyFuture, maxInFlight)
	defer close(r.done)
	defer close(futures)
	n.running.Go(func() { n.watch(r, futures) })
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	for {
		tick := false
		select {
		case <-r.over:
			return
		case <-r.wake:
		case <-ticker.C:
			tick = n.tickDue(r)
		}
		if !tick && !n.table.Pending() && r.demanded.Load() <= r.closed {
			continue
		}
		if !r.room() {
			return
		}
		f := n.submit(r)
		if f == nil {
			return
		}
		futures <- f
		if n.config.Async && !pause(r, asyncPause) {
			return
		}
	}
}

// Flush waits until all that this node has decided before is committed, in async mode too. The error
// is limiter.ErrUncertain or limiter.ErrNotLeading if it stops leading before that.
func (n *Node) Flush() error {
	t, r := n.table.Seen(), n.reign.Load()
	switch {
	case r == nil || r.number != t.Term:
		return lost(t)
	case t.Generation == 0:
		return nil
	}
	return r.await(t.Generation)
}

// pause waits, and reports whether the reign goes on.
func pause(r *reign, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-r.over:
		return false
	case <-timer.C:
		return true
	}
}

// tickDue reports whether nothing has told the log the time for a while, and there are keys
// for which it matters.
func (n *Node) tickDue(r *reign) bool {
	return n.clock.monotonic()-time.Duration(r.confirmed.Load()) >= tickEvery/2 && n.table.Usage().Keys > 0
}

// submit closes the open generation and hands it to Raft, unless the reign is over.
func (n *Node) submit(r *reign) raft.ApplyFuture {
	generation, buf := n.table.Collect(make([]byte, changesHeader, changesHeader+n.entrySize))
	if generation == 0 {
		return nil
	}
	n.entrySize = len(buf) + len(buf)/4
	if mutant.Is(mutant.LostBatch) && generation%50 == 0 {
		buf = buf[:changesHeader]
	}
	// Read after the last decision, so that no decision in it is later than the entry says. What the
	// time goes by is read after it: if this node stands still in between, time is lost, not won.
	c := changes{term: r.term, reign: r.number, generation: generation, time: n.clock.Now()}
	taken := n.clock.monotonic()
	c.wall = n.config.Wall().UnixNano()
	c.seal(buf)
	r.closed = generation
	r.submitted(generation, taken)
	n.entries.Add(1)
	n.bytes.Add(uint64(len(buf)))
	return n.raft.Apply(buf, enqueueWithin)
}

// watch ends a reign of which an entry does not get through: what has become of it is not known
// here. An entry that does is acknowledged where it is applied.
func (n *Node) watch(r *reign, futures <-chan raft.ApplyFuture) {
	for f := range futures {
		if err := f.Error(); err != nil {
			n.log.Debug("an entry was not committed", "error", err)
			n.endReign(r)
		}
	}
}
