package check

import (
	"math"
	"time"

	"github.com/throttledhq/throttled/tests/chaos/history"
)

// state is the knowledge about a key at one point in an order of requests. Times are on the
// clock of the clients. The theoretical arrival time (TAT) of a key at rest counts as the
// current time.
type state struct {
	low   int64 // lower bound of the TAT
	high  int64 // upper bound of the TAT
	ahead int64 // upper bound of the time from the next request to the TAT
	now   int64 // the earliest time of the next request

	answered int          // number of requests with a reply in the order so far
	charged  [classes]int // number of requests without a reply in the order so far, by class
}

// classes is the largest number of classes. A class contains all requests without a reply that have
// the same kind and quantity.
const classes = 4

// span is a range of nanoseconds, both ends included. The range is empty if to < from.
type span struct{ from, to int64 }

const forever = math.MaxInt64

// plus returns a + b, where forever is infinity.
func plus(a, b int64) int64 {
	if a == forever || b == forever || b > 0 && a > forever-b {
		return forever
	}
	return a + b
}

func (s span) empty() bool { return s.to < s.from }

func (s span) and(t span) span { return span{max(s.from, t.from), min(s.to, t.to)} }

// shift returns s moved by d. A bound that would be negative becomes 0.
func (s span) shift(d int64) span { return span{max(0, plus(s.from, d)), plus(s.to, d)} }

// model implements GCRA with the parameters of a key. Its times are intervals instead of single
// values.
type model struct {
	clock    Clock
	limit    int64
	interval int64
	whole    int64 // time in which an exhausted limit is restored completely
	answered int   // number of requests with a reply in the whole history
}

func newModel(k *history.Key, clock Clock) *model {
	return &model{clock: clock, limit: k.Limit(), interval: k.Interval(), whole: k.Interval() * k.Limit()}
}

// call is a request in the search of Linear.
type call struct {
	op    *history.Op
	class int // class of a request without a reply; -1 if the request has a reply, or if all classes are taken
	rank  int // position among the requests of the class, in the order in which they were sent
}

// prepare drops requests without a reply that cannot have changed anything, and assigns the other
// requests without a reply to classes. All requests of a class have the same kind and quantity.
func (m *model) prepare(ops []history.Op) (calls []call) {
	type form struct {
		kind     history.Kind
		quantity int64
	}
	known, sizes := map[form]int{}, [classes]int{}
	m.answered = 0
	for i := range ops {
		c := call{op: &ops[i], class: -1}
		if c.op.Outcome != history.Unknown {
			m.answered++
		} else if c.op.Kind == history.Throttle && (c.op.Quantity == 0 || c.op.Quantity > m.limit) {
			continue
		} else {
			f := form{c.op.Kind, c.op.Quantity}
			if _, there := known[f]; !there && len(known) < classes {
				known[f] = len(known)
			}
			if class, there := known[f]; there {
				c.class, c.rank = class, sizes[class]
				sizes[class]++
			}
		}
		calls = append(calls, c)
	}
	return calls
}

// next returns the state after a request, and whether the request can be the next in the order.
//
// A request without a reply may be applied, and therefore charged, at any time after it was sent. A
// request that was never applied is equivalent to one that is applied after all replies. It does
// not matter which of two requests in the same class was charged. Therefore, next charges the
// requests of a class in the order in which they were sent. Without this rule, the search would try
// every subset.
func (m *model) next(s state, c call) (state, bool) {
	if c.op.Outcome != history.Unknown {
		next, legal := m.step(s, c.op)
		next.answered, next.charged = s.answered+1, s.charged
		return next, legal
	}
	if s.answered == m.answered {
		return s, true
	}
	if c.class >= 0 && s.charged[c.class] != c.rank {
		return s, false
	}
	next := m.unanswered(s, c.op)
	next.answered, next.charged = s.answered, s.charged
	if c.class >= 0 {
		next.charged[c.class]++
	}
	return next, true
}

