package windowlog

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/limiter/limitertest"
)

// fold maps any three numbers to a valid limit.
func fold(limit, period, entries int64) limiter.Limit {
	return limiter.Limit{
		Max:      limitertest.Within(limit, math.MaxInt64),
		Interval: time.Duration(limitertest.Within(period, MaxPeriod)),
		Amount:   limitertest.Within(entries, MaxEntries),
	}
}

// anyLimit draws limits of any magnitude. Most have few units or few entries, so that the limit and
// the maximum number of entries are both reached.
func anyLimit(r *rand.Rand) limiter.Limit {
	limit, entries := limitertest.AnyInt(r), limitertest.AnyInt(r)
	if r.UintN(2) == 0 {
		limit = r.Int64N(100)
	}
	switch r.UintN(4) {
	case 0:
		entries = r.Int64N(20)
	case 1:
		entries = MaxEntries - 1
	}
	return fold(limit, limitertest.AnyInt(r), entries)
}

// anyQuantity draws an arbitrary quantity, or a quantity that is a special case for the limit l.
func anyQuantity(r *rand.Rand, l limiter.Limit) int64 {
	switch r.UintN(16) {
	case 0:
		return 0
	case 1:
		return l.Max - 1 + r.Int64N(3) // may wrap to the smallest int64
	case 2:
		if r.UintN(4) > 0 {
			return -1
		}
		return math.MinInt64 + r.Int64N(2)
	case 3:
		return limitertest.AnyInt(r)
	case 4:
		return -limitertest.Within(limitertest.AnyInt(r), l.Max)
	case 5, 6, 7:
		return limitertest.Within(r.Int64(), min(l.Max, 1+r.Int64N(400)))
	case 8:
		return limitertest.Within(r.Int64(), l.Max)
	}
	return 1
}

// plainLog is the oracle: a list of admitted requests.
type plainLog struct {
	requests []request
	expires  uint64 // expiry time of the whole log
}

// at returns the requests that count at time t.
func (p plainLog) at(l limiter.Limit, t uint64) []request {
	live := make([]request, 0, len(p.requests)+1)
	for i, q := range p.requests {
		if p.expires > t && t < q.at+uint64(l.Interval) {
			live = append(live, p.requests[i])
		}
	}
	return live
}

// sum returns the units and the number of the requests that count at time t.
func (p plainLog) sum(l limiter.Limit, t uint64) (units, entries uint64) {
	if p.expires <= t {
		return 0, 0
	}
	for _, q := range p.requests {
		if t < q.at+uint64(l.Interval) {
			units, entries = units+q.quantity, entries+1
		}
	}
	return units, entries
}

// admits reports whether a charge or a peek at time t is admitted.
func (p plainLog) admits(l limiter.Limit, t uint64, quantity int64) bool {
	units, entries := p.sum(l, t)
	return units+uint64(quantity) <= uint64(l.Max) && (quantity == 0 || entries < uint64(l.Amount))
}

func (p plainLog) empty(l limiter.Limit, t uint64) bool {
	_, entries := p.sum(l, t)
	return entries == 0
}

// refund subtracts units from the newest requests.
func refund(live []request, credit uint64) []request {
	for credit > 0 && len(live) > 0 {
		newest := &live[len(live)-1]
		if newest.quantity > credit {
			newest.quantity -= credit
			break
		}
		credit -= newest.quantity
		live = live[:len(live)-1]
	}
	return live
}

// walk sends the same requests on one key to Decide and to the oracle.
type walk struct {
	t      *testing.T
	r      *rand.Rand
	oracle plainLog
	state  limiter.State
	now    uint64
}

// put sets the state directly, as an import does.
func (w *walk) put(s limiter.State) {
	requests, ok := decode(s.Data)
	if !ok {
		w.t.Fatalf("put: malformed state %+v", s)
	}
	w.state, w.oracle = s, plainLog{requests, s.Expires}
}

