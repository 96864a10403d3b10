package cluster

import (
	"github.com/throttledhq/throttled/internal/failpoint"
	"github.com/throttledhq/throttled/limiter"
)

// Decide decides at once if this node leads, and fails with limiter.ErrNotLeading if not.
func (n *Node) Decide(reqs []limiter.Request, out []limiter.Decision) limiter.Ticket {
	if !n.Hold() {
		for i := range out {
			out[i] = limiter.Decision{Err: limiter.ErrNotLeading}
		}
		return limiter.Ticket{}
	}
	defer n.Release()
	t := n.table.Decide(reqs, out)
	if n.config.Async {
		n.leaderships.hasten(t)
	}
	return t
}

// leased reports whether no other node can lead at present.
func (n *Node) leased(l *leadership) bool {
	return n.config.Peers == nil || l.lease.holds(n.clock.monotonic(), n.lease())
}

// Mark returns a ticket for all that was done before.
func (n *Node) Mark() limiter.Ticket { return n.table.Seen() }

// Await waits until the generation of a ticket is committed. A ticket without a generation, that
// of an answer which was based on nothing that could be taken back, waits only where another node
// might lead by now; in async mode all do.
func (n *Node) Await(t limiter.Ticket) error {
	l := n.leaderships.current()
	switch {
	case l == nil || l.epoch != t.Term:
		return n.leaderships.outcome(t)
	case failpoint.Is(failpoint.ReplyBeforeCommit), failpoint.Is(failpoint.StaleAnswers) && t.Generation == 0:
		return nil
	case (n.config.Async || t.Generation == 0) && n.leased(l):
		return nil
	case t.Generation > 0:
		return l.await(t.Generation)
	}
	if m := n.table.Mark(); m.Term != t.Term || l.await(m.Generation) != nil {
		return limiter.ErrNotLeading
	}
	return nil
}

// Flush waits until all that this node has decided before is committed, in async mode too. The error
// is limiter.ErrUncertain or limiter.ErrNotLeading if it stops leading before that.
func (n *Node) Flush() error {
	t, l := n.table.Seen(), n.leaderships.current()
	switch {
	case l == nil || l.epoch != t.Term:
		return lost(t)
	case t.Generation == 0:
		return nil
	}
	return l.await(t.Generation)
}

// Lookup describes key, as far as this node knows.
func (n *Node) Lookup(key []byte) (limiter.Entry, bool) { return n.table.Lookup(key) }

// Delete deletes key, or returns limiter.ErrNotLeading if this node does not lead.
func (n *Node) Delete(key []byte) (found bool, err error) {
	found, err = n.table.Delete(key)
	n.leaderships.hasten(n.table.Mark())
	return found, err
}

// RandomKey returns some key.
func (n *Node) RandomKey(random uint64) (key []byte, found bool) { return n.table.RandomKey(random) }

// Scan visits some of the keys.
func (n *Node) Scan(cursor uint64, count int, visit func(key []byte, kind limiter.Kind)) uint64 {
	return n.table.Scan(cursor, count, visit)
}

// Clear deletes all keys, or returns limiter.ErrNotLeading if this node does not lead.
func (n *Node) Clear() error {
	l := n.leaderships.current()
	if l == nil || !n.table.ClearIn(l.epoch) {
		return limiter.ErrNotLeading
	}
	n.leaderships.hasten(n.table.Mark())
	return nil
}

// Usage counts.
func (n *Node) Usage() limiter.Usage { return n.table.Usage() }
