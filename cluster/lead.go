package cluster

import (
	"errors"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/internal/failpoint"
)

const (
	barrierWithin = 2 * time.Second
	retryEvery    = 5 * time.Millisecond // to begin to lead, where that has failed
)

// runLeaderLoop begins and ends leaderships when Raft reports that this node leads, or does not any more.
func (n *Node) runLeaderLoop() {
	defer n.stepDown()
	for {
		select {
		case <-n.ended:
			return
		case leads := <-n.leaderships.notify:
			if !leads {
				n.stepDown()
			}
		case <-n.leaderships.again:
		}
		if n.raft.State() == raft.Leader && n.leaderships.current() == nil {
			n.takeOver()
		}
		n.refresh()
	}
}

// stepDown ends the present leadership, if there is one.
func (n *Node) stepDown() {
	if l := n.leaderships.current(); l != nil {
		n.stepDownFrom(l)
	}
}

// stepDownFrom ends a leadership, unless it has ended.
func (n *Node) stepDownFrom(l *leadership) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stepDownLocked(l)
}

// stepDownLocked ends a leadership, unless it has ended: it rolls back the generations that are not committed, and
// unblocks their waiters. n.mu is held.
func (n *Node) stepDownLocked(l *leadership) {
	if !n.leaderships.end(l) {
		return
	}
	if failpoint.Is(failpoint.NoUndo) {
		generation, _ := n.table.Collect(nil)
		n.table.Commit(generation, n.clock.standing())
	}
	n.table.Follow()
	n.clock.stand()
	n.leaderships.rollbacks.Add(1)
	close(l.over)
	n.pulse.wake()
	n.publish()
	n.leaderships.wake() // it may lead by Raft all the same
}

// follow ends the present leadership, if there is one. n.mu is held.
func (n *Node) follow() {
	if l := n.leaderships.current(); l != nil {
		n.stepDownLocked(l)
	}
}

// acknowledge implements host. An entry of the present leadership that got into the log under another term shows that
// another node has led: generations in flight here must not stay in the table then.
func (n *Node) acknowledge(log *raft.Log, c *changes) (own bool, err error) {
	l := n.leaderships.current()
	switch {
	case l == nil:
		return false, nil
	case c.term == l.term && c.epoch == l.epoch && log.Term == l.term:
		return true, n.commit(l, c)
	case log.Term != l.term:
		n.stepDownLocked(l)
	}
	return false, nil
}

var errSkipped = errors.New("a generation before it is missing")

// commit commits a generation, and with it all before: one that Raft has refused must not have been before it.
func (n *Node) commit(l *leadership, c *changes) error {
	if !l.pipeline.isNext(c.generation) || !n.table.Commit(c.generation, n.clock.replayTime(c)) {
		return errSkipped
	}
	n.clock.note(c, l.commit(c.generation, n.clock.monotonic()), true)
	return nil
}

// isFresh implements host.
func (n *Node) isFresh(log *raft.Log) bool {
	return n.raft != nil && n.clock.isFresh(log, n.raft.CurrentTerm())
}

// takeOver begins a leadership as soon as that is possible, for as long as this node leads.
func (n *Node) takeOver() {
	for n.raft.State() == raft.Leader {
		err := n.begin()
		if err == nil {
			n.config.Stuck(nil)
			return
		}
		n.log.Debug("cannot begin to lead yet", "error", err)
		n.config.Stuck(err)
		select {
		case <-n.ended:
			return
		case <-time.After(retryEvery):
		}
	}
}

var errTerm = errors.New("the term has changed")

// begin begins a leadership. First all entries of earlier terms have to be applied, which a barrier waits for, and those
// of an earlier leadership in the same term, of which nothing may be submitted after the barrier.
// The term is read before and after: what is decided belongs to the very term whose barrier has
// passed.
func (n *Node) begin() error {
	n.leaderships.drain()
	term := n.raft.CurrentTerm()
	asked := n.clock.monotonic()
	if !failpoint.Is(failpoint.NoBarrier) {
		if err := n.raft.Barrier(barrierWithin).Error(); err != nil {
			return err
		}
	}
	n.refresh() // with the voters of this term
	from := n.startingTime()
	if n.raft.CurrentTerm() != term {
		return errTerm
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.leaderships.next(term)
	l.lease.confirmed.Store(int64(asked))
	n.pulse.ceiling.enter(term)
	n.clock.run(from)
	n.table.Lead(l.epoch)
	n.leaderships.begin(l)
	n.pulse.wake()
	n.publish()
	f := n.newFlusher(l)
	n.running.Go(f.run)
	n.running.Go(func() { n.watch(l, f.futures) })
	n.log.Info("this node leads", "term", term)
	return nil
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
