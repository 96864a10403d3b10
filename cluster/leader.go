package cluster

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/ruleset"
	"github.com/throttledhq/throttled/topology"
)

const retryEvery = 5 * time.Millisecond // pause before a failed operation is retried

// leader begins and ends the leaderships of a node, and hands leadership over to other voters.
type leader struct {
	*leaderships
	state       *sync.Mutex // guards the applied state, see fsm
	raft        *raftHandle
	table       *buckets.Table
	clock       *logClock
	times       *timeKeeper
	setting     *heartbeatSetting
	rules       *ruleset.Store
	view        *observer
	tracker     *tracker
	async       bool
	beginResult func(error) // called with the result of each attempt to begin a leadership
	life        *lifetime
	log         *slog.Logger
}

// run begins a leadership when Raft reports that this node is the leader, and ends the leadership when Raft reports
// that this node is not the leader.
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

// acknowledge reports whether the current leadership has submitted the given entry, whose changes are c. If so, it
// commits the generation of the entry. If the entry was appended to the log in another term, the term of the current
// leadership is over. acknowledge then ends the leadership, which rolls back the generations in flight. The caller must
// hold d.state.
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

// commit commits a generation. It returns errSkipped if an earlier generation is not committed because Raft rejected
// its entry.
func (d *leader) commit(l *leadership, c *changes) error {
	if !l.flights.isNext(c.generation) || !d.table.Commit(c.generation, d.clock.replayTime(c)) {
		return errSkipped
	}
	now := d.clock.monotonic()
	readAt := l.commit(c.generation, now)
	d.submitted.commits.AddDurations(now-readAt, 1)
	d.clock.record(c, readAt, true)
	return nil
}

// followers returns the progress of the other members, or nil if this node is not the leader.
func (d *leader) followers() []topology.Follower {
	l := d.current()
	if l == nil {
		return nil
	}
	return d.tracker.followers(d.view.View(), l.term, d.setting.heartbeat())
}
