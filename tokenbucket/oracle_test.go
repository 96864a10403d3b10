package tokenbucket

import (
	"math"
	"math/big"
	"math/rand/v2"
	"sort"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/limiter/limitertest"
)

// fold maps any three numbers to a limit that NewLimit could have made.
func fold(capacity, amount, interval int64) limiter.Limit {
	l := limiter.Limit{Max: limitertest.Within(capacity, math.MaxInt64), Amount: limitertest.Within(amount, math.MaxInt64)}
	refills := l.Max / l.Amount
	if l.Max%l.Amount > 0 {
		refills++
	}
	l.Interval = time.Duration(limitertest.Within(interval, math.MaxInt64/refills))
	return l
}

// anyLimit draws limits of any magnitude. Half of them are small enough for many charges and
// refills of the same bucket.
func anyLimit(r *rand.Rand) limiter.Limit {
	if r.UintN(2) == 0 {
		return fold(r.Int64N(40), r.Int64N(12), limitertest.AnyInt(r)>>r.UintN(50))
	}
	return fold(limitertest.AnyInt(r), limitertest.AnyInt(r), limitertest.AnyInt(r))
}

// bigBucket is an oracle for Decide: a bucket that applies refills with big integers.
type bigBucket struct {
	missing  *big.Int
	refilled *big.Int // time of the last refill
	expires  uint64   // time from which the bucket is full
}

// at returns the bucket at time t. The refills are applied in groups whose sizes are powers
// of two. The result is the same as if the refills were applied one by one.
func (b bigBucket) at(l limiter.Limit, t uint64) bigBucket {
	if b.expires <= t {
		return bigBucket{missing: new(big.Int), refilled: bigUint(t)}
	}
	b.missing, b.refilled = new(big.Int).Set(b.missing), new(big.Int).Set(b.refilled)
	now, tokens, next := bigUint(t), new(big.Int), new(big.Int)
	twice := 0
	for next.Lsh(big.NewInt(int64(l.Interval)), uint(twice)); next.Add(next, b.refilled).Cmp(now) <= 0; twice++ {
		next.Lsh(big.NewInt(int64(l.Interval)), uint(twice)+1)
	}
	for ; twice >= 0; twice-- {
		next.Lsh(big.NewInt(int64(l.Interval)), uint(twice))
		if next.Add(next, b.refilled); next.Cmp(now) > 0 {
			continue
		}
		b.refilled.Set(next)
		b.missing.Sub(b.missing, tokens.Lsh(big.NewInt(l.Amount), uint(twice)))
	}
	if b.missing.Sign() <= 0 { // the bucket is full, and its refill clock has stopped
		b.missing.SetInt64(0)
		b.refilled.Set(now)
	}
	return b
}

func bigUint(v uint64) *big.Int { return new(big.Int).SetUint64(v) }

// free returns the number of tokens available at time t. It returns 0 if more tokens are
// missing than the bucket holds.
func (b bigBucket) free(l limiter.Limit, t uint64) int64 {
	free := new(big.Int).Sub(big.NewInt(l.Max), b.at(l, t).missing)
	if free.Sign() < 0 {
		return 0
	}
	return free.Int64()
}

// admits reports whether a charge or a peek at time t is admitted.
func (b bigBucket) admits(l limiter.Limit, t uint64, quantity int64) bool {
	after := new(big.Int).Add(b.at(l, t).missing, big.NewInt(quantity))
	return after.Cmp(big.NewInt(l.Max)) <= 0
}

func (b bigBucket) full(l limiter.Limit, t uint64) bool { return b.at(l, t).missing.Sign() == 0 }

// A walk applies the same sequence of requests to Decide and to the oracle, on one key.
type walk struct {
	t      *testing.T
	r      *rand.Rand
	oracle bigBucket
	state  limiter.State
	now    uint64
}

func newWalk(t *testing.T, r *rand.Rand, now uint64) *walk {
	return &walk{t: t, r: r, now: now, oracle: bigBucket{missing: new(big.Int), refilled: bigUint(now)}}
}

// put sets the state directly, as an import does.
func (w *walk) put(s limiter.State) {
	used, anchor := decode(s.Data)
	w.state = s
	w.oracle = bigBucket{missing: bigUint(used), refilled: bigUint(anchor), expires: s.Expires}
}

