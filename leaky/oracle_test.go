package leaky

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/limiter/limitertest"
)

// fold maps any two numbers to a limit that NewLimit could have made.
func fold(capacity, interval int64) limiter.Limit {
	l := limiter.Limit{Max: limitertest.Within(capacity, math.MaxInt64)}
	l.Interval = time.Duration(limitertest.Within(interval, math.MaxInt64/l.Max))
	return l
}

func anyLimit(r *rand.Rand) limiter.Limit {
	if r.UintN(2) == 0 {
		return fold(r.Int64N(40), limitertest.AnyInt(r)>>r.UintN(50))
	}
	return fold(limitertest.AnyInt(r), limitertest.AnyInt(r))
}

// A slot is the time from the departure of a request to the earliest departure of the next request.
type slot struct{ from, to *big.Int }

// bigQueue is an oracle for Decide: the queue of admitted requests, with big integers.
type bigQueue []slot

// at returns the queue at time t, without expired slots, and the time at which that queue ends.
func (q bigQueue) at(t uint64) (bigQueue, *big.Int) {
	now := new(big.Int).SetUint64(t)
	for len(q) > 0 && q[0].to.Cmp(now) <= 0 {
		q = q[1:]
	}
	if len(q) == 0 {
		return nil, now
	}
	return q, q[len(q)-1].to
}

// join returns the slot of a request made at time t, and reports whether the request
// fits in the queue.
func (q bigQueue) join(l limiter.Limit, t uint64, quantity int64) (slot, bool) {
	_, end := q.at(t)
	length := big.NewInt(int64(l.Interval))
	most := new(big.Int).Mul(length, big.NewInt(l.Max))
	most.Add(most, new(big.Int).SetUint64(t))
	to := length.Mul(length, big.NewInt(quantity))
	to.Add(to, end)
	return slot{end, to}, to.Cmp(most) <= 0
}

// leave shortens the queue at its end by the time in which -quantity units leave.
func (q bigQueue) leave(l limiter.Limit, t uint64, quantity int64) bigQueue {
	q, _ = q.at(t)
	credit := new(big.Int).Mul(big.NewInt(int64(l.Interval)), big.NewInt(quantity))
	for credit.Neg(credit); len(q) > 0; q = q[:len(q)-1] {
		last := q[len(q)-1]
		length := new(big.Int).Sub(last.to, last.from)
		if length.Cmp(credit) > 0 {
			rest := slot{last.from, new(big.Int).Sub(last.to, credit)}
			return append(q[:len(q)-1:len(q)-1], rest)
		}
		credit.Sub(credit, length)
	}
	return nil
}

// free returns the number of units that can still join, by binary search.
func (q bigQueue) free(l limiter.Limit, t uint64) int64 {
	low, high := int64(0), l.Max
	for low < high {
		mid := high - (high-low)/2
		if _, ok := q.join(l, t, mid); ok {
			low = mid
		} else {
			high = mid - 1
		}
	}
	return low
}

// A walk applies the same sequence of requests to Decide and to the oracle, on one key.
type walk struct {
	t     *testing.T
	queue bigQueue
	state limiter.State
	now   uint64
}

// put sets the state directly, as an import does. The queue then consists of one slot
// that has already begun.
func (w *walk) put(tat uint64) {
	w.state, w.queue = limiter.State{Expires: tat}, nil
	if tat > w.now {
		tat = w.now + min(tat-w.now, math.MaxInt64)
		w.state.Expires = tat
		w.queue = bigQueue{{new(big.Int), new(big.Int).SetUint64(tat)}}
	}
}