func (w *walk) step(l limiter.Limit, quantity int64) limiter.Decision {
	c := decide.Run(w.t, l, w.state, w.now, quantity)
	d := c.Got
	limited := quantity >= 0 && (quantity > l.Max || !w.oracle.admits(l, w.now, quantity))
	c.Expect(d.Limited == limited, "Limited differs from the oracle", w.oracle)
	after := w.oracle
	if set := !limited && quantity != 0; set {
		after = plainLog{w.oracle.at(l, w.now), math.MaxUint64}
		if quantity > 0 {
			q := request{w.now, uint64(quantity)}
			if n := len(after.requests); n > 0 {
				q.at = max(q.at, after.requests[n-1].at)
			}
			after.requests = append(after.requests, q)
		} else {
			set = len(after.requests) > 0
			after.requests = refund(after.requests, -uint64(quantity))
		}
		c.Expect(c.Change.Set == set, "Change.Set differs from the oracle", w.oracle)
	} else {
		c.Expect(!c.Change.Set, "a refused request or a peek changed the state")
	}
	// The result must change exactly when RetryAfter and ResetAfter have elapsed.
	if limited && quantity <= l.Max {
		w.wait(c, d.RetryAfter, "retry after", func(t uint64) bool { return after.admits(l, t, quantity) })
	} else {
		c.Expect(d.RetryAfter == limiter.NoRetry, "RetryAfter is not NoRetry")
	}
	w.wait(c, d.ResetAfter, "reset after", func(t uint64) bool { return after.empty(l, t) })
	want := limiter.Decision{Limited: limited, Limit: l.Max, RetryAfter: d.RetryAfter, ResetAfter: d.ResetAfter}
	if units, entries := after.sum(l, w.now); entries < uint64(l.Amount) && units < uint64(l.Max) {
		want.Remaining = l.Max - int64(units)
	}
	c.Expect(d == want, "the decision differs from the oracle", w.oracle)
	if c.Change.Set {
		c.Expect(c.Change.Expires == w.now+uint64(d.ResetAfter), "Expires is not now + ResetAfter")
		after.expires = c.Change.Expires
		w.state, w.oracle = c.After(), after
		if len(after.requests) > 0 && w.r.UintN(16) == 0 {
			requests, ok := decode(w.state.Data)
			c.Expect(ok && slices.Equal(requests, after.requests), "the stored entries differ from the oracle", w.oracle)
		}
	}
	return d
}

// wait checks that the function ok first returns true at time now + got. In some calls, chosen at
// random, it also determines that time by binary search.
func (w *walk) wait(c limitertest.Decided, got time.Duration, what string, ok func(t uint64) bool) {
	c.ExpectEarliest(got, math.MaxUint64, what, ok)
	if w.r.UintN(64) == 0 {
		found := sort.Search(math.MaxInt64, func(i int) bool { return ok(w.now + uint64(i)) })
		c.Expect(time.Duration(found) == got, what, "the search found a different wait", w.oracle)
	}
}

// advance moves the clock by up to gap nanoseconds, or to about the end of RetryAfter, of ResetAfter,
// or of the oldest entry.
func (w *walk) advance(l limiter.Limit, last limiter.Decision, gap uint64) {
	by := uint64(0)
	switch w.r.UintN(16) {
	case 0, 1:
		by = uint64(max(last.RetryAfter, 0))
	case 2:
		by = uint64(max(last.RetryAfter-1, 0))
	case 3:
		if w.r.UintN(8) == 0 {
			by = uint64(max(last.ResetAfter-1, 0)) + w.r.Uint64N(3)
		}
	case 4:
		if w.r.UintN(8) == 0 {
			by = uint64(limitertest.AnyInt(w.r)) >> (1 + w.r.UintN(63))
		}
	case 5:
		// The expiry of the oldest entry that counts.
		if live := w.oracle.at(l, w.now); len(live) > 0 {
			by = live[0].at + uint64(l.Interval) - w.now - w.r.Uint64N(2)
		}
	default:
		by = w.r.Uint64N(gap)
	}
	w.now = min(w.now+min(by, limitertest.LastTime), limitertest.LastTime)
}

