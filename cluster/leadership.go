package cluster

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/internal/failpoint"
	"github.com/throttledhq/throttled/limiter"
)

const barrierWithin = 2 * time.Second // timeout of the barrier at the start of a leadership

// leadership is a period in which a node makes decisions. It begins when the node is the Raft leader and has applied
// all entries from earlier terms. It ends when the node detects that it is no longer the leader.
type leadership struct {
	epoch uint64 // number of the leadership in this process; stored in the field Epoch of its commit tokens
	term  uint64 // Raft term

	demanded atomic.Uint64 // newest generation with a waiter
	waiters  waiters
	flights  flights
	lease    lease

	leaving atomic.Bool // a hand-over is in progress: the server holds commands for the next leader
	stopped atomic.Bool // decisions are refused; set with leaderships.deciding held

	wake chan struct{} // signals that there may be a generation to submit
	over chan struct{} // closed at the end of the leadership
	done chan struct{} // closed when the flusher has stopped
}

// lease is the period in which no other node can be the leader.
type lease struct {
	// confirmed is the time at which the newest committed entry was submitted, on the monotonic clock. From then on, a
	// majority of the voters rejects other candidates for the length of the lease.
	confirmed atomic.Int64
	offered   atomic.Bool // leadership is being transferred, so another node may become the leader at any time
}

// holds reports whether no other node can be the leader at time now on the monotonic clock. length is the length of the
// lease.
func (l *lease) holds(now, length time.Duration) bool {
	return !l.offered.Load() && now < time.Duration(l.confirmed.Load())+length
}

func newLeadership(epoch, term uint64) *leadership {
	return &leadership{
		epoch:   epoch,
		term:    term,
		flights: flights{freed: make(chan struct{}, 1)},
		wake:    make(chan struct{}, 1),
		over:    make(chan struct{}),
		done:    make(chan struct{}),
	}
}

// wakeFlusher makes the flusher check whether there is a generation to submit.
func (l *leadership) wakeFlusher() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// demand makes the flusher submit a generation when it is woken, even if the generation has no changes.
func (l *leadership) demand(generation uint64) {
	for {
		old := l.demanded.Load()
		if old >= generation || l.demanded.CompareAndSwap(old, generation) {
			return
		}
	}
}

// await blocks until a generation is committed. It returns limiter.ErrUncertain if the leadership ends first.
func (l *leadership) await(generation uint64) error {
	if l.waiters.isCommitted(generation) {
		return nil
	}
	l.demand(generation)
	done, wake := l.waiters.channel(generation)
	if done == nil {
		return nil
	}
	if wake {
		l.wakeFlusher()
	}
	select {
	case <-done:
		return nil
	case <-l.over:
	}
	if l.waiters.isCommitted(generation) {
		return nil
	}
	return limiter.ErrUncertain
}

// awaitRoom blocks until one more generation, with decided() decisions, may be in flight. It returns false if the
// leadership ends first.
func (l *leadership) awaitRoom(decided func() int64) bool {
	for !l.flights.hasRoom(decided()) {
		select {
		case <-l.over:
			return false
		case <-l.flights.freed:
		case <-l.wake:
		}
	}
	return true
}

// commit records that a generation and all earlier ones are committed, and unblocks their waiters. It returns readAt,
// the time at which the leader read the log time for the generation. Both now and readAt are on the monotonic clock.
func (l *leadership) commit(generation uint64, now time.Duration) (readAt time.Duration) {
	l.waiters.committed.Store(generation)
	readAt = l.flights.remove(generation, now)
	l.lease.confirmed.Store(int64(readAt))
	l.waiters.unblock(generation)
	return readAt
}

// pause blocks for d and returns true. It returns false if the leadership ends first.
func (l *leadership) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-l.over:
		return false
	case <-timer.C:
		return true
	}
}

// takeOver begins a leadership. It retries until it succeeds or this node is no longer the Raft leader.
func (d *leader) takeOver() {
	for d.raft.State() == raft.Leader {
		err := d.begin()
		if err == nil {
			d.beginResult(nil)
			return
		}
		d.log.Debug("cannot begin a leadership yet", "error", err)
		d.beginResult(err)
		select {
		case <-d.life.ended():
			return
		case <-time.After(retryEvery):
		}
	}
}

var errTerm = errors.New("the term has changed")

// begin begins a leadership. Before that, it waits until the previous leadership of this node has submitted its last
// entry, and uses a barrier of Raft to wait until all earlier entries are applied. It then compiles the newest version of
// the rules, so that the leadership does not decide requests by an older version. It reads the term before and after
// the barrier, to ensure that the leadership belongs to the term of the barrier.
func (d *leader) begin() error {
	d.drain()
	term := d.raft.CurrentTerm()
	asked := d.clock.monotonic()
	if !failpoint.Is(failpoint.NoBarrier) {
		if err := d.raft.Barrier(barrierWithin).Error(); err != nil {
			return err
		}
	}
	if !failpoint.Is(failpoint.StaleRules) {
		d.rules.CompileNewest() // no later version can be applied until this node proposes one
	}
	d.view.refresh() // startingTime needs the voters of this term
	from := d.awaitLeases(d.times.startingTime())
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

// awaitLeases blocks while log time would step forward, to the time from, beyond the end of an outstanding lease: at most
// for the length of a lease. If from is based on a wall clock that is ahead, the lessee may still spend the units of the
// lease, which the step would restore. Log time without a step is never ahead of real time. awaitLeases returns from plus
// the time for which it has blocked.
func (d *leader) awaitLeases(from uint64) uint64 {
	begin := d.clock.monotonic()
	until := min(d.table.LeasesUntil(), from)
	wait := time.Duration(until - min(until, d.clock.estimate()))
	if from == 0 || wait <= 0 {
		return from
	}
	timer := time.NewTimer(min(wait, limiter.MaxHold))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.life.ended():
	}
	return from + uint64(d.clock.monotonic()-begin)
}

func (d *leader) newFlusher(l *leadership) *flusher {
	return &flusher{
		leadership: l, table: d.table, clock: d.clock, raft: d.raft, async: d.async, counts: &d.submitted,
		futures: make(chan raft.ApplyFuture, maxInFlight),
	}
}

// watch ends a leadership if the future of one of its entries returns an error, because that entry may or may not be
// committed later. It ignores entries without an error: leader.acknowledge handles these when they are applied.
func (d *leader) watch(l *leadership, futures <-chan raft.ApplyFuture) {
	for f := range futures {
		if err := f.Error(); err != nil {
			d.log.Debug("an entry was not committed", "error", err)
			d.stepDownFrom(l)
		}
	}
}

// stepDown ends the current leadership, if there is one.
func (d *leader) stepDown() {
	if l := d.current(); l != nil {
		d.stepDownFrom(l)
	}
}

// stepDownFrom ends a leadership. It does nothing if the leadership has already ended.
func (d *leader) stepDownFrom(l *leadership) {
	d.state.Lock()
	defer d.state.Unlock()
	d.stepDownLocked(l)
}

// stepDownLocked ends a leadership: it rolls back the uncommitted generations and unblocks their waiters. It does
// nothing if the leadership has already ended. The caller must hold d.state.
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
	d.wake() // if the node is still the Raft leader, another leadership begins
}

// stepDownCurrentLocked ends the current leadership, if there is one. The caller must hold d.state.
func (d *leader) stepDownCurrentLocked() {
	if l := d.current(); l != nil {
		d.stepDownLocked(l)
	}
}
