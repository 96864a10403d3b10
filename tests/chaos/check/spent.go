package check

import (
	"cmp"
	"slices"
	"time"

	"github.com/throttledhq/throttled/tests/chaos/history"
)

// Slack bounds the time by which the limiter's clock may be fast, relative to the clock of the
// clients. A slower clock is always permitted, since it makes the limiter stricter. The zero Slack
// permits no faster clock.
type Slack struct {
	Ahead time.Duration // largest total forward jump
	Drift int64         // parts per million by which the clock may run fast
}

// The methods begin and end convert the first and the last moment of an interval. The difference of the results
// is the longest time that the limiter's clock may measure for the interval, rounded up.
func (s Slack) begin(at int64) int64 { return at + at/1e6*s.Drift + at%1e6*s.Drift/1e6 }
func (s Slack) end(at int64) int64   { return s.begin(at) + min(s.Drift, 1) + int64(s.Ahead) }

// spent holds charges, and finds the interval in which most was spent. It considers the intervals
// that begin when some charge was sent (Op.Call) and end at a given time after all charges. The
// amount spent in an interval is price * (units charged) - rate * (length of the interval).
//
// spent is a binary tree. Its leaves are the charges, in the order in which they were sent. For a
// charge c below a node, let v(c) be rate * (time at which c was sent) + price * (units of c and of
// all later charges below the node). The field best of the node is the maximum of v(c) over all
// charges c below the node. The field sum is price * (units of all charges below the node).
type spent struct {
	nodes []node
	size  int // number of leaves
	price int64
	rate  int64
	slack Slack
}

type node struct{ sum, best wide }

// newSpent returns an empty tree for n charges.
func newSpent(n int, price, rate int64, slack Slack) *spent {
	size := 1
	for size < n {
		size *= 2
	}
	s := &spent{make([]node, 2*size), size, price, rate, slack}
	for i := range s.nodes {
		s.nodes[i].best = noValue
	}
	return s
}

// add adds a charge. The argument i is its position among all charges, in the order in which they were sent.
func (s *spent) add(i int, o *history.Op) {
	n := &s.nodes[s.size+i]
	if o.Quantity < 0 { // a refund, at which no interval begins
		n.sum = wide{}.minus(product(s.price, -o.Quantity))
	} else {
		n.sum = product(s.price, o.Quantity)
		n.best = n.sum.plus(product(s.rate, s.slack.begin(o.Call)))
	}
	for i = (s.size + i) / 2; i > 0; i /= 2 {
		left, right := &s.nodes[2*i], &s.nodes[2*i+1]
		n := &s.nodes[i]
		n.sum, n.best = left.sum.plus(right.sum), right.best
		if all := left.best.plus(right.sum); n.best.less(all) {
			n.best = all
		}
	}
}

// maxAt returns the largest amount that was spent in any interval that ends at the given time. No
// charge may be later than this time. Without charges the result is negative.
func (s *spent) maxAt(at int64) wide {
	return s.nodes[1].best.minus(product(s.rate, s.slack.end(at)))
}

// charges returns the requests that have certainly charged units, in the order of their calls.
// byReturn holds the indexes of these requests in byCall, in the order of their returns.
//
// Refunds and deletions, including unknown ones, are returned as charges of a negative quantity with Call and Return
// exchanged: so they count in each interval in which they may have been executed.
func charges(ops []history.Op) (byCall []history.Op, byReturn []int) {
	for _, o := range ops {
		switch n := o.Restores(); {
		case o.Charges():
			byCall = append(byCall, o)
		case n > 0:
			o.Quantity, o.Call, o.Return = -n, o.Return, o.Call
			byCall = append(byCall, o)
		}
	}
	slices.SortStableFunc(byCall, func(a, b history.Op) int { return cmp.Compare(a.Call, b.Call) })
	byReturn = make([]int, len(byCall))
	for i := range byReturn {
		byReturn[i] = i
	}
	slices.SortStableFunc(byReturn, func(a, b int) int { return cmp.Compare(byCall[a].Return, byCall[b].Return) })
	return byCall, byReturn
}

func clamp(n, low, high int64) int64 { return max(low, min(n, high)) }
