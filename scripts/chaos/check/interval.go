package check

import (
	"fmt"

	"github.com/throttledhq/throttled/scripts/chaos/history"
)

// Stretch is the stretch of time in which most of a limit was spent.
type Stretch struct {
	From, To int64   // nanoseconds; 0 and 0 if nothing was granted
	Granted  int64   // units of requests that were sent and answered in it
	Over     float64 // units beyond what the limit allows in it; negative: that were left
	Violated bool    // more was granted than the limit allows
}

func (s Stretch) String() string {
	return fmt.Sprintf("%d units granted between %.6f s and %.6f s, %.3f more than the limit allows",
		s.Granted, float64(s.From)/1e9, float64(s.To)/1e9, s.Over)
}

// Interval finds the stretch of time in which most was granted on a key, as measured by what
// its limit allows: between any two moments limit + rate * time. Of ops, which are requests on
// that key, those count that were sent and answered in the stretch; none may give units back. It
// takes O(n log n).
func Interval(k *history.Key, ops []history.Op, slack Slack) Stretch {
	// Multiplied by the period, all numbers are whole: a unit weighs a period, and a
	// nanosecond brings back what count does.
	period := int64(k.Period)
	allowed := product(period, k.Limit())
	byCall, byReturn := charges(ops)
	tree := newSpent(len(byCall), period, k.Count, slack)
	worst, end := least, int64(0)
	for _, i := range byReturn {
		tree.add(i, &byCall[i])
		if over := tree.most(byCall[i].Return).minus(allowed); worst.less(over) {
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

// locate finds the beginning of the worst stretch that has a given end.
func (s *Stretch) locate(byCall []history.Op, end, price, rate int64, slack Slack) {
	best, units := least, int64(0)
	s.To = end
	for i := len(byCall) - 1; i >= 0; i-- {
		o := &byCall[i]
		if o.Return > end {
			continue
		}
		units += o.Quantity
		if all := product(price, units).plus(product(rate, slack.begin(o.Call))); best.less(all) {
			best, s.From, s.Granted = all, o.Call, units
		}
	}
}
