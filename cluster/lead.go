package cluster

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/internal/failpoint"
	"github.com/throttledhq/throttled/topology"
)

const (
	barrierWithin = 2 * time.Second
	retryEvery    = 5 * time.Millisecond // interval at which failed steps are retried
)

// leader begins and ends the leaderships of a node, and hands them over.
type leader struct {
	*leaderships
	state   *sync.Mutex // lock of the applied state, see fsm
	raft    *raftHandle
	table   *buckets.Table
	clock   *logClock
	times   *timeKeeper
	setting *heartbeatSetting
	view    *observer
	tracker *tracker
	async   bool
	stuck   func(error) // result of each attempt to begin a leadership
	life    *lifetime
	log     *slog.Logger
}

// run begins and ends leaderships when Raft reports that this node leads or does not lead.
func (d *leader) run() {
	defer d.stepDown()
	for {
		select {
		case <-d.life.ended():
			return
		case leads := <-d.notify:
			if !leads {
				d.stepDown()
			}
		case <-d.again:
		}
		if d.raft.State() == raft.Leader && d.current() == nil {
			d.takeOver()
		}
		d.view.refresh()
	}
}

// stepDown ends the present leadership, if there is one.
func (d *leader) stepDown() {
	if l := d.current(); l != nil {
		d.stepDownFrom(l)
	}
}

// stepDownFrom ends a leadership, unless it has ended.
func (d *leader) stepDownFrom(l *leadership) {
	d.state.Lock()
	defer d.state.Unlock()
	d.stepDownLocked(l)
}

// stepDownLocked ends a leadership, unless it has ended: it rolls back the generations that are not committed, and
// unblocks their waiters. d.state is held.
func (d *leader) stepDownLocked(l *leadership) {
	if !d.finish(l) {
		return
	}
	if failpoint.Is(failpoint.NoUndo) {
		generation, _ := d.table.Collect(nil)
		d.table.Commit(generation, d.clock.lastApplied())
	}
	d.table.Follow()
	d.clock.stop()
	d.rollbacks.Add(1)
	close(l.over)
	d.setting.wake()
	d.view.publish()
	d.wake() // the node may still lead by Raft
}

// follow ends the present leadership, if there is one. d.state is held.
func (d *leader) follow() {
	if l := d.current(); l != nil {
		d.stepDownLocked(l)
	}
}

// acknowledge commits the generation of an entry if the present leadership has submitted it, and reports whether it has.
// An entry of the present leadership that entered the log under another term shows that another node has led. It ends the
// leadership, since generations in flight must be rolled back then. d.state is held.
func (d *leader) acknowledge(log *raft.Log, c *changes) (own bool, err error) {
	l := d.current()
	switch {
	case l == nil:
		return false, nil
	case c.term == l.term && c.epoch == l.epoch && log.Term == l.term:
		return true, d.commit(l, c)
	case log.Term != l.term:
		d.stepDownLocked(l)
	}
	return false, nil
}

var errSkipped = errors.New("an earlier generation is missing in the log; restart this node")

// commit commits a generation and all generations before it. It returns errSkipped if Raft has rejected one of those.
func (d *leader) commit(l *leadership, c *changes) error {
	if !l.pipeline.isNext(c.generation) || !d.table.Commit(c.generation, d.clock.replayTime(c)) {
		return errSkipped
	}
	d.clock.record(c, l.commit(c.generation, d.clock.monotonic()), true)
	return nil
}

// takeOver begins a leadership as soon as possible, as long as this node leads by Raft.
func (d *leader) takeOver() {
	for d.raft.State() == raft.Leader {
		err := d.begin()
		if err == nil {
			d.stuck(nil)
			return
		}
		d.log.Debug("cannot begin to lead yet", "error", err)
		d.stuck(err)
		select {
		case <-d.life.ended():
			return
		case <-time.After(retryEvery):
		}
	}
}

var errTerm = errors.New("the term has changed")

// begin begins a leadership. First all entries of earlier terms must be applied, for which it waits by a barrier, and
// those of an earlier leadership in the same term, which must submit nothing after the barrier. The term is read before
// and after, so that decisions belong to the term of the barrier.
func (d *leader) begin() error {
	d.drain()
	term := d.raft.CurrentTerm()
	asked := d.clock.monotonic()
	if !failpoint.Is(failpoint.NoBarrier) {
		if err := d.raft.Barrier(barrierWithin).Error(); err != nil {
			return err
		}
	}
	d.view.refresh() // with the voters of this term
	from := d.times.startingTime()
	if d.raft.CurrentTerm() != term {
		return errTerm
	}
	d.state.Lock()
	defer d.state.Unlock()
	l := d.next(term)
	l.lease.confirmed.Store(int64(asked))
	d.setting.ceiling.begin(term)
	d.clock.run(from)
	d.table.Lead(l.epoch)
	d.set(l)
	d.setting.wake()
	d.view.publish()
	f := d.newFlusher(l)
	d.life.run(f.run)
	d.life.run(func() { d.watch(l, f.futures) })
	d.log.Info("this node leads", "term", term)
	return nil
}

func (d *leader) newFlusher(l *leadership) *flusher {
	return &flusher{
		leadership: l, table: d.table, clock: d.clock, raft: d.raft, async: d.async, counts: &d.submitted,
		futures: make(chan raft.ApplyFuture, maxInFlight),
	}
}

// watch ends a leadership if one of its entries fails, since it is unknown whether that entry is committed. Entries that
// succeed are acknowledged when they are applied.
func (d *leader) watch(l *leadership, futures <-chan raft.ApplyFuture) {
	for f := range futures {
		if err := f.Error(); err != nil {
			d.log.Debug("an entry was not committed", "error", err)
			d.stepDownFrom(l)
		}
	}
}

// followers returns the progress of the other members, or nil if this node does not lead.
func (d *leader) followers() []topology.Follower {
	l := d.current()
	if l == nil {
		return nil
	}
	return d.tracker.followers(d.view.View(), l.term, d.setting.heartbeat())
}
