package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/throttledhq/throttled/scripts/chaos/history"
)

// Stale is a reply that does not know of charges which had been acknowledged before it was
// asked for.
type Stale struct {
	Op   history.Op
	Used time.Duration // of the bucket, at the least, before the request was decided
}

func (s Stale) String() string {
	return fmt.Sprintf("client %d was told by node %d at %.6f s that %d are left and all is back in %d s, when at least %s was in use before",
		s.Op.Client, s.Op.Node, float64(s.Op.Return)/1e9, s.Op.Remaining, s.Op.ResetAfter, s.Used)
}

// Replies returns the replies that say less is in use than what must be, judging from the
// charges acknowledged before. The bucket drains no faster than time goes by: so at the return
// of a reply at least (interval * units charged since s) - (time since s) is in use, for any s,
// counting what was sent after s and answered before the request was sent. None of ops, which
// are requests on one key, may give units back. It takes O(n log n).
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

// fits reports whether a reply can be true of a bucket of which at least so much was used.
func fits(k *history.Key, o *history.Op, used wide) bool {
	interval := k.Interval()
	if o.Charges() {
		used = used.plus(product(interval, o.Quantity))
	}
	whole := product(interval, k.Limit())
	// A refusal that leaves nothing says nothing about how much more is in use.
	empty := o.Outcome == history.Limited && o.Remaining == 0
	tooMany := !empty && whole.less(used.plus(product(interval, o.Remaining)))
	tooSoon := product(o.ResetAfter, int64(time.Second)).less(used)
	return !tooMany && !tooSoon
}
