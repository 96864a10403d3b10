// Package leasetest checks histories of one key against the rule of its algorithm: the units that are spent, directly or
// by leases, at the worst times that the leases permit. It is used by tests of leases, and shares no code with the
// algorithms.
//
// A test records spent units, leases and refunds in a [History], and then calls its Check method.
package leasetest

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/throttledhq/throttled/limiter"
)

// History holds the units spent on one key. Times are in nanoseconds.
type History struct {
	charges         []charge
	spent, refunded []event
	refills         []event
	leases          []*Lease
}

// charge is a request that has changed the state of the key, and its limit.
type charge struct {
	at     uint64
	limit  limiter.Limit
	admits bool // it has admitted units
}

// event is a number of units at a time.
type event struct {
	at    uint64
	units int64
	seq   int  // the index of the charge of these units
	lease bool // the units belong to a lease
}

// Lease is a lease of a History. Its units can be spent from Start to End, both included.
type Lease struct {
	Start, End uint64
	Units      int64 // granted and not returned
	seq        int
}

// Charge records the limit of a request that has changed the state. The calls of Spend and Lease that follow belong to this
// request.
func (h *History) Charge(at uint64, l limiter.Limit) {
	h.charges = append(h.charges, charge{at: at, limit: l})
}

// Spend records units that were admitted directly.
func (h *History) Spend(at uint64, units int64) {
	h.spent = append(h.spent, event{at: at, units: units, seq: h.admit()})
}

// Refund records units that were refunded: the units that could be admitted in addition after the refund.
func (h *History) Refund(at uint64, units int64) {
	if units > 0 {
		h.refunded = append(h.refunded, event{at: at, units: units})
	}
}

// Refill records a refill of a token bucket.
func (h *History) Refill(at uint64, units int64) {
	h.refills = append(h.refills, event{at: at, units: units})
}

// Lease records a lease. The caller reduces Units if units are returned.
func (h *History) Lease(start, end uint64, units int64) *Lease {
	l := &Lease{start, end, units, h.admit()}
	h.leases = append(h.leases, l)
	return l
}

// admit records that the last charge has admitted units, and returns its index.
func (h *History) admit() int {
	last := len(h.charges) - 1
	h.charges[last].admits = true
	return last
}

// schedule returns the spent units in the order of their times. The units of leases are spent at their end or at a random
// time of another event within the lease, since the worst times are those of other events.
func (h *History) schedule(rng *rand.Rand) []event {
	var times []uint64
	for _, e := range append(slices.Clone(h.spent), h.refunded...) {
		times = append(times, e.at)
	}
	for _, l := range h.leases {
		times = append(times, l.Start, l.End)
	}
	slices.Sort(times)
	times = slices.Compact(times)
	out := slices.Clone(h.spent)
	for _, l := range h.leases {
		from, _ := slices.BinarySearch(times, l.Start)
		to, _ := slices.BinarySearch(times, l.End+1)
		for left := l.Units; left > 0; {
			e := event{at: l.End, units: 1 + rng.Int64N(left), seq: l.seq, lease: true}
			if rng.IntN(3) > 0 {
				e.at = times[from+rng.IntN(to-from)]
			}
			out = append(out, e)
			left -= e.units
		}
	}
	slices.SortFunc(out, func(a, b event) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.seq, b.seq)) })
	return out
}

// refundedIn returns the units refunded from one time to another, both included.
func (h *History) refundedIn(from, to uint64) (sum int64) {
	for _, e := range h.refunded {
		if from <= e.at && e.at <= to {
			sum += e.units
		}
	}
	return sum
}

// refilledIn returns the units refilled after one time, until another, included.
func (h *History) refilledIn(after, to uint64) (sum int64) {
	for _, e := range h.refills {
		if after < e.at && e.at <= to {
			sum += e.units
		}
	}
	return sum
}

// inForce returns the index of the charge whose limit applies to a spent unit: its own, or for a unit of a lease the last
// one until then that has admitted units.
func (h *History) inForce(e event) (last int) {
	last = e.seq
	for i := e.seq; e.lease && i < len(h.charges) && h.charges[i].at <= e.at; i++ {
		if h.charges[i].admits {
			last = i
		}
	}
	return last
}

// most returns the largest number of units that the limits of the charges from one index to another admit at once.
func (h *History) most(from, to int) (most int64) {
	for _, c := range h.charges[from : to+1] {
		most = max(most, c.limit.Max)
	}
	return most
}
