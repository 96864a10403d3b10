package tokenbucket

import (
	"flag"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// More steps take longer and see more: go test ./tokenbucket -args -steps 10000000.
var steps = flag.Int("steps", 300_000, "how many decisions the random walks make")

// lastTime is the last instant of the clock.
const lastTime = uint64(math.MaxInt64)

// anyInt draws an int64 of any magnitude, often next to a power of two, sometimes negative.
func anyInt(r *rand.Rand) int64 {
	v := int64(r.Uint64() >> (1 + r.UintN(63)))
	switch r.UintN(8) {
	case 0:
		v = -v
	case 1:
		v = int64(1)<<r.UintN(63) - 1 + r.Int64N(3)
	case 2:
		v = math.MaxInt64 - r.Int64N(3)
	case 3:
		v = r.Int64N(8)
	}
	return v
}

// within folds v into 1..most.
func within(v, most int64) int64 { return 1 + int64(uint64(v)%uint64(most)) }

// fold makes of any three numbers a limit that NewLimit could have made.
func fold(capacity, amount, interval int64) limiter.Limit {
	l := limiter.Limit{Max: within(capacity, math.MaxInt64), Amount: within(amount, math.MaxInt64)}
	refills := l.Max / l.Amount
	if l.Max%l.Amount > 0 {
		refills++
	}
	l.Interval = time.Duration(within(interval, math.MaxInt64/refills))
	return l
}

// anyLimit draws limits of any magnitude, half of them small enough that many refills and
// charges meet in one bucket.
func anyLimit(r *rand.Rand) limiter.Limit {
	if r.UintN(2) == 0 {
		return fold(r.Int64N(40), r.Int64N(12), anyInt(r)>>r.UintN(50))
	}
	return fold(anyInt(r), anyInt(r), anyInt(r))
}

// anyQuantity draws a quantity that l treats specially, or any.
func anyQuantity(r *rand.Rand, l limiter.Limit) int64 {
	switch r.UintN(10) {
	case 0:
		return 0
	case 1:
		return l.Max - 1 + r.Int64N(3) // wraps to the smallest int64 at times
	case 2:
		return math.MinInt64 + r.Int64N(2)
	case 3:
		return anyInt(r)
	case 4:
		return -within(anyInt(r), l.Max)
	case 5, 6:
		return 1
	}
	return within(r.Int64(), l.Max)
}

// bigBucket is a bucket that is refilled time after time, on numbers without end.
type bigBucket struct {
	missing  *big.Int
	refilled *big.Int // when the last refill came
	expires  uint64   // when all is forgotten
}

// at returns the bucket as it is at time t. Refills come one by one in effect: as many at
// once as the powers of two that make up their number.
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
	if b.missing.Sign() <= 0 { // full, and its clock stands still
		b.missing.SetInt64(0)
		b.refilled.Set(now)
	}
	return b
}

func bigUint(v uint64) *big.Int { return new(big.Int).SetUint64(v) }

// free returns how many tokens there are at time t, 0 if more are missing than the
// bucket holds.
func (b bigBucket) free(l limiter.Limit, t uint64) int64 {
	free := new(big.Int).Sub(big.NewInt(l.Max), b.at(l, t).missing)
	if free.Sign() < 0 {
		return 0
	}
	return free.Int64()
}

// admits tells whether a charge or a peek at time t is admitted.
func (b bigBucket) admits(l limiter.Limit, t uint64, quantity int64) bool {
	after := new(big.Int).Add(b.at(l, t).missing, big.NewInt(quantity))
	return after.Cmp(big.NewInt(l.Max)) <= 0
}

func (b bigBucket) full(l limiter.Limit, t uint64) bool { return b.at(l, t).missing.Sign() == 0 }

