package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/mutant"
	"github.com/throttledhq/throttled/topology"
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
	n.reign.Store(nil)
	if mutant.Is(mutant.NoUndo) {
		generation, _ := n.table.Collect(nil)
		n.table.Commit(generation, n.clock.standing())
	}
	n.table.Follow()
	n.clock.stand()
	n.rollbacks.Add(1)
	close(r.over)
	n.publish()
	n.nudge() // it may lead by Raft all the same
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
	n.clock.run(from)
	n.table.Lead(r.number)
	n.reign.Store(r)
	n.last = r
	n.publish()
	n.running.Go(func() { n.flush(r) })
	n.log.Info("this node leads", "term", term)
	return nil
}

// startingTime returns the log time to begin with at the earliest, 0 if the node's own clock
// says all there is to know: it has followed the log until now. One that has just been started knows
// only from when the last entry is. Any node that was there meanwhile knows better. If none of
// most nodes was, they all were down, and wall clocks are all there is: the earliest of what they say holds.
func (n *Node) startingTime() uint64 {
	n.mu.Lock()
	own := n.timeOf()
	n.mu.Unlock()
	if own.Live {
		return 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), n.config.Heartbeat)
	defer cancel()
	return own.with(n.askTimes(ctx, own.Term), len(n.voters())/2+1)
}

// timeAnswer is what a node knows of the log time.
type timeAnswer struct {
	Live   bool   `json:"live"`    // it has followed the log
	Term   uint64 `json:"term"`    // in which the newest entry that it has was decided; 0 if it has none
	Now    uint64 `json:"now"`     // what the log time is by that entry
	ByWall uint64 `json:"by_wall"` // what it is by the wall clock
}

// with returns the log time by what this node and others know, 0 if these are not most of the
// nodes. Where nothing has been decided yet, any time will do.
func (own timeAnswer) with(others []timeAnswer, most int) (now uint64) {
	byWall := own.ByWall
	for _, a := range others {
		byWall = min(byWall, a.ByWall)
		if a.Live {
			now = max(now, a.Now)
		}
	}
	if now == 0 && (len(others)+1 >= most || own.Term == 0) {
		return byWall
	}
	return now
}

// timeOf returns what this node knows. n.mu is held.
func (n *Node) timeOf() timeAnswer {
	last, wall := n.clock.standing(), n.config.Wall().UnixNano()
	if last == 0 {
		return timeAnswer{Term: n.lastTerm, ByWall: uint64(max(0, wall))}
	}
	return timeAnswer{Live: n.live, Term: n.lastTerm, Now: n.clock.estimate(), ByWall: last + uint64(max(0, wall-n.lastWall))}
}

// askTimes asks the other voters, and returns what is answered before ctx ends by those that have
// the newest entry, which was decided in a term. One that has older ones only does not know how
// much time was lost between those and the newest.
func (n *Node) askTimes(ctx context.Context, term uint64) (answers []timeAnswer) {
	others := n.others()
	got := make(chan *timeAnswer, len(others))
	for _, m := range others {
		go func() { got <- n.askTime(ctx, m, term) }()
	}
	for range others {
		if a := <-got; a != nil {
			answers = append(answers, *a)
		}
	}
	return answers
}

// askTime asks a node until it answers and has applied an entry of a term, or ctx ends. A node that is
// there may be slow to be found, and nobody can stand in for what it knows.
func (n *Node) askTime(ctx context.Context, m topology.Member, term uint64) *timeAnswer {
	for {
		a, err := n.config.Peers.Ask(ctx, m, Question{About: aboutTime})
		if err == nil && a.Time != nil && a.Time.Term == term {
			return a.Time
		}
		if n.wait(ctx, retryEvery) != nil {
			return nil
		}
	}
}

// HandOver makes another voter lead, if this node leads and there is another. What was decided
// is committed first, and what comes meanwhile is refused, so nobody is left uncertain.
func (n *Node) HandOver(ctx context.Context) error { return n.handOver(ctx, "") }

func (n *Node) handOver(ctx context.Context, id string) error {
	r := n.reign.Load()
	if r == nil || len(n.voters()) < 2 {
		return nil
	}
	if !r.leaving.CompareAndSwap(false, true) {
		return topology.ErrChanging
	}
	n.refresh()
	err := n.resign(ctx, r, id)
	if err != nil {
		r.leaving.Store(false)
		n.refresh()
	}
	return err
}

// resign makes a voter lead, any if id is empty, once all that was decided is committed.
func (n *Node) resign(ctx context.Context, r *reign, id string) error {
	// Whoever was about to decide has done so by the time that the first is committed.
	for _, generation := range []func() limiter.Ticket{n.table.Mark, n.table.Seen} {
		if err := r.await(generation().Generation); err != nil {
			return err
		}
	}
	r.offered.Store(true)
	var f raft.Future
	if m := n.find(id); m != nil {
		f = n.raft.LeadershipTransferToServer(raft.ServerID(m.ID), raft.ServerAddress(m.Raft))
	} else {
		f = n.raft.LeadershipTransfer()
	}
	done := make(chan error, 1)
	go func() { done <- f.Error() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
