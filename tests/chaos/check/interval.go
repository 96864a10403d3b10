package check

import (
	"fmt"

	"github.com/throttledhq/throttled/tests/chaos/history"
)

// Stretch is the interval in which the granted units exceeded a limit most. If the limit was never
// exceeded, it is the interval in which the granted units came closest to the limit.
type Stretch struct {
	From, To int64   // nanoseconds; both are 0 if nothing was granted
	Granted  int64   // units of requests that were both sent and answered in the interval, less the units of refunds
	Over     float64 // units above the limit; negative: units below it
	Violated bool    // more was granted than the limit allows
}

// String describes the interval and the units granted in it.
func (s Stretch) String() string {
	return fmt.Sprintf("%d units granted between %.6f s and %.6f s, %.3f more than the limit allows",
		s.Granted, float64(s.From)/1e9, float64(s.To)/1e9, s.Over)
}

// Interval returns the interval in which the units granted on a key exceed its limit most. In an
// interval, a key may grant its limit plus the units restored in the interval. A request counts if
// it was both sent and answered in the interval. The units of refunds and deletions that may have been executed in the interval
// are permitted in addition. All of ops must be requests on k. Interval runs in O(n log n).
func Interval(k *history.Key, ops []history.Op, slack Slack) Stretch {
	// All numbers of units are multiplied by the period to make them integers: one unit is
	// represented by k.Period, and each nanosecond restores k.Count.
	period := int64(k.Period)
	allowed := product(period, k.Limit())
	byCall, byReturn := charges(ops)
	tree := newSpent(len(byCall), period, k.Count, slack)
	worst, end := noValue, int64(0)
	for _, i := range byReturn {
		tree.add(i, &byCall[i])
		if over := tree.maxAt(byCall[i].Return).minus(allowed); worst.less(over) {
			worst, end = over, byCall[i].Return
		}
	}
	s := Stretch{Over: worst.over(period), Violated: wide{}.less(worst)}
	if len(byCall) == 0 {
		s.Over = -float64(k.Limit())
		return s
	}
	s.locate(byCall, end, period, k.Count, slack)
	return s
}

// locate sets From, To and Granted for the worst of the intervals that end at the given time.
func (s *Stretch) locate(byCall []history.Op, end, price, rate int64, slack Slack) {
	best, units := noValue, int64(0)
	s.To = end
	for i := len(byCall) - 1; i >= 0; i-- {
		o := &byCall[i]
		if o.Return > end {
			continue
		}
		units += o.Quantity
		if o.Quantity < 0 || units < 0 {
			continue
		}
		if all := product(price, units).plus(product(rate, slack.begin(o.Call))); best.less(all) {
			best, s.From, s.Granted = all, o.Call, units
		}
	}
}
