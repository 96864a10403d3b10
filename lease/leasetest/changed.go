package leasetest

import (
	"fmt"
	"math"

	"github.com/throttledhq/throttled/limiter"
)

// The rules of this file are those of limits that change. A changed limit is in force from the first request that it has
// charged. A unit counts until the first of the limits that were in force since it was spent drops it.

// Changing admits the units of a GCRA limit that changes: in each interval of time, the maximum of the limit that was
// charged last, and the units that the rates in force restore.
type Changing struct {
	// ByTime measures units by the time in which they are restored. Each unit counts with the emission interval of its own request.
	ByTime bool
	// Slack is the time before each interval in which units are restored, too: 0 for strict leases, and the length of the longest
	// lease for relaxed ones.
	Slack uint64
}

func (r Changing) check(h *History, spent []event) error {
	for i := range spent {
		units, last := int64(0), 0
		for j := i; j < len(spent); j++ {
			units, last = units+spent[j].units, max(last, spent[j].seq)
			from, to := spent[i].at, spent[j].at
			most, restored := r.permitted(h, &h.charges[last].limit, from-min(from, r.Slack), to)
			if most += h.refundedIn(from, to); float64(units) > float64(most)+restored+1e-6 {
				return fmt.Errorf("%d units are spent from %d to %d, at most %d and %f restored ones are permitted", units, from, to, most, restored)
			}
		}
	}
	return nil
}

// permitted returns the units that a limit admits in one burst, and those that are restored from one time to another.
func (r Changing) permitted(h *History, l *limiter.Limit, from, to uint64) (most int64, restored float64) {
	if r.ByTime {
		return l.Max * int64(l.Interval), float64(to - from)
	}
	return l.Max, h.restored(from, to)
}

// restored returns the units that the emission intervals in force restore from one time to another.
func (h *History) restored(from, to uint64) (units float64) {
	for i, c := range h.charges {
		start, end := max(from, c.at), min(to, h.until(i))
		if i == 0 {
			start = from
		}
		if start < end {
			units += float64(end-start) / float64(c.limit.Interval)
		}
	}
	return units
}

// until returns the time until which the limit of the charge i is in force.
func (h *History) until(i int) uint64 {
	if i+1 < len(h.charges) {
		return h.charges[i+1].at
	}
	return math.MaxUint64
}

// ChangedWindows admits the units of windows whose length, number or end changes.
type ChangedWindows struct{ Kind limiter.Kind }

func (r ChangedWindows) check(h *History, spent []event) error {
	dropped := make([]uint64, len(spent))
	for i, e := range spent {
		dropped[i] = r.dropped(h, e)
	}
	for j := range spent {
		if err := r.checkAt(h, spent, dropped, j); err != nil {
			return err
		}
	}
	return nil
}

// checkAt checks the units that count when the units j are spent: for each earlier time those that were spent since.
func (r ChangedWindows) checkAt(h *History, spent []event, dropped []uint64, j int) error {
	e, inForce := spent[j], h.inForce(spent[j])
	l := h.charges[inForce].limit
	var units [2]int64 // of the previous window of a sliding window, and of the present windows
	last := 0
	for i := len(spent) - 1; i >= 0; i-- {
		u := spent[i]
		if u.at > e.at || !e.lease && u.seq > e.seq || i != j && dropped[i] <= e.at || r.end(h, u, &l) <= e.at {
			continue
		}
		units[r.window(u.at, &l, e.at)] += u.units
		last = max(last, u.seq)
		sum := units[1] + r.covered(units[0], &l, e.at)
		if most := h.most(last, max(last, inForce)) + h.refundedIn(u.at, e.at); sum > most {
			return fmt.Errorf("at %d, %d units spent since %d count in the windows of the limit %+v, at most %d are permitted", e.at, sum, u.at, l, most)
		}
	}
	return nil
}

// window returns 0 for a unit that was spent in the previous window of a sliding window, and otherwise 1.
func (r ChangedWindows) window(spent uint64, l *limiter.Limit, at uint64) int {
	if r.Kind == limiter.SlidingWindow && spent/uint64(l.Interval) < at/uint64(l.Interval) {
		return 0
	}
	return 1
}

// covered returns the part of the units of the previous window that a sliding window covers.
func (r ChangedWindows) covered(units int64, l *limiter.Limit, at uint64) int64 {
	width := int64(l.Interval)
	left := width - int64(at)%width
	return (units*left + width - 1) / width
}

// dropped returns the time from which one of the limits in force no longer counts a unit.
func (r ChangedWindows) dropped(h *History, e event) uint64 {
	first := e.seq
	for e.lease && first+1 < len(h.charges) && h.charges[first+1].at < e.at {
		first++
	}
	at := uint64(math.MaxUint64)
	for i := first; i < len(h.charges); i++ {
		if end := max(r.end(h, e, &h.charges[i].limit), h.charges[i].at); end <= h.until(i) {
			at = min(at, end)
		}
	}
	return at
}

// parts returns the number of consecutive windows that a limit counts.
func (r ChangedWindows) parts(l *limiter.Limit) uint64 {
	if r.Kind == limiter.SlidingWindow {
		return 2
	}
	return uint64(l.Amount)
}

// end returns the time from which a limit no longer counts a unit.
func (r ChangedWindows) end(h *History, e event, l *limiter.Limit) uint64 {
	width := uint64(l.Interval)
	switch r.Kind {
	case limiter.WindowLog:
		return e.at + width
	case limiter.SlidingWindow, limiter.FixedWindow, limiter.WindowBuckets:
		return (e.at/width + r.parts(l)) * width
	}
	end := uint64(h.charges[h.inForce(e)].limit.Amount)
	if uint64(l.Amount)-width >= end {
		return 0
	}
	return end
}
