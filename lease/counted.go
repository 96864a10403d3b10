package lease

import (
	"math"

	"github.com/throttledhq/throttled/internal/failpoint"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/tokenbucket"
)

// boundary returns the end of the window, the sub-window or the refill interval in which units count that are charged to
// the inner state at time now.
func boundary(base limiter.Kind, l *limiter.Limit, inner limiter.State, now uint64) uint64 {
	switch base {
	case limiter.Calendar:
		return uint64(l.Amount)
	case limiter.TokenBucket, limiter.ScaledBucket:
		if c, ok := contents(base, inner); ok {
			return add(c.Anchor, uint64(l.Interval))
		}
		return now
	}
	return now - now%uint64(l.Interval) + uint64(l.Interval)
}

// contents returns the content of a state of a bucket without the refills since the last change.
func contents(base limiter.Kind, inner limiter.State) (c tokenbucket.Contents, ok bool) {
	if base == limiter.ScaledBucket {
		c, _, ok = tokenbucket.StoredScaled(inner, 0)
		return c, ok
	}
	return tokenbucket.Stored(inner)
}

func isBucket(base limiter.Kind) bool {
	return base == limiter.TokenBucket || base == limiter.ScaledBucket
}

// begun reports whether the window of a limit has begun. The lessee computes the window of a Calendar by its own clock, which may
// be ahead: a charge would then end the present window early.
func begun(base limiter.Kind, l *limiter.Limit, now uint64) bool {
	return base != limiter.Calendar || now >= uint64(l.Amount)-uint64(l.Interval)
}

// chargeCount charges a new lease to the inner state, and ends the lease with the interval in which it counts.
func (st *state) chargeCount(decide Algorithm, base limiter.Kind, e *lease, now uint64) bool {
	if !begun(base, &e.limit, now) {
		return false
	}
	before := st.inner
	st.decideInner(decide, &e.limit, now, toInt(e.units))
	e.asOf = boundary(base, &e.limit, st.inner, now)
	if !failpoint.Is(failpoint.LeaseOutlives) {
		e.end = min(e.end, e.asOf)
	}
	if e.end < now+uint64(limiter.MinHold) {
		st.inner = before
		return false
	}
	return true
}

// force charges units to the inner state, even beyond the limit l.
func (st *state) force(decide Algorithm, l *limiter.Limit, units, now uint64) {
	any := *l
	any.Max = max(l.Max, toInt(add(st.used(decide, l, now), units)))
	st.decideInner(decide, &any, now, toInt(units))
}

// used returns the units that count against the limit l.
func (st *state) used(decide Algorithm, l *limiter.Limit, now uint64) uint64 {
	any := &st.buf.limit
	*any = *l
	any.Max = math.MaxInt64
	_, d := decide(any, st.inner, now, 0, nil)
	return uint64(any.Max - d.Remaining)
}

// reshape is called before a decision with the limit l. If the windows or the refills of l differ from those of the limit
// by which the units of the leases count, it makes them count by l until the last lease has ended.
func (st *state) reshape(decide Algorithm, base limiter.Kind, l *limiter.Limit, now uint64) {
	if base == limiter.Calendar {
		st.recharge(decide, l, now)
		return
	}
	if shape := st.leases[0].limit; shape.Interval == l.Interval && shape.Amount == l.Amount {
		return
	}
	if isBucket(base) {
		used := max(st.used(decide, l, now), st.leases.units())
		st.inner = tokenbucket.Hold(base, l, st.inner, now, used, st.leases.until())
	} else {
		st.place(decide, l, 0, now)
	}
	for i := range st.leases {
		st.leases[i].count(l)
	}
	st.adapted = true
}

// recharge charges the units of the leases again if the window of a Calendar has ended by the wall clock before they have
// ended.
func (st *state) recharge(decide Algorithm, l *limiter.Limit, now uint64) {
	used, units := st.used(decide, l, now), st.leases.units()
	if used >= units {
		return
	}
	st.force(decide, l, units-used, now)
	st.adapted = true
}

// count records that the units of the lease count by the limit l. The Max of l may be 0.
func (e *lease) count(l *limiter.Limit) {
	e.limit = *l
	e.limit.Max = max(1, l.Max)
}

// place charges units in the sub-window of l in which the last lease ends. If this is a later sub-window than the present
// one, it then holds all used units, since a state has no counts after its newest sub-window begins.
func (st *state) place(decide Algorithm, l *limiter.Limit, units, now uint64) {
	at := max(now+1, st.leases.until()) - 1
	if width := uint64(l.Interval); at/width == now/width {
		at = now
	} else {
		units = add(units, st.used(decide, l, now))
		st.inner = limiter.State{}
	}
	st.force(decide, l, units, at)
}

// resetCount removes all units from the inner state except those of the leases.
func (st *state) resetCount(decide Algorithm, base limiter.Kind, now uint64) {
	l, units := st.leases[0].limit, st.leases.units()
	switch {
	case base == limiter.Calendar: // keeps the time until which the units count
		used := st.used(decide, &l, now)
		st.decideInner(decide, &l, now, -toInt(used-min(used, units)))
	case isBucket(base):
		st.inner = tokenbucket.Hold(base, &l, limiter.State{}, now, units, st.leases.until())
	default:
		st.inner = limiter.State{}
		st.place(decide, &l, units, now)
	}
}

// refundCount refunds units to the inner state, but none of outstanding leases. In windows, their units are set aside, because
// a refund takes the newest units first. It returns false if there is nothing to refund.
func (st *state) refundCount(decide Algorithm, req *limiter.Request, now uint64) bool {
	l, outstanding := &req.Limit, st.leases.units()
	rest := st.used(decide, l, now)
	if failpoint.Is(failpoint.LeaseRefundFloor) {
		outstanding = 0
	}
	rest -= min(rest, outstanding)
	credit := toInt(min(-uint64(req.Quantity), rest))
	switch {
	case credit == 0:
		return false
	case isBucket(req.Kind), req.Kind == limiter.Calendar: // one number: keeps the time until which it counts
		st.decideInner(decide, l, now, -credit)
	default:
		st.decideInner(decide, l, now, -toInt(outstanding))
		st.decideInner(decide, l, now, -credit)
		st.place(decide, l, outstanding, now)
	}
	return true
}
