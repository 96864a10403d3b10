package lease

import (
	"slices"

	"github.com/throttledhq/throttled/internal/failpoint"
	"github.com/throttledhq/throttled/limiter"
)

// Algorithm decides a request on the state of a key without leases. The limit l must be one of the algorithm's kind, now
// and the times in old are limiter times in nanoseconds, and an absent key has the zero State. The Tail of the Change may
// use the memory of room, but not that of old.Data.
type Algorithm func(l *limiter.Limit, old limiter.State, now uint64, quantity int64, room []byte) (limiter.Change, limiter.Decision)

// Plain decides a request without a Draw at time now, on a key whose record has the kind req.Kind.WithLeases() and the
// state old, which has not expired. The argument decide is the algorithm of the kind. Plain returns the change of the
// state, the kind of the changed record, and the decision. The Tail of the change may use the memory of room. Plain uses buf.
//
// A change removes the leases that have ended. If keep is true, it keeps them if the state can then be changed without
// additional memory.
func Plain(decide Algorithm, req *limiter.Request, old limiter.State, now uint64, keep bool, room []byte, buf *Buffer) (c limiter.Change, kind limiter.Kind, d limiter.Decision) {
	defer buf.release()
	kind = req.Kind.WithLeases()
	st := open(kind, old, now, buf)
	raw := st.inner
	st.adapt(decide, req.Kind, &req.Limit, now)
	if req.Quantity < 0 {
		var changed bool
		if d, changed = st.refund(decide, req, now); changed {
			c, kind = st.change(req.Kind, room)
		}
		return c, kind, d
	}
	c, d = decide(&req.Limit, st.inner, now, req.Quantity, room)
	switch {
	case c.Set:
	case st.rate == higher && d.Limited && req.Quantity > 0: // as without leases, the conversion is stored
		c, kind = st.change(req.Kind, room)
		return c, kind, d
	case st.rate == lower: // as without leases, the state keeps its rate
		_, d = decide(&req.Limit, raw, now, req.Quantity, room)
		return c, kind, d
	default:
		return c, kind, d
	}
	leases, _ := split(old)
	if !st.adapted && (keep && len(leases) > 0 || !st.pruned) && c.Keep+len(c.Tail) == len(raw.Data) {
		return overwrite(old, c, len(leases), room), kind, d
	}
	st.apply(c)
	c, kind = st.change(req.Kind, nil)
	return c, kind, d
}

// overwrite returns the change of a state whose inner state is changed by c and keeps its length. All leases stay.
// The argument leases is the size of the encoded leases. The Tail may use the memory of room.
func overwrite(old limiter.State, c limiter.Change, leases int, room []byte) limiter.Change {
	if c.Tail == nil { // the state of the algorithm is a time, without Data
		c.Tail = room[:0]
	}
	until := Until(old.Data)
	c.Tail = appendFooter(c.Tail, c.Expires, until, leases)
	c.Keep += leases
	c.Expires = max(c.Expires, until)
	return c
}

// apply changes the inner state.
func (st *state) apply(c limiter.Change) {
	st.inner = limiter.State{Expires: c.Expires, Data: slices.Concat(st.inner.Data[:c.Keep], c.Tail)}
}

// decideInner decides a request on the inner state, and applies its change.
func (st *state) decideInner(decide Algorithm, l *limiter.Limit, now uint64, quantity int64) (d limiter.Decision) {
	c, d := decide(l, st.inner, now, quantity, nil)
	switch {
	case !c.Set:
	case c.Expires <= now:
		st.inner = limiter.State{}
	default:
		st.apply(c)
	}
	return d
}

// Reset returns the change that deletes a key with leases at time now, and the kind of its record: only the units of
// outstanding leases remain charged. Set is false if no lease is outstanding: then the key can be removed.
func Reset(decide Algorithm, kind limiter.Kind, old limiter.State, now uint64) (c limiter.Change, changed limiter.Kind) {
	var buf Buffer
	st := open(kind, old, now, &buf)
	if len(st.leases) == 0 || failpoint.Is(failpoint.LeaseDeleted) {
		return c, kind.Base()
	}
	st.reset(decide, kind.Base(), now)
	return st.change(kind.Base(), nil)
}
