package cluster

import (
	"errors"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/mutant"
)

const (
	barrierWithin = 2 * time.Second
	retryEvery    = 5 * time.Millisecond // to begin to lead, where that has failed
)

// govern begins and ends reigns as Raft says.
func (n *Node) govern() {
	defer n.step()
	for {
		select {
		case <-n.ended:
			return
		case leads := <-n.notify:
			if !leads {
				n.step()
			}
		case <-n.again:
		}
		if n.raft.State() == raft.Leader && n.reign.Load() == nil {
			n.takeOver()
		}
		n.refresh()
	}
}

// step ends the reign there is.
func (n *Node) step() {
	if r := n.reign.Load(); r != nil {
		n.endReign(r)
	}
}

// nudge makes govern look again.
func (n *Node) nudge() {
	select {
	case n.again <- struct{}{}:
	default:
	}
}

// endReign ends a reign, unless it has ended.
func (n *Node) endReign(r *reign) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.abdicate(r)
}

// abdicate takes back what is not committed, and lets go those who wait for it. n.mu is held.
func (n *Node) abdicate(r *reign) {
	if n.reign.Load() != r {
		return
	}
	n.past.Store(r)
	n.reign.Store(nil)
	if mutant.Is(mutant.NoUndo) {
		generation, _ := n.table.Collect(nil)
		n.table.Commit(generation, n.clock.standing())
	}
	n.table.Follow()
	n.clock.stand()
	n.rollbacks.Add(1)
	close(r.over)
	n.pulse.nudge()
	n.publish()
	n.nudge() // it may lead by Raft all the same
}

// follow ends the present reign, if there is one. n.mu is held.
func (n *Node) follow() {
	if r := n.reign.Load(); r != nil {
		n.abdicate(r)
	}
}

// acknowledge implements host. An entry of the present reign that got into the log under another term shows that
// another node has led: generations in flight here must not stay in the table then.
func (n *Node) acknowledge(log *raft.Log, c *changes) (own bool, err error) {
	r := n.reign.Load()
	switch {
	case r == nil:
		return false, nil
	case c.term == r.term && c.reign == r.number && log.Term == r.term:
		return true, n.commit(r, c)
	case log.Term != r.term:
		n.abdicate(r)
	}
	return false, nil
}

var errSkipped = errors.New("a generation before it is missing")

// commit commits a generation, and with it all before: one that Raft has refused must not have been before it.
func (n *Node) commit(r *reign, c *changes) error {
	if !r.isNext(c.generation) || !n.table.Commit(c.generation, n.clock.replayTime(c)) {
		return errSkipped
	}
	n.clock.note(c, r.commit(c.generation, n.clock.monotonic()), true)
	return nil
}

// isFresh implements host.
func (n *Node) isFresh(log *raft.Log) bool {
	return n.raft != nil && n.clock.isFresh(log, n.raft.CurrentTerm())
}

// takeOver begins a reign as soon as that is possible, for as long as this node leads.
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

// begin begins a reign. First all entries of the terms before have to be applied, which a
// barrier sees to, and of a reign before in the same term, of which nothing must come behind it.
// The term is read before and after: what is decided belongs to the very term whose barrier has
// passed.
func (n *Node) begin() error {
	if n.last != nil {
		<-n.last.done
	}
	term := n.raft.CurrentTerm()
	asked := n.clock.monotonic()
	if !mutant.Is(mutant.NoBarrier) {
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
	n.reigns++
	r := newReign(n.reigns, term)
	r.confirmed.Store(int64(asked))
	n.pulse.ceiling.enter(term)
	n.clock.run(from)
	n.table.Lead(r.number)
	n.reign.Store(r)
	n.last = r
	n.pulse.nudge()
	n.publish()
	n.running.Go(func() { n.flush(r) })
	n.log.Info("this node leads", "term", term)
	return nil
}
