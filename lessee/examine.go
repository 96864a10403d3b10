package lessee

import (
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// shouldDraw reports whether a new lease is needed now: the demand is high enough for leases, and the units in hand last for
// less than the time that a draw takes.
func (a *account) shouldDraw(now int64) bool {
	if a.drawing || now < a.pause {
		return false
	}
	need := a.demand.during(a.hold, now)
	if need < a.ledger.config.MinUnits {
		return false
	}
	ahead := min(lead, a.hold/2) // a lease that is not longer than lead would cause the next draw immediately
	return a.units(now+int64(ahead)) <= a.demand.during(ahead, now)
}

// demands counts the demand of a request, and plans a draw if one is needed.
func (a *account) demands(quantity, now int64) {
	if quantity <= a.request.Limit.Max { // the authority admits no larger quantity
		a.demand.add(quantity, now)
	}
	if a.shouldDraw(now) {
		a.ledger.plan.draw(a)
	}
}

// ready reports whether units are in hand, or the authority is likely to grant some: the demand is high enough for leases, and the
// authority has not refused a draw within the wanted validity of a lease.
func (a *account) ready(now int64) bool {
	if a.units(now) > 0 {
		return true
	}
	demand := max(a.grouped.during(a.hold, now), a.demand.during(a.hold, now))
	return now >= a.pause && now >= a.refusal.limit && demand >= a.ledger.config.MinUnits
}

// nextReturn returns the time at which the units in hand are compared with the demand next: in the middle of the lease that
// ends first, and shortly before its end.
func (a *account) nextReturn(now int64) int64 {
	next := now + int64(a.ledger.config.Hold)
	for i := range a.leases {
		h := &a.leases[i]
		middle, end := h.begun+(h.ends-h.begun)/2, h.ends-int64(a.margin(h))
		switch {
		case now < middle:
			next = min(next, middle)
		case now < end:
			next = min(next, end)
		}
	}
	return next
}

// margin returns the time before the end of a lease at which its unused units are returned: a return that arrives after the
// end is useless.
func (a *account) margin(h *held) time.Duration {
	return min(lead, time.Duration(h.ends-h.begun)/4)
}

// examine plans the returns of an account, and removes it if it is not used.
func (l *Ledger) examine(a *account, now int64) {
	s, _ := l.shard([]byte(a.name))
	s.mu.Lock()
	defer s.mu.Unlock()
	a.planReturns(now)
	l.counts.Lost.Add(a.prune(now))
	if len(a.leases) == 0 && !a.drawing && now >= a.refusal.limit && now-a.used > int64(l.config.Hold) {
		delete(s.accounts, a.name)
		return
	}
	l.plan.schedule(a, a.nextReturn(now))
}

// planReturns plans the return of units that are not needed: those of a lease that is about to end, and those above the
// demand of the remaining time.
func (a *account) planReturns(now int64) {
	for i := range a.leases {
		h := &a.leases[i]
		if h.units == 0 || now >= h.ends {
			continue
		}
		surplus := h.units
		if left := time.Duration(h.ends - now); left > a.margin(h) {
			surplus -= 2*a.demand.during(left, now) + 1
		}
		if surplus > 0 {
			a.ledger.returnUnits(a, h, surplus, now)
		}
	}
}

// returnUnits plans the return of units of a lease. If a return is lost, later returns of the lease credit nothing, and all its
// units are restored after its end.
func (l *Ledger) returnUnits(a *account, h *held, units, now int64) {
	req := a.request
	req.Quantity = units
	req.Draw = &limiter.Draw{ID: h.id, Lessee: l.config.Lessee, Return: true, Of: h.of}
	h.units -= units
	h.of -= units
	l.counts.Returns.Add(1)
	l.counts.Returned.Add(units)
	l.plan.mu.Lock()
	l.plan.returns = append(l.plan.returns, Call{Request: req, Sent: now, account: a})
	l.plan.mu.Unlock()
	l.plan.signal()
}

// Close plans the return of all units in hand. Next returns these calls, and no further draws.
func (l *Ledger) Close(now int64) {
	l.plan.close()
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		for _, a := range s.accounts {
			for j := range a.leases {
				if h := &a.leases[j]; h.units > 0 && now < h.ends {
					l.returnUnits(a, h, h.units, now)
				}
			}
		}
		s.mu.Unlock()
	}
}
