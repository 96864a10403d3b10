package lessee

import (
	"bytes"
	"math"
	"slices"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// account is the state of one key and limit. The lock of its shard guards it, except the field due.
type account struct {
	ledger  *Ledger
	name    string
	request limiter.Request // the request of which it draws units, with a copy of the key
	leases  []held          // in the order in which they were drawn
	demand  demand
	grouped demand // of groups, also if no units are drawn for them
	used    int64  // time of the last request
	answer  answer
	hold    time.Duration // validity of the last lease, or the wanted validity
	leased  int64         // until this time, the authority may have a lease of this account on record
	refusal refusal
	drawing bool  // a draw is planned, or sent and not answered
	pause   int64 // no draw is planned before this time

	due timer // guarded by plan.mu
}

// held is a lease in hand.
type held struct {
	id    uint64
	units int64
	of    int64 // units that the authority has on record: the units in hand and the spent ones
	ends  int64 // from this time on, no unit may be spent
	begun int64
}

// answer is the last decision of the authority on one unit of the limit, from which the remaining fields of local decisions are
// estimated.
type answer struct {
	at        int64
	remaining int64
	reset     time.Duration
}

// refusal is the last refusal of one unit by the authority.
type refusal struct {
	until int64 // requests are refused until this time
	limit int64 // the refusal is dropped at this time at the latest
	retry int64 // the authority admits a unit from this time on, or never
}

const never = math.MaxInt64

// known reports whether the authority refuses requests at the time now. While a draw is not answered, an earlier refusal is
// repeated, because otherwise all requests of this time would be forwarded.
func (r *refusal) known(now int64, drawing bool) bool {
	return now < r.until || drawing && now < r.limit
}

func newAccount(l *Ledger, name string, req *limiter.Request, now int64) *account {
	r := limiter.Request{Kind: req.Kind, Key: bytes.Clone(req.Key), Limit: req.Limit}
	return &account{ledger: l, name: name, request: r, used: now, hold: l.config.Hold, due: timer{index: -1}}
}

// decide decides a request, and reports whether it could.
func (a *account) decide(quantity, now int64, out *limiter.Decision) bool {
	a.used = now
	switch {
	case a.units(now) >= quantity:
		a.admit(quantity, now, out)
	case a.refusal.known(now, a.drawing):
		a.refuse(quantity, now, out)
	default:
		return false
	}
	return true
}

// units returns the number of units in hand at the time now.
func (a *account) units(now int64) (n int64) {
	for i := range a.leases {
		if now < a.leases[i].ends {
			n += a.leases[i].units
		}
	}
	return n
}

// admit spends units, of which there must be enough. Leases that end first are spent first.
func (a *account) admit(quantity, now int64, out *limiter.Decision) {
	a.used = now
	for rest := quantity; rest > 0; {
		h := a.first(now)
		n := min(rest, h.units)
		h.units -= n
		rest -= n
	}
	*out = limiter.Decision{
		Limit:      a.request.Limit.Max,
		Remaining:  min(a.request.Limit.Max, a.units(now)+a.answer.remaining),
		RetryAfter: limiter.NoRetry,
		ResetAfter: a.answer.resetAt(now),
	}
}

// first returns the lease with units in hand that ends first.
func (a *account) first(now int64) (h *held) {
	for i := range a.leases {
		if next := &a.leases[i]; next.units > 0 && now < next.ends && (h == nil || next.ends < h.ends) {
			h = next
		}
	}
	return h
}

// refuse repeats the refusal that the authority has given. A quantity that exceeds the limit is never admitted, so it has no
// retry time.
func (a *account) refuse(quantity, now int64, out *limiter.Decision) {
	retry := limiter.NoRetry
	if a.refusal.retry != never && quantity <= a.request.Limit.Max {
		retry = time.Duration(max(1, a.refusal.until-now, a.refusal.retry-now))
	}
	*out = limiter.Decision{
		Limited:    true,
		Limit:      a.request.Limit.Max,
		RetryAfter: retry,
		ResetAfter: max(a.answer.resetAt(now), retry, 1),
	}
}

func (s *answer) resetAt(now int64) time.Duration { return max(0, s.reset-time.Duration(now-s.at)) }

// prune removes leases that have ended or are spent, and returns the number of units that were lost.
func (a *account) prune(now int64) (lost int64) {
	a.leases = slices.DeleteFunc(a.leases, func(h held) bool {
		if now >= h.ends {
			lost += h.units
		}
		return now >= h.ends || h.units == 0
	})
	return lost
}
