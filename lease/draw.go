package lease

import (
	"math"
	"time"

	"github.com/throttledhq/throttled/internal/failpoint"
	"github.com/throttledhq/throttled/limiter"
)

// capShare is the part of the time in which a limit restores its full amount that a lease may take: an eighth. Otherwise
// a lease of few units could delay all other requests by the time for which it is charged in advance.
const capShare = 8

// Draw decides a request that draws a lease at time now, on a key whose record has the given kind and the state old, which
// is the zero State if the key is absent or has expired. The argument decide is the algorithm of req.Kind. Draw sets
// Granted and Valid of req.Draw, and returns the change of the state, the kind of the changed record, and the decision.
//
// The lease has at most the units that can be admitted now, and at most an equal share of them for each lessee with
// outstanding leases, rounded up. The decision is that of a peek afterwards, with Limited and RetryAfter of a charge of one
// unit without a lease, which is not made. If no units are granted, nothing changes.
func Draw(decide Algorithm, req *limiter.Request, kind limiter.Kind, old limiter.State, now uint64) (c limiter.Change, changed limiter.Kind, d limiter.Decision) {
	var buf Buffer
	req.Draw.Granted, req.Draw.Valid = 0, 0
	st := open(kind, old, now, &buf)
	st.adapt(decide, req.Kind, &req.Limit, now)
	if !st.draw(decide, req, now) {
		return c, kind, outlook(decide, req, st.inner, now)
	}
	d = outlook(decide, req, st.inner, now)
	c, changed = st.change(req.Kind, nil)
	return c, changed, d
}

// outlook returns the decision on a peek, with Limited and RetryAfter of a charge of one unit, which is not made. A
// lessee derives from it which requests it may refuse itself.
func outlook(decide Algorithm, req *limiter.Request, inner limiter.State, now uint64) limiter.Decision {
	_, d := decide(&req.Limit, inner, now, 0, nil)
	_, one := decide(&req.Limit, inner, now, 1, nil)
	d.Limited, d.RetryAfter = one.Limited, one.RetryAfter
	return d
}

// draw adds a lease to the list and charges it to the inner state. It returns false, and changes nothing, if not even one
// unit can be granted.
func (st *state) draw(decide Algorithm, req *limiter.Request, now uint64) bool {
	f, d := familyOf(req.Kind), req.Draw
	hold := min(d.Hold, limiter.MaxHold)
	if f == timed || f == logged {
		hold = min(hold, full(req.Kind, &req.Limit)/capShare)
	}
	if f == none || hold < limiter.MinHold || !st.accepts(req) {
		return false
	}
	e := lease{id: d.ID, end: now + uint64(hold), limit: req.Limit, user: []byte(d.User), lessee: []byte(d.Lessee)}
	e.asOf = e.end
	if f == timed && d.Relaxed || failpoint.Is(failpoint.LeaseAsOfNow) || failpoint.Is(failpoint.LeaseReducedBurst) {
		e.asOf = now
	}
	if failpoint.Is(failpoint.LeaseOutlives) {
		e.asOf -= uint64(hold) / 2
	}
	if failpoint.Is(failpoint.LeaseBeyondEnd) {
		e.asOf += uint64(hold)
	}
	rest := st.rest(decide, req, &e, now)
	share := ceilDiv(rest, uint64(st.leases.lessees(d.Lessee)))
	e.units = min(uint64(req.Quantity), rest, share)
	if e.units == 0 {
		return false
	}
	if !st.charge(decide, req.Kind, &e, now) {
		return false
	}
	st.leases = append(st.leases, e)
	d.Granted, d.Valid = int64(e.units), time.Duration(e.end-now)
	return true
}

// accepts reports whether a draw is well formed and its lease has room in the list.
func (st *state) accepts(req *limiter.Request) bool {
	d := req.Draw
	return d.ID != 0 && len(d.Lessee) > 0 && len(d.Lessee) <= limiter.MaxLessee && req.Quantity > 0 &&
		len(st.leases) < MaxLeases && st.leases.of(d.Lessee) < MaxLeasesOfLessee && st.leases.find(d.ID) < 0
}

// full returns the time in which the full amount of a limit is restored.
func full(kind limiter.Kind, l *limiter.Limit) time.Duration {
	if familyOf(kind) == logged || l.Max > int64(math.MaxInt64/max(1, l.Interval)) {
		return l.Interval
	}
	return l.Interval * time.Duration(l.Max)
}

// ceilDiv returns a / b rounded up.
func ceilDiv(a, b uint64) uint64 {
	n := a / b
	if a%b > 0 {
		n++
	}
	return n
}

// Return credits unused units of a lease at time now to a key whose record has the given kind with leases and the state
// old. The argument decide is the algorithm of the kind. Return sets Granted of req.Draw to the credited units: 0 if the
// lease is unknown, has ended or belongs to another user, or does not have Of units, and at most the units of the lease. It
// returns the change of the state and the kind of the changed record.
func Return(decide Algorithm, req *limiter.Request, kind limiter.Kind, old limiter.State, now uint64) (c limiter.Change, changed limiter.Kind) {
	var buf Buffer
	req.Draw.Granted, req.Draw.Valid = 0, 0
	st := open(kind, old, now, &buf)
	at := st.leases.find(req.Draw.ID)
	if at < 0 || string(st.leases[at].user) != req.Draw.User || req.Quantity < 1 {
		return c, kind
	}
	if of := req.Draw.Of; of != 0 && uint64(of) != st.leases[at].units {
		return c, kind
	}
	base := kind.Base()
	l := st.leases[at].limit
	st.adapt(decide, base, &l, now)
	n, left := min(uint64(req.Quantity), st.leases[at].units), time.Duration(st.leases[at].end-now)
	st.credit(decide, base, at, n, now)
	req.Draw.Granted, req.Draw.Valid = int64(n), left
	return st.change(base, nil)
}
