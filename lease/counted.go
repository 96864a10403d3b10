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

// chargeCount charges a new lease to the inner state, and ends the lease with the interval in which it counts.
func (st *state) chargeCount(decide Algorithm, base limiter.Kind, e *lease, now uint64) bool {
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
	any := *l
	any.Max = math.MaxInt64
	_, d := decide(&any, st.inner, now, 0, nil)
	return uint64(any.Max - d.Remaining)
}

// recharge charges the units of each lease again if the interval in which they count has ended. This happens only if the
// length of the windows was changed while the lease was outstanding or, for a Calendar, if the window has ended by the
// wall clock: otherwise the lease ends first.
func (st *state) recharge(decide Algorithm, base limiter.Kind, l *limiter.Limit, now uint64) {
	at := now
	if base == limiter.Calendar {
		at = max(now, uint64(l.Amount)-min(uint64(l.Amount), uint64(l.Interval)))
	}
	for i := range st.leases {
		e := &st.leases[i]
		if e.asOf > at {
			continue
		}
		st.force(decide, l, e.units, now)
		e.count(l, boundary(base, l, st.inner, now))
		st.adapted = true
	}
}

// move is called after a change of the inner state with the limit l. If the length of the windows differs from that of the
// lease, its units count as of now.
func (st *state) move(base limiter.Kind, l *limiter.Limit, now uint64) {
	for i := range st.leases {
		if e := &st.leases[i]; e.limit.Interval != l.Interval || e.limit.Amount != l.Amount {
			e.count(l, boundary(base, l, st.inner, now))
		}
	}
}

// count records that the units of the lease count by the limit l until asOf. The Max of l may be 0.
func (e *lease) count(l *limiter.Limit, asOf uint64) {
	e.limit, e.asOf = *l, asOf
	e.limit.Max = max(1, l.Max)
}

// cancelRefills cancels the refills of a bucket since the last change, as far as they would restore units of outstanding
// leases. There are such refills only if the refill interval was changed: otherwise the leases end with it.
func (st *state) cancelRefills(decide Algorithm, base limiter.Kind, l *limiter.Limit, now uint64) {
	c, ok := contents(base, st.inner)
	if !ok {
		return
	}
	if used := st.used(decide, l, now); used < c.Used {
		st.force(decide, l, min(c.Used-used, st.leases.units()), now)
		st.adapted = true
	}
}

// refundCount refunds units to the inner state, but none of outstanding leases. The units of the leases are in the present
// sub-window. Therefore they are set aside, because a refund takes the newest units first.
func (st *state) refundCount(decide Algorithm, req *limiter.Request, now uint64) {
	l, outstanding := &req.Limit, st.leases.units()
	rest := st.used(decide, l, now)
	if failpoint.Is(failpoint.LeaseRefundFloor) {
		outstanding = 0
	}
	rest -= min(rest, outstanding)
	credit := min(-uint64(req.Quantity), rest)
	if credit == 0 {
		return
	}
	if isBucket(req.Kind) { // keeps the time of the next refill
		st.decideInner(decide, l, now, -toInt(credit))
		return
	}
	st.decideInner(decide, l, now, -toInt(outstanding))
	st.decideInner(decide, l, now, -toInt(credit))
	st.force(decide, l, outstanding, now)
	st.move(req.Kind, l, now)
}