// step returns the state after a request with a reply, and whether the reply is possible.
func (m *model) step(s state, o *history.Op) (state, bool) {
	when := m.window(s, o)
	if o.Kind == history.Delete {
		return deleted(s, o.Existed, when)
	}
	cost := m.interval * taken(o)
	after := m.used(o)
	before := after.shift(-cost)
	if cost < 0 && after.from == 0 {
		before.from = 0 // a refund cannot restore more than the whole limit
	}
	tat, when := locate(s, before, when)
	if after.empty() || before.empty() || tat.empty() || when.empty() {
		return s, false
	}
	next := state{low: plus(tat.from, cost), high: plus(tat.to, cost), now: when.from}
	if cost < 0 {
		next.low, next.high = max(next.low, when.from), max(next.high, when.to)
	}
	return next, true
}

// taken returns the units that a request has charged, negative for a refund.
func taken(o *history.Op) int64 {
	if o.Outcome == history.Limited {
		return 0
	}
	return o.Quantity
}

// window returns the interval in which a request can have been decided.
func (m *model) window(s state, o *history.Op) span {
	return span{max(s.now, o.Call-min(o.Call, m.clock.Behind)), m.clock.end(o.Return)}
}

// used returns the possible sizes of the used part of the bucket after a request, as durations,
// according to the reply.
func (m *model) used(o *history.Op) span {
	u := span{max(0, m.whole-(o.Remaining+1)*m.interval+1), m.whole - o.Remaining*m.interval}
	if o.Remaining == 0 && (o.Outcome == history.Limited || o.Quantity < 0) {
		u.to = forever
	}
	u = u.and(seconds(o.ResetAfter))
	if o.Outcome == history.Limited && o.Quantity <= m.limit {
		// RetryAfter is the time after which the refused quantity fits.
		u = u.and(seconds(o.RetryAfter).shift(m.whole - m.interval*o.Quantity))
	}
	return u
}

// seconds returns the durations that round up to n seconds.
func seconds(n int64) span {
	const second = int64(time.Second)
	if n <= 0 {
		return span{0, min(n, 0)} // empty if n is negative
	}
	return span{(n-1)*second + 1, n * second}
}

// locate returns the possible theoretical arrival times, and the possible times of a decision. The
// argument used is the possible sizes of the used part of the bucket at the decision, as durations.
// The argument when is the possible times of the decision, which locate restricts to the times that
// agree with used. A TAT in the past counts as the time of the decision.
func locate(s state, used, when span) (tat, at span) {
	at = span{max(when.from, s.low-used.to), when.to}
	if used.from > s.ahead {
		at.to = min(at.to, s.high-used.from)
	}
	tat.from = max(s.low, plus(at.from, used.from))
	tat.to = min(max(s.high, plus(at.to, s.ahead)), plus(at.to, used.to))
	return tat, at
}

// unanswered returns the state after a request without a reply, given that the request was applied.
func (m *model) unanswered(s state, o *history.Op) state {
	from := max(s.now, o.Call-min(o.Call, m.clock.Behind))
	cost := m.interval * o.Quantity
	switch {
	case o.Kind == history.Delete:
		return state{low: from, high: from, now: from}
	case cost < 0:
		return state{max(from, s.low+cost), max(from, plus(s.high, cost)), max(0, s.ahead+cost), from, 0, s.charged}
	}
	from = max(from, s.low+cost-m.whole) // the quantity does not fit earlier
	return state{plus(max(s.low, from), cost), plus(s.high, cost), min(s.ahead+cost, m.whole), from, 0, s.charged}
}

// deleted returns the state after a DEL, and whether the reply is possible. The argument existed is
// the reply, which reports whether the key existed.
func deleted(s state, existed bool, when span) (state, bool) {
	if !existed {
		when.from = max(when.from, s.low)
	} else if s.ahead == 0 {
		when.to = min(when.to, s.high-1)
	}
	return state{low: when.from, high: when.from, now: when.from}, !when.empty()
}
