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

// flush submits generations for as long as a leadership lasts. There is one entry for all that came
// while the ones before were on their way: few when it is quiet, and thousands under load.
func (n *Node) flush(l *leadership) {
	futures := make(chan raft.ApplyFuture, maxInFlight)
	defer close(l.done)
	defer close(futures)
	n.running.Go(func() { n.watch(l, futures) })
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	for {
		tick := false
		select {
		case <-l.over:
			return
		case <-l.wake:
		case <-ticker.C:
			tick = n.tickDue(l)
		}
		if !tick && !n.table.Pending() && l.demanded.Load() <= l.closed {
			continue
		}
		if !l.room() {
			return
		}
		f := n.submit(l)
		if f == nil {
			return
		}
		futures <- f
		if n.config.Async && !pause(l, asyncPause) {
			return
		}
	}
}

// Flush waits until all that this node has decided before is committed, in async mode too. The error
// is limiter.ErrUncertain or limiter.ErrNotLeading if it stops leading before that.
func (n *Node) Flush() error {
	t, l := n.table.Seen(), n.leadership.Load()
	switch {
	case l == nil || l.epoch != t.Term:
		return lost(t)
	case t.Generation == 0:
		return nil
	}
	return l.await(t.Generation)
}

// pause waits, and reports whether the leadership continues.
func pause(l *leadership, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-l.over:
		return false
	case <-timer.C:
		return true
	}
}

// tickDue reports whether nothing has told the log the time for a while, and there are keys
// for which it matters.
func (n *Node) tickDue(l *leadership) bool {
	return n.clock.monotonic()-time.Duration(l.confirmed.Load()) >= tickEvery/2 && n.table.Usage().Keys > 0
}

// submit closes the open generation and hands it to Raft, unless the leadership has ended.
func (n *Node) submit(l *leadership) raft.ApplyFuture {
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
	c := changes{term: l.term, epoch: l.epoch, generation: generation, time: n.clock.Now()}
	taken := n.clock.monotonic()
	c.wall = n.config.Wall().UnixNano()
	c.seal(buf)
	l.closed = generation
	l.submitted(generation, taken)
	n.entries.Add(1)
	n.bytes.Add(uint64(len(buf)))
	return n.raft.Apply(buf, enqueueWithin)
}

// watch ends a leadership if one of its entries fails: whether that is committed is unknown here. An entry that succeeds
// is acknowledged where it is applied.
func (n *Node) watch(l *leadership, futures <-chan raft.ApplyFuture) {
	for f := range futures {
		if err := f.Error(); err != nil {
			n.log.Debug("an entry was not committed", "error", err)
			n.stepDownFrom(l)
		}
	}
}
