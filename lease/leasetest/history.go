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
)

// History holds the units spent on one key. Times are in nanoseconds.
type History struct {
	spent, refunded []event
	leases          []*Lease
}

// event is a number of units at a time.
type event struct {
	at    uint64
	units int64
}

// Lease is a lease of a History. Its units can be spent from Start to End, both included.
type Lease struct {
	Start, End uint64
	Units      int64 // granted and not returned
}

// Spend records units that were admitted directly.
func (h *History) Spend(at uint64, units int64) { h.spent = append(h.spent, event{at, units}) }

// Refund records units that were refunded: the units that could be admitted in addition after the refund.
func (h *History) Refund(at uint64, units int64) {
	if units > 0 {
		h.refunded = append(h.refunded, event{at, units})
	}
}

// Lease records a lease. The caller reduces Units if units are returned.
func (h *History) Lease(start, end uint64, units int64) *Lease {
	l := &Lease{start, end, units}
	h.leases = append(h.leases, l)
	return l
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
	units := map[uint64]int64{}
	for _, e := range h.spent {
		units[e.at] += e.units
	}
	for _, l := range h.leases {
		from, _ := slices.BinarySearch(times, l.Start)
		to, _ := slices.BinarySearch(times, l.End+1)
		for left := l.Units; left > 0; {
			n := 1 + rng.Int64N(left)
			at := l.End
			if rng.IntN(3) > 0 {
				at = times[from+rng.IntN(to-from)]
			}
			units[at] += n
			left -= n
		}
	}
	var out []event
	for at, n := range units {
		out = append(out, event{at, n})
	}
	slices.SortFunc(out, func(a, b event) int { return cmp.Compare(a.at, b.at) })
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