// search returns the earliest wait from now after which ok holds, or the longest there is.
func search(now uint64, ok func(t uint64) bool) time.Duration {
	low, high := uint64(0), lastTime
	for low < high {
		if mid := low + (high-low)/2; now+mid > lastTime || ok(now+mid) {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return time.Duration(low)
}

// A walk takes Decide and the oracle through the same requests on one key.
type walk struct {
	t      *testing.T
	r      *rand.Rand
	oracle bigBucket
	state  limiter.State
	now    uint64
	room   [64]byte
}

func newWalk(t *testing.T, r *rand.Rand, now uint64) *walk {
	return &walk{t: t, r: r, now: now, oracle: bigBucket{missing: new(big.Int), refilled: bigUint(now)}}
}

// put sets the state by hand, as an import does.
func (w *walk) put(s limiter.State) {
	used, anchor := decode(s.Data)
	w.state = s
	w.oracle = bigBucket{missing: bigUint(used), refilled: bigUint(anchor), expires: s.Expires}
}

func (w *walk) step(l limiter.Limit, quantity int64) limiter.Decision {
	c, d := Decide(&l, w.state, w.now, quantity, w.room[:0])
	expect := func(ok bool, what string) {
		if !ok {
			w.t.Helper()
			w.t.Fatalf("%s: Decide(%+v, %+v, %d, %d)\n= %+v, %+v", what, l, w.state, w.now, quantity, c, d)
		}
	}
	before := w.oracle.at(l, w.now)
	was := new(big.Int).Set(before.missing)
	limited := quantity >= 0 && (quantity > l.Max || !before.admits(l, w.now, quantity))
	expect(d.Limited == limited, "admitted or refused")
	if !limited && quantity != 0 {
		before.missing.Add(before.missing, big.NewInt(quantity))
		if before.missing.Sign() < 0 {
			before.missing.SetInt64(0)
		}
		before.expires = math.MaxUint64
		expect(c.Set == (quantity > 0 || was.Sign() > 0), "changed or not")
	} else {
		expect(!c.Set, "changed")
	}
	// Retry after and reset after are what makes a difference when it has passed.
	w.wait(l, d.RetryAfter, limited && quantity <= l.Max, expect, func(t uint64) bool { return before.admits(l, t, quantity) })
	w.wait(l, max(d.ResetAfter, limiter.NoRetry), true, expect, func(t uint64) bool { return before.full(l, t) })
	want := limiter.Decision{Limited: limited, Limit: l.Max, Remaining: before.free(l, w.now), RetryAfter: d.RetryAfter, ResetAfter: d.ResetAfter}
	expect(d == want, "remaining")
	if c.Set {
		expect(c.Expires == w.now+uint64(d.ResetAfter), "expires")
		w.state = apply(w.state, c)
		before.expires = c.Expires
		w.oracle = before
	}
	return d
}

// wait checks that after the duration given, and not 1 ns before, ok is true. The longest
// duration may stand for a longer one.
func (w *walk) wait(l limiter.Limit, got time.Duration, some bool, expect func(bool, string), ok func(t uint64) bool) {
	if !some {
		expect(got == limiter.NoRetry, "a wait for nothing")
		return
	}
	expect(got >= 0, "negative wait")
	at := w.now + uint64(got)
	expect(at > lastTime || got == math.MaxInt64 || ok(at), "waited too short")
	expect(got == 0 || !ok(min(at-1, lastTime)), "waited too long")
	if w.r.UintN(64) == 0 && at <= lastTime {
		expect(search(w.now, ok) == got, "another wait was found")
	}
}

// apply makes the new state as a caller does.
func apply(s limiter.State, c limiter.Change) limiter.State {
	return limiter.State{Expires: c.Expires, Data: slices.Concat(s.Data[:c.Keep], c.Tail)}
}

// advance moves the clock, mostly to where something is about to change.
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
		by = uint64(anyInt(w.r)) >> (1 + w.r.UintN(63))
	}
	w.now = min(w.now+min(by, lastTime), lastTime)
}

// TestWalkOracle compares sequences of requests on one key under changing limits, with
// states set by hand.
func TestWalkOracle(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var admitted, refused, n int
	for n < *steps {
		limits := []limiter.Limit{anyLimit(r), anyLimit(r)}
		// A third limit is close to the first, as parameters that are tuned are.
		first := limits[0]
		limits = append(limits, fold(first.Max/2+r.Int64N(first.Max), first.Amount, int64(first.Interval)))
		w := newWalk(t, r, uint64(anyInt(r))&math.MaxInt64>>r.UintN(3))
		l := first
		for range 100 {
			if r.UintN(8) == 0 {
				l = limits[r.IntN(len(limits))]
			}
			if r.UintN(50) == 0 {
				w.put(anyState(r, l, w.now))
			}
			d := w.step(l, anyQuantity(r, l))
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
		t.Errorf("%d admitted and %d refused in %d steps", admitted, refused, n)
	}
}

// anyState draws a state that may have been put by hand.
func anyState(r *rand.Rand, l limiter.Limit, now uint64) limiter.State {
	used, anchor := uint64(anyInt(r)), now-uint64(anyInt(r))>>r.UintN(64)
	if r.UintN(2) == 0 {
		used, anchor = r.Uint64N(uint64(l.Max)+2), now-r.Uint64N(uint64(l.Interval))
	}
	expires := now + uint64(anyInt(r))
	if r.UintN(4) == 0 {
		anchor = now + uint64(anyInt(r))
	}
	return encode(expires, used, anchor)
}