// TestWalkOracle compares Decide with the oracle on sequences of requests for one key. The limit
// changes, and the state is sometimes set manually.
func TestWalkOracle(t *testing.T) {
	var seen counts
	r := rand.New(rand.NewPCG(5, 6))
	for seen.steps < limitertest.Steps(1_000_000) {
		if r.UintN(200) == 0 {
			longWalk(t, r, &seen)
		} else {
			shortWalk(t, r, &seen)
		}
	}
	t.Logf("%d steps without a difference: %+v", seen.steps, seen)
	if seen.admitted < seen.steps/5 || seen.refused < seen.steps/5 || seen.full < seen.steps/50 || seen.longest < 500 {
		t.Error("some outcomes were too rare for a meaningful test")
	}
}

// counts counts the outcomes of walks.
type counts struct {
	steps, admitted, refused int
	full                     int // refused because the log had no room for an entry
	longest                  int // maximum number of entries of a log
}

func (c *counts) add(w *walk, l limiter.Limit, d limiter.Decision) {
	c.steps++
	if d.Limited {
		c.refused++
	} else {
		c.admitted++
	}
	if units, entries := w.oracle.sum(l, w.now); d.Limited && int64(entries) >= l.Amount && units < uint64(l.Max) {
		c.full++
	}
	c.longest = max(c.longest, len(w.oracle.requests))
}

// shortWalk varies all parameters.
func shortWalk(t *testing.T, r *rand.Rand, seen *counts) {
	first := anyLimit(r)
	// The third limit is close to the first, as after a change of parameters.
	limits := []limiter.Limit{first, anyLimit(r), fold(
		first.Max/2+r.Int64N(first.Max), int64(first.Interval)/2+r.Int64N(int64(first.Interval)), first.Amount/2+r.Int64N(first.Amount))}
	w := walk{t: t, r: r, now: uint64(limitertest.AnyInt(r)) & math.MaxInt64 >> r.UintN(3)}
	l := first
	// The gap is chosen so that some or all requests are in one window.
	gap := 1 + uint64(first.Interval)>>r.UintN(12)
	for range 150 {
		if r.UintN(20) == 0 {
			l = limits[r.IntN(len(limits))]
		}
		if r.UintN(200) == 0 {
			w.put(anyState(r, l, w.now))
		}
		d := w.step(l, anyQuantity(r, l))
		seen.add(&w, l, d)
		w.advance(l, d, gap)
	}
}

// longWalk fills a long log, mostly with charges.
func longWalk(t *testing.T, r *rand.Rand, seen *counts) {
	l := fold(1000+r.Int64N(3000), limitertest.AnyInt(r)|1<<20, 500+r.Int64N(2000))
	w := walk{t: t, r: r, now: t0}
	gap := 1 + uint64(l.Interval)/(100+r.Uint64N(2000))
	for range 4000 {
		quantity := int64(1)
		if r.UintN(8) == 0 {
			quantity = 1 + r.Int64N(5)
		}
		if r.UintN(50) == 0 {
			quantity = max(anyQuantity(r, l), -300)
		}
		d := w.step(l, quantity)
		seen.add(&w, l, d)
		if r.UintN(100) == 0 {
			w.advance(l, d, gap)
		} else {
			w.now = min(w.now+r.Uint64N(gap), limitertest.LastTime)
		}
	}
}

// anyState draws a state that may have been set manually. The times of its entries are in order, and
// range from long before now to after now.
func anyState(r *rand.Rand, l limiter.Limit, now uint64) limiter.State {
	var requests []request
	at := now - min(now, uint64(limitertest.AnyInt(r))>>r.UintN(64))
	for range 1 + r.IntN(30) {
		q := request{at, 1}
		if r.UintN(2) == 0 {
			q.quantity = uint64(limitertest.Within(limitertest.AnyInt(r), math.MaxInt64/64))
		}
		requests = append(requests, q)
		at = min(at+r.Uint64N(uint64(l.Interval))>>r.UintN(10), limitertest.LastTime)
	}
	expires := min(requests[len(requests)-1].at+uint64(l.Interval), now+uint64(limitertest.AnyInt(r)))
	return limiter.State{Expires: expires, Data: encode(requests, make([]byte, r.IntN(40)), r.IntN(40))}
}
