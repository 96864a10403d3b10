package check

import (
	"math"
	"time"

	"github.com/throttledhq/throttled/scripts/chaos/history"
)

// state is what is known of a key at one point of an order of requests, on the clock of the
// clients. A key at rest has a theoretical arrival time of now.
type state struct {
	low   int64 // bound of the TAT
	high  int64 // bound of the TAT, or else
	ahead int64 // by how much it is ahead of the time of the next request, at the most
	now   int64 // the earliest that it can be

	answered int          // requests with a reply in the order so far
	charged  [classes]int // those without, of each class
}

// classes is how many kinds of requests without a reply are told apart.
const classes = 4

// span is a range of nanoseconds, both ends included. It is empty if to is below from.
type span struct{ from, to int64 }

const forever = math.MaxInt64

// plus adds to what may be forever.
func plus(a, b int64) int64 {
	if a == forever || b == forever || b > 0 && a > forever-b {
		return forever
	}
	return a + b
}

func (s span) empty() bool { return s.to < s.from }

func (s span) and(t span) span { return span{max(s.from, t.from), min(s.to, t.to)} }

// shift moves both ends, and stops at 0.
func (s span) shift(d int64) span { return span{max(0, plus(s.from, d)), plus(s.to, d)} }

// model is GCRA with a key's parameters, on intervals.
type model struct {
	clock    Clock
	limit    int64
	interval int64
	whole    int64 // length of the bucket
	answered int   // requests with a reply in the whole history
}

func newModel(k *history.Key, clock Clock) *model {
	return &model{clock: clock, limit: k.Limit(), interval: k.Interval(), whole: k.Interval() * k.Limit()}
}

// call is a request as the search sees it.
type call struct {
	op    *history.Op
	class int // of a request without a reply; -1 if it is in none
	rank  int // of a request in its class, by the time of the call
}

// prepare leaves out what cannot have changed anything, and sorts requests without a reply into
// classes: those of a class ask for the same thing.
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

// next returns what is known after a request, and whether it can come next.
//
// One without a reply may come at any time after its call, and then it has been charged. That it
// has not been is the same as that it comes after all replies. Of two that ask for the same it
// never matters which one was charged, so they are charged in the order of their calls: without
// that the search would try every set of them.
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

// step returns what is known after a request with a reply, and whether the reply is possible.
func (m *model) step(s state, o *history.Op) (state, bool) {
	when := m.window(s, o)
	if o.Kind == history.Delete {
		return deleted(s, o.Existed, when)
	}
	cost := m.interval * taken(o)
	after := m.used(o)
	before := after.shift(-cost)
	if cost < 0 && after.from == 0 {
		before.from = 0 // a refund stops at a full bucket
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

// taken returns the units that a request has moved, below 0 for a refund.
func taken(o *history.Op) int64 {
	if o.Outcome == history.Limited {
		return 0
	}
	return o.Quantity
}

// window returns when a request can have been decided.
func (m *model) window(s state, o *history.Op) span {
	return span{max(s.now, o.Call-min(o.Call, m.clock.Behind)), m.clock.end(o.Return)}
}

// used returns how much of the bucket can be in use after a request, by its reply.
func (m *model) used(o *history.Op) span {
	u := span{max(0, m.whole-(o.Remaining+1)*m.interval+1), m.whole - o.Remaining*m.interval}
	if o.Remaining == 0 && (o.Outcome == history.Limited || o.Quantity < 0) {
		u.to = forever
	}
	u = u.and(seconds(o.ResetAfter))
	if o.Outcome == history.Limited && o.Quantity <= m.limit {
		// It lacks the time to retry.
		u = u.and(seconds(o.RetryAfter).shift(m.whole - m.interval*o.Quantity))
	}
	return u
}

// seconds returns the times that are n seconds when rounded up.
func seconds(n int64) span {
	const second = int64(time.Second)
	if n <= 0 {
		return span{0, min(n, 0)} // none if below 0
	}
	return span{(n-1)*second + 1, n * second}
}

// locate returns the theoretical arrival times, and the moments of a decision, between which
// such a time is in use. A TAT that has passed counts as the moment of the decision.
func locate(s state, used, when span) (tat, at span) {
	at = span{max(when.from, s.low-used.to), when.to}
	if used.from > s.ahead {
		at.to = min(at.to, s.high-used.from)
	}
	tat.from = max(s.low, plus(at.from, used.from))
	tat.to = min(max(s.high, plus(at.to, s.ahead)), plus(at.to, used.to))
	return tat, at
}

// unanswered returns what is known after a request without a reply that has been charged.
func (m *model) unanswered(s state, o *history.Op) state {
	from := max(s.now, o.Call-min(o.Call, m.clock.Behind))
	cost := m.interval * o.Quantity
	switch {
	case o.Kind == history.Delete:
		return state{low: from, high: from, now: from}
	case cost < 0:
		return state{max(from, s.low+cost), max(from, plus(s.high, cost)), max(0, s.ahead+cost), from, 0, s.charged}
	}
	from = max(from, s.low+cost-m.whole) // before that it does not fit
	return state{plus(max(s.low, from), cost), plus(s.high, cost), min(s.ahead+cost, m.whole), from, 0, s.charged}
}

// deleted returns what is known after DEL has said whether there was something to delete.
func deleted(s state, existed bool, when span) (state, bool) {
	if !existed {
		when.from = max(when.from, s.low)
	} else if s.ahead == 0 {
		when.to = min(when.to, s.high-1)
	}
	return state{low: when.from, high: when.from, now: when.from}, !when.empty()
}
