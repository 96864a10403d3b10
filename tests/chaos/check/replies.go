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

// Replies returns the replies that report less in use than the charges that were
// acknowledged earlier require. The bucket drains no faster than time passes. Therefore,
// when a reply is returned, at least (interval * units charged since s) - (time since s)
// is in use, for any s. A charge counts if it was sent after s and answered before the
// request was sent. All of ops are requests on k, and none may return units. It runs in
// O(n log n).
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
		if used := tree.most(o.Return); used.negative() || fits(k, &o, used) {
			continue
		} else {
			stale = append(stale, Stale{o, time.Duration(used.over(1))})
		}
	}
	return stale
}

// fits reports whether a reply is possible for a bucket of which at least used was in use.
func fits(k *history.Key, o *history.Op, used wide) bool {
	interval := k.Interval()
	if o.Charges() {
		used = used.plus(product(interval, o.Quantity))
	}
	whole := product(interval, k.Limit())
	// A refusal with 0 remaining sets no upper bound on the used time.
	empty := o.Outcome == history.Limited && o.Remaining == 0
	tooMany := !empty && whole.less(used.plus(product(interval, o.Remaining)))
	tooSoon := product(o.ResetAfter, int64(time.Second)).less(used)
	return !tooMany && !tooSoon
}
