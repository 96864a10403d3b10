package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/throttledhq/throttled/tests/chaos/history"
)

// Stale is a reply that does not include charges acknowledged before its request was sent.
type Stale struct {
	Op   history.Op
	Used time.Duration // lower bound of the used part of the bucket before the request was decided
}

// String describes the reply and the least usage that it contradicts.
func (s Stale) String() string {
	return fmt.Sprintf("node %d replied to client %d at %.6f s with %d remaining and reset after %d s, although at least %s was in use before",
		s.Op.Node, s.Op.Client, float64(s.Op.Return)/1e9, s.Op.Remaining, s.Op.ResetAfter, s.Used)
}

// Replies returns the stale replies. The charges that were acknowledged before a request was sent imply a
// minimum usage. A stale reply reports less.
//
// The bucket drains no faster than time passes. Let s be any time before a reply is returned, and u
// the number of units charged since s. Then a part of the bucket of at least interval * u - (time
// since s) was in use when the reply was returned. A charge counts if it was sent after s and
// answered before the request of the reply was sent.
//
// All of ops must be requests on k, and none may be a refund. Replies runs in O(n log n).
func Replies(k *history.Key, ops []history.Op, slack Slack) []Stale {
	interval := k.Interval()
	byCall, byReturn := charges(ops)
	tree := newSpent(len(byCall), interval, 1, slack)
	asked := slices.Clone(ops)
	slices.SortStableFunc(asked, func(a, b history.Op) int { return int(clamp(a.Call-b.Call, -1, 1)) })
	var stale []Stale
	known := 0
	for _, o := range asked {
		for known < len(byReturn) && byCall[byReturn[known]].Return < o.Call {
			tree.add(byReturn[known], &byCall[byReturn[known]])
			known++
		}
		if o.Outcome == history.Unknown {
			continue
		}
		if used := tree.maxAt(o.Return); used.negative() || fits(k, &o, used) {
			continue
		} else {
			stale = append(stale, Stale{o, time.Duration(used.over(1))})
		}
	}
	return stale
}

// fits reports whether a reply is possible, given a lower bound (used) of the part of the bucket
// that was in use before the request.
func fits(k *history.Key, o *history.Op, used wide) bool {
	interval := k.Interval()
	if o.Charges() {
		used = used.plus(product(interval, o.Quantity))
	}
	whole := product(interval, k.Limit())
	// A refusal with 0 remaining units sets no upper bound on the used part of the bucket.
	empty := o.Outcome == history.Limited && o.Remaining == 0
	tooMany := !empty && whole.less(used.plus(product(interval, o.Remaining)))
	tooSoon := product(o.ResetAfter, int64(time.Second)).less(used)
	return !tooMany && !tooSoon
}