func (w *walk) step(l limiter.Limit, quantity int64) limiter.Decision {
	c := decide.Run(w.t, l, w.state, w.now, quantity)
	d := c.Got
	before := w.oracle.at(l, w.now)
	was := new(big.Int).Set(before.missing)
	limited := quantity >= 0 && (quantity > l.Max || !before.admits(l, w.now, quantity))
	c.Expect(d.Limited == limited, "Limited differs from the oracle")
	if !limited && quantity != 0 {
		before.missing.Add(before.missing, big.NewInt(quantity))
		if before.missing.Sign() < 0 {
			before.missing.SetInt64(0)
		}
		before.expires = math.MaxUint64
		c.Expect(c.Change.Set == (quantity > 0 || was.Sign() > 0), "Change.Set differs from the oracle")
	} else {
		c.Expect(!c.Change.Set, "a refused request or a peek changed the state")
	}
	// The outcome must change exactly when RetryAfter and ResetAfter have elapsed.
	if limited && quantity <= l.Max {
		w.wait(c, d.RetryAfter, "retry after", func(t uint64) bool { return before.admits(l, t, quantity) })
	} else {
		c.Expect(d.RetryAfter == limiter.NoRetry, "RetryAfter is not NoRetry")
	}
	w.wait(c, d.ResetAfter, "reset after", func(t uint64) bool { return before.full(l, t) })
	want := limiter.Decision{Limited: limited, Limit: l.Max, Remaining: before.free(l, w.now), RetryAfter: d.RetryAfter, ResetAfter: d.ResetAfter}
	c.Expect(d == want, "the decision differs from the oracle")
	if c.Change.Set {
		c.Expect(c.Change.Expires == w.now+uint64(d.ResetAfter), "Expires is not now + ResetAfter")
		before.expires = c.Change.Expires
		w.state, w.oracle = c.After(), before
	}
	return d
}

// wait checks that the function ok first returns true at time now + got. In some calls, chosen at
// random, it also determines that time by binary search.
func (w *walk) wait(c limitertest.Decided, got time.Duration, what string, ok func(t uint64) bool) {
	c.ExpectEarliest(got, limitertest.LastTime, what, ok)
	if w.r.UintN(64) == 0 && w.now+uint64(got) <= limitertest.LastTime {
		found := sort.Search(math.MaxInt64, func(i int) bool {
			return w.now+uint64(i) > limitertest.LastTime || ok(w.now+uint64(i))
		})
		c.Expect(time.Duration(found) == got, what, "the search found a different wait")
	}
}

// advance moves the clock, mostly by a few intervals, or by RetryAfter or ResetAfter, with an offset
// of at most 1 ns.
func (w *walk) advance(l limiter.Limit, last limiter.Decision) {
	by := uint64(0)
	switch w.r.UintN(10) {
	case 0, 1:
		by = uint64(max(last.RetryAfter, 0))
	case 2:
		by = uint64(max(last.RetryAfter-1, 0))
	case 3:
		by = uint64(max(last.ResetAfter-1, 0)) + w.r.Uint64N(3)
	case 4, 5, 6:
		by = w.r.Uint64N(uint64(l.Interval)) * (1 + w.r.Uint64N(4))
	case 7:
		by = uint64(limitertest.AnyInt(w.r)) >> (1 + w.r.UintN(63))
	}
	w.now = min(w.now+min(by, limitertest.LastTime), limitertest.LastTime)
}

// TestWalkOracle compares Decide with the oracle on sequences of requests for one key. The
// limit changes, and the state is sometimes set directly.
func TestWalkOracle(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var admitted, refused, n int
	for n < limitertest.Steps(300_000) {
		limits := []limiter.Limit{anyLimit(r), anyLimit(r)}
		// The third limit is close to the first, as after a change of parameters.
		first := limits[0]
		limits = append(limits, fold(first.Max/2+r.Int64N(first.Max), first.Amount, int64(first.Interval)))
		w := newWalk(t, r, uint64(limitertest.AnyInt(r))&math.MaxInt64>>r.UintN(3))
		l := first
		for range 100 {
			if r.UintN(8) == 0 {
				l = limits[r.IntN(len(limits))]
			}
			if r.UintN(50) == 0 {
				w.put(anyState(r, l, w.now))
			}
			d := w.step(l, limitertest.AnyQuantity(r, l))
			if d.Limited {
				refused++
			} else {
				admitted++
			}
			n++
			w.advance(l, d)
		}
	}
	t.Logf("%d steps without a difference: %d admitted, %d refused", n, admitted, refused)
	if admitted < n/5 || refused < n/5 {
		t.Errorf("%d admitted and %d refused in %d steps, want at least a fifth of each", admitted, refused, n)
	}
}

// anyState draws a state that may have been set manually.
func anyState(r *rand.Rand, l limiter.Limit, now uint64) limiter.State {
	used, anchor := uint64(limitertest.AnyInt(r)), now-uint64(limitertest.AnyInt(r))>>r.UintN(64)
	if r.UintN(2) == 0 {
		used, anchor = r.Uint64N(uint64(l.Max)+2), now-r.Uint64N(uint64(l.Interval))
	}
	expires := now + uint64(limitertest.AnyInt(r))
	if r.UintN(4) == 0 {
		anchor = now + uint64(limitertest.AnyInt(r))
	}
	return encode(expires, used, anchor)
}
