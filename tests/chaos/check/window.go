package check

import (
	"slices"

	"github.com/throttledhq/throttled/tests/chaos/history"
)

// Window returns, of all intervals that are shorter than the period, the one in which most
// units were granted, less the units of refunds and deletions that may have been executed in it. The key must admit at most
// its limit in each of these intervals. A request counts if it was both sent and answered in the interval. All of ops must be
// requests on k. Window runs in O(n log n).
func Window(k *history.Key, ops []history.Op, slack Slack) Stretch {
	byCall, byReturn := charges(ops)
	if len(byCall) == 0 {
		return Stretch{Over: -float64(k.Limit())}
	}
	place := make([]int, len(byCall))
	ends := make([]int64, len(byCall))
	for rank, i := range byReturn {
		place[i], ends[rank] = rank, slack.end(byCall[i].Return)
	}
	var s Stretch
	granted := make(sums, len(byCall)+1)
	for i, o := range slices.Backward(byCall) {
		granted.add(place[i], o.Quantity)
		if o.Quantity < 0 {
			continue
		}
		end := slack.begin(o.Call) + int64(k.Period)
		within, _ := slices.BinarySearch(ends, end)
		if units := granted.before(within); units > s.Granted {
			s.From, s.To, s.Granted = o.Call, o.Call+int64(k.Period), units
		}
	}
	s.Over = float64(s.Granted - k.Limit())
	s.Violated = s.Over > 0
	return s
}

// sums is a Fenwick tree: it computes sums of prefixes in O(log n).
type sums []int64

// add adds n to the i-th number, counted from 0.
func (s sums) add(i int, n int64) {
	for i++; i < len(s); i += i & -i {
		s[i] += n
	}
}

// before returns the sum of the first n numbers.
func (s sums) before(n int) (sum int64) {
	for ; n > 0; n -= n & -n {
		sum += s[n]
	}
	return sum
}
