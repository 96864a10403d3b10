package cluster

import (
	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/internal/failpoint"
	"github.com/throttledhq/throttled/limiter"
)

// engine makes decisions in the table while this node is the leader. It implements limiter.Engine.
type engine struct {
	table       *buckets.Table
	clock       *logClock
	leaderships *leaderships
	setting     *heartbeatSetting
	async       bool
	standalone  bool // there are no other nodes
}

// Decide makes the decisions immediately if this node is the leader. Otherwise each decision fails with
// limiter.ErrNotLeading.
func (e *engine) Decide(reqs []limiter.Request, out []limiter.Decision) limiter.CommitToken {
	if !e.Hold() {
		for i := range out {
			out[i] = limiter.Decision{Err: limiter.ErrNotLeading}
		}
		return limiter.CommitToken{}
	}
	defer e.Release()
	t := e.table.Decide(reqs, out)
	if full := e.leaderships.submitted.decide(admissions(out)); full || e.async {
		e.leaderships.hasten(t)
	}
	return t
}

// admissions returns the number of requests that were admitted. Refused and failed requests change nothing, and are not
// a part of an entry.
func admissions(out []limiter.Decision) (n int) {
	for i := range out {
		if !out[i].Limited && out[i].Err == nil {
			n++
		}
	}
	return n
}

// Hold delays hand-overs until Release is called, and reports whether this node makes decisions. A command with several
// engine calls must call Hold before the first one, so that a hand-over waits until the command has finished. Calls of
// Hold may be nested.
func (e *engine) Hold() bool { return e.leaderships.hold() }

// Release must be called once for each Hold that returned true.
func (e *engine) Release() { e.leaderships.release() }

// isLeased reports whether no other node can be the leader now.
func (e *engine) isLeased(l *leadership) bool {
	return e.standalone || l.lease.holds(e.clock.monotonic(), e.setting.leaseTime())
}

// LastWrite returns a token for all changes made before the call.
func (e *engine) LastWrite() limiter.CommitToken { return e.table.LastWrite() }

// WaitCommitted blocks until the generation in a token is committed. A token without a generation belongs to a reply
// that depends on committed changes only. For such a token, and for all tokens in async mode, WaitCommitted blocks only
// if another node may be the leader. If the leadership of the token ends before the wait is over, the error is
// limiter.ErrUncertain for a token with a generation, and limiter.ErrNotLeading for a token without one.
func (e *engine) WaitCommitted(t limiter.CommitToken) error {
	l := e.leaderships.current()
	switch {
	case l == nil || l.epoch != t.Epoch:
		return e.leaderships.outcome(t)
	case failpoint.Is(failpoint.ReplyBeforeCommit), failpoint.Is(failpoint.StaleAnswers) && t.Generation == 0:
		return nil
	case (e.async || t.Generation == 0) && e.isLeased(l):
		return nil
	case t.Generation > 0:
		return l.await(t.Generation)
	}
	if m := e.table.OpenGeneration(); m.Epoch != t.Epoch || l.await(m.Generation) != nil {
		return limiter.ErrNotLeading
	}
	return nil
}

// Flush blocks until all earlier decisions of this node are committed, even in async mode. It returns
// limiter.ErrNotLeading if this node is not the leader, and limiter.ErrUncertain if it loses leadership before the
// commit.
func (e *engine) Flush() error {
	t, l := e.table.LastWrite(), e.leaderships.current()
	switch {
	case l == nil || l.epoch != t.Epoch:
		return lost(t)
	case t.Generation == 0:
		return nil
	}
	return l.await(t.Generation)
}

// Lookup returns the description of a key from the table of this node, which may be outdated on a follower.
func (e *engine) Lookup(key []byte) (limiter.Entry, bool) { return e.table.Lookup(key) }

// Delete deletes a key. It returns limiter.ErrNotLeading if this node is not the leader.
func (e *engine) Delete(key []byte) (found bool, err error) {
	found, err = e.table.Delete(key)
	e.leaderships.hasten(e.table.OpenGeneration())
	return found, err
}

// RandomKey returns a random key.
func (e *engine) RandomKey(random uint64) (key []byte, found bool) { return e.table.RandomKey(random) }

// Scan calls visit for some of the keys, and returns the cursor for the next call.
func (e *engine) Scan(cursor uint64, count int, visit func(key []byte, kind limiter.Kind)) uint64 {
	return e.table.Scan(cursor, count, visit)
}

// Clear deletes all keys. It returns limiter.ErrNotLeading if this node is not the leader.
func (e *engine) Clear() error {
	err := e.table.Clear()
	e.leaderships.hasten(e.table.OpenGeneration())
	return err
}

// Leases calls yield for the outstanding leases in the table of this node, which may be outdated on a follower.
func (e *engine) Leases(yield func(limiter.Lease) bool) { e.table.Leases(yield) }

// LeaseUsage returns the counters of the leases in the table.
func (e *engine) LeaseUsage() limiter.LeaseUsage { return e.table.LeaseUsage() }

// Usage returns the usage counters of the table.
func (e *engine) Usage() limiter.Usage { return e.table.Usage() }