func (w *walk) step(l limiter.Limit, quantity int64) limiter.Decision {
	c := decide.Run(w.t, l, w.state, w.now, quantity)
	d := c.Got
	w.queue, _ = w.queue.at(w.now)
	want := limiter.Decision{Limit: l.Max, RetryAfter: limiter.NoRetry}
	set := false
	mine, fits := w.queue.join(l, w.now, quantity)
	switch {
	case quantity < 0:
		set = len(w.queue) > 0
		w.queue = w.queue.leave(l, w.now, quantity)
	case quantity > l.Max || !fits:
		want.Limited, want.Wait, want.RetryAfter = true, limiter.NoRetry, d.RetryAfter
	default:
		want.Wait = time.Duration(mine.from.Uint64() - w.now)
		if set = quantity > 0; set {
			w.queue = append(w.queue[:len(w.queue):len(w.queue)], mine)
		}
	}
	_, end := w.queue.at(w.now)
	want.ResetAfter = time.Duration(end.Uint64() - w.now)
	want.Remaining = w.queue.free(l, w.now)
	c.Expect(d == want, "the decision differs from the oracle", want, w.queue)
	c.Expect(c.Change.Set == set && (!set || c.Change.Expires == end.Uint64()), "the change differs from the oracle", w.queue)
	if want.Limited {
		w.retry(c)
	}
	w.state = c.After()
	return d
}

// retry checks that the queue has room after RetryAfter, and not 1 ns before.
func (w *walk) retry(c limitertest.Decided) {
	wait := c.Got.RetryAfter
	if c.Quantity > c.Limit.Max {
		c.Expect(wait == limiter.NoRetry, "RetryAfter is not NoRetry")
		return
	}
	c.Expect(wait > 0, "RetryAfter is not above 0")
	_, ok := w.queue.join(c.Limit, w.now+uint64(wait), c.Quantity)
	_, early := w.queue.join(c.Limit, w.now+uint64(wait)-1, c.Quantity)
	c.Expect(ok && !early, "RetryAfter is not the earliest time at which the queue has room", w.queue)
}

// advance moves the clock, mostly by a few intervals, or by RetryAfter, Wait or ResetAfter, with an
// offset of at most 1 ns.
func (w *walk) advance(r *rand.Rand, l limiter.Limit, last limiter.Decision) {
	by := uint64(0)
	switch r.UintN(10) {
	case 0, 1:
		by = uint64(max(last.RetryAfter, last.Wait, 0))
	case 2:
		by = uint64(max(last.RetryAfter-1, last.Wait-1, 0))
	case 3:
		by = uint64(max(last.ResetAfter-1, 0)) + r.Uint64N(3)
	case 4, 5, 6:
		by = r.Uint64N(uint64(l.Interval)) * (1 + r.Uint64N(4))
	case 7:
		by = uint64(limitertest.AnyInt(r)) >> (1 + r.UintN(63))
	}
	w.now = min(w.now+min(by, limitertest.LastTime), limitertest.LastTime)
}

// TestWalkOracle compares Decide with the oracle on sequences of requests for one key. The
// limit changes, and the state is sometimes set directly.
func TestWalkOracle(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var admitted, refused, n int
	for n < limitertest.Steps(500_000) {
		limits := []limiter.Limit{anyLimit(r), anyLimit(r)}
		// The third limit is close to the first, as after a change of parameters.
		limits = append(limits, fold(limits[0].Max/2+r.Int64N(limits[0].Max), int64(limits[0].Interval)))
		w := walk{t: t, now: uint64(limitertest.AnyInt(r)) & math.MaxInt64 >> r.UintN(3)}
		l := limits[0]
		for range 100 {
			if r.UintN(8) == 0 {
				l = limits[r.IntN(len(limits))]
			}
			if r.UintN(50) == 0 {
				w.put(w.now + uint64(limitertest.AnyInt(r)))
			}
			d := w.step(l, limitertest.AnyQuantity(r, l))
			if d.Limited {
				refused++
			} else {
				admitted++
			}
			n++
			w.advance(r, l, d)
		}
	}
	t.Logf("%d steps without a difference: %d admitted, %d refused", n, admitted, refused)
	if admitted < n/5 || refused < n/5 {
		t.Errorf("%d admitted and %d refused in %d steps, want at least a fifth of each", admitted, refused, n)
	}
}
