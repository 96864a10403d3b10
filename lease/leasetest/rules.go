package leasetest

import (
	"fmt"
	"math/rand/v2"
)

// Rule is the rule of an algorithm: the units that may be spent from the time of one event to that of another.
type Rule interface {
	// check returns an error if the events, in ascending order of time, violate the rule.
	check(h *History, spent []event) error
}

// Check spends the units of the leases at times chosen by rng, and returns an error if the rule is violated.
func (h *History) Check(rule Rule, rng *rand.Rand) error { return rule.check(h, h.schedule(rng)) }

// GCRA admits Limit units, and one more for each Interval nanoseconds. Slack is added to the length of each interval of
// time: it is 0 for strict leases, and the length of the longest lease for relaxed ones.
type GCRA struct {
	Interval, Slack uint64
	Limit           int64
}

func (r GCRA) check(h *History, spent []event) error {
	for i := range spent {
		units := int64(0)
		for j := i; j < len(spent); j++ {
			units += spent[j].units
			from, to := spent[i].at, spent[j].at
			most := r.Limit + h.refundedIn(from, to)
			if need := units - most; need > 0 && uint64(need)*r.Interval > to-from+r.Slack {
				return fmt.Errorf("%d units are spent from %d to %d, and the limit of %d and %d refunded units restore one in %d ns", units, from, to, r.Limit, most-r.Limit, r.Interval)
			}
		}
	}
	return nil
}

// Windows admits Limit units in any Parts consecutive windows of the given width, aligned to time 0.
type Windows struct {
	Width, Parts uint64
	Limit        int64
}

func (r Windows) check(h *History, spent []event) error {
	for i := range spent {
		first := spent[i].at / r.Width
		units := int64(0)
		for j := i; j < len(spent) && spent[j].at/r.Width < first+r.Parts; j++ {
			units += spent[j].units
		}
		if most := r.Limit + h.refundedIn(first*r.Width, (first+r.Parts)*r.Width-1); units > most {
			return fmt.Errorf("%d units are spent in %d windows of %d ns from %d on, at most %d are permitted", units, r.Parts, r.Width, first*r.Width, most)
		}
	}
	return nil
}

// Sliding admits Limit units, counting those of the present window and the part of those of the previous window that
// the sliding window still covers, rounded up.
type Sliding struct {
	Width uint64
	Limit int64
}

func (r Sliding) check(h *History, spent []event) error {
	for j := range spent {
		at := spent[j].at
		start := at - at%r.Width
		var prev, curr int64
		for i := 0; i <= j; i++ {
			switch {
			case spent[i].at >= start:
				curr += spent[i].units
			case spent[i].at+r.Width >= start:
				prev += spent[i].units
			}
		}
		left := start + r.Width - at
		covered := (prev*int64(left) + int64(r.Width) - 1) / int64(r.Width)
		if most := r.Limit + h.refundedIn(start-min(start, r.Width), at); curr+covered > most {
			return fmt.Errorf("at %d, %d units are spent in the window and %d of the previous %d are covered, at most %d are permitted", at, curr, covered, prev, most)
		}
	}
	return nil
}

// Refills admits the units of the limit, and those of each refill.
type Refills struct{}

func (r Refills) check(h *History, spent []event) error {
	for i := range spent {
		units, last := int64(0), 0
		for j := i; j < len(spent); j++ {
			units, last = units+spent[j].units, max(last, spent[j].seq)
			from, to := spent[i].at, spent[j].at
			most := h.most(last, max(last, h.inForce(spent[j]))) + h.refundedIn(from, to) + h.refilledIn(from, to)
			if units > most {
				return fmt.Errorf("%d units are spent from %d to %d, at most %d are permitted", units, from, to, most)
			}
		}
	}
	return nil
}
