package cluster

import (
	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/internal/failpoint"
	"github.com/throttledhq/throttled/limiter"
)

// engine decides in the table while the node leads. It implements limiter.Engine.
type engine struct {
	table       *buckets.Table
	clock       *logClock
	leaderships *leaderships
	setting     *heartbeatSetting
	async       bool
	standalone  bool // no other node can lead
}

// Decide decides immediately if this node leads, and otherwise fails with limiter.ErrNotLeading.
func (e *engine) Decide(reqs []limiter.Request, out []limiter.Decision) limiter.CommitToken {
	if !e.Hold() {
		for i := range out {
			out[i] = limiter.Decision{Err: limiter.ErrNotLeading}
		}
		return limiter.CommitToken{}
	}
	defer e.Release()
	t := e.table.Decide(reqs, out)
	if e.async {
		e.leaderships.hasten(t)
	}
	return t
}

// Hold prevents a hand-over until Release, and reports whether this node decides. A command of several steps holds, so
// that none of its steps is refused. Calls may be nested.
func (e *engine) Hold() bool { return e.leaderships.hold() }

// Release ends a successful Hold.
func (e *engine) Release() { e.leaderships.release() }

// isLeased reports whether no other node can lead at present.
func (e *engine) isLeased(l *leadership) bool {
	return e.standalone || l.lease.holds(e.clock.monotonic(), e.setting.leaseTime())
}

// LastWrite returns a token for everything done before the call.
func (e *engine) LastWrite() limiter.CommitToken { return e.table.LastWrite() }

// WaitCommitted blocks until the generation of a token is committed. For a token without a generation, that of a reply based on
// committed changes only, it blocks only if another node may lead. In async mode that applies to all tokens. The error is
// limiter.ErrUncertain or limiter.ErrNotLeading.
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

// Flush blocks until everything that this node has decided before is committed, in async mode, too. It returns
// limiter.ErrUncertain or limiter.ErrNotLeading if the node loses leadership before that.
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

// Lookup returns the description of a key, as far as this node knows.
func (e *engine) Lookup(key []byte) (limiter.Entry, bool) { return e.table.Lookup(key) }

// Delete deletes a key. It returns limiter.ErrNotLeading if this node does not lead.
func (e *engine) Delete(key []byte) (found bool, err error) {
	found, err = e.table.Delete(key)
	e.leaderships.hasten(e.table.OpenGeneration())
	return found, err
}

// RandomKey returns a random key.
func (e *engine) RandomKey(random uint64) (key []byte, found bool) { return e.table.RandomKey(random) }

// Scan visits some of the keys, and returns the cursor of the next call.
func (e *engine) Scan(cursor uint64, count int, visit func(key []byte, kind limiter.Kind)) uint64 {
	return e.table.Scan(cursor, count, visit)
}

// Clear deletes all keys. It returns limiter.ErrNotLeading if this node does not lead.
func (e *engine) Clear() error {
	err := e.table.Clear()
	e.leaderships.hasten(e.table.OpenGeneration())
	return err
}

// Usage returns the usage counters of the table.
func (e *engine) Usage() limiter.Usage { return e.table.Usage() }
