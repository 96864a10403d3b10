package gcra

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
func fold(limit, interval int64) limiter.Limit {
	l := limiter.Limit{Max: limitertest.Within(limit, math.MaxInt64)}
	l.Interval = time.Duration(limitertest.Within(interval, math.MaxInt64/l.Max))
	return l
}

func anyLimit(r *rand.Rand) limiter.Limit {
	if r.UintN(4) == 0 {
		// The largest interval for its limit.
		limit := limitertest.AnyInt(r)
		return fold(limit, math.MaxInt64/fold(limit, 0).Max-1)
	}
	return fold(limitertest.AnyInt(r), limitertest.AnyInt(r))
}

// bigBucket is an oracle for Decide: a leaky bucket with big integers. Its state is not a TAT,
// but the used time at the last change and the time of that change, so that it shares no
// formula with Decide.
type bigBucket struct {
	used, at *big.Int
}

func (b *bigBucket) tat() *big.Int { return new(big.Int).Add(b.at, b.used) }

// put sets the state directly, as an import does.
func (b *bigBucket) put(tat uint64) {
	b.used, b.at = new(big.Int).SetUint64(tat), new(big.Int)
}

func (b *bigBucket) decide(l limiter.Limit, now uint64, quantity int64) limiter.Decision {
	t := new(big.Int).SetUint64(now)
	used := new(big.Int).Sub(b.at, t)
	used = clamp(used.Add(used, b.used), big.NewInt(math.MaxInt64))
	interval := big.NewInt(int64(l.Interval))
	size := new(big.Int).Mul(interval, big.NewInt(l.Max))
	after := new(big.Int).Mul(interval, big.NewInt(quantity))
	after.Add(after, used)

	d := limiter.Decision{Limit: l.Max, RetryAfter: limiter.NoRetry}
	switch {
	case quantity < 0:
		used = clamp(after, used)
		b.used, b.at = used, t
	case quantity > l.Max:
		d.Limited = true
	case after.Cmp(size) > 0:
		d.Limited = true
		d.RetryAfter = time.Duration(exact(new(big.Int).Sub(after, size)))
	case quantity > 0:
		used = after
		b.used, b.at = used, t
	}
	free := clamp(new(big.Int).Sub(size, used), size)
	d.Remaining = exact(free.Quo(free, interval))
	d.ResetAfter = time.Duration(exact(used))
	return d
}

// clamp returns v clamped to 0..most.
func clamp(v, most *big.Int) *big.Int {
	if v.Sign() < 0 {
		return new(big.Int)
	}
	if v.Cmp(most) > 0 {
		return most
	}
	return v
}

func exact(v *big.Int) int64 {
	if !v.IsInt64() {
		panic("oracle: " + v.String() + " does not fit")
	}
	return v.Int64()
}

// A walk applies the same sequence of requests to Decide and to the oracle, on one key.
type walk struct {
	t      *testing.T
	oracle bigBucket
	tat    uint64
	now    uint64
}

func newWalk(t *testing.T, tat, now uint64) *walk {
	w := &walk{t: t, now: now}
	w.put(tat)
	return w
}

func (w *walk) put(tat uint64) {
	w.tat = tat
	w.oracle.put(tat)
}

func (w *walk) step(l limiter.Limit, quantity int64) limiter.Decision {
	w.t.Helper()
	newTAT, got := Decide(l, w.tat, w.now, quantity)
	want := w.oracle.decide(l, w.now, quantity)
	if tat := w.oracle.tat(); got != want || tat.Cmp(new(big.Int).SetUint64(newTAT)) != 0 {
		w.t.Fatalf("Decide(%+v, %d, %d, %d)\n got %d, %+v\nwant %d, %+v", l, w.tat, w.now, quantity, newTAT, got, tat, want)
	}
	w.tat = newTAT
	return got
}

// advance moves the clock, mostly by a few intervals, or by RetryAfter or ResetAfter, with an offset
// of at most 1 ns.
func (w *walk) advance(r *rand.Rand, l limiter.Limit, last limiter.Decision) {
	by := int64(0)
	switch r.UintN(10) {
	case 0, 1:
		by = int64(last.RetryAfter) // NoRetry moves the clock back by 1 ns
	case 2:
		by = int64(last.RetryAfter) - 1
	case 3:
		by = int64(last.ResetAfter) - 1 + r.Int64N(3)
	case 4, 5, 6:
		by = r.Int64N(int64(l.Interval)) * (1 + r.Int64N(4)) // may wrap to a negative step
	case 7:
		by = limitertest.AnyInt(r)
	}
	w.now = (w.now + uint64(by)) & math.MaxInt64
}

// TestDecideOracle compares Decide with the oracle on single requests with random states, times and
// limits.
func TestDecideOracle(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 300_000 {
		l := anyLimit(r)
		now := uint64(limitertest.AnyInt(r)) & math.MaxInt64
		tat := uint64(limitertest.AnyInt(r))
		if r.UintN(2) == 0 {
			tat = now + uint64(limitertest.AnyInt(r))
		}
		newWalk(t, tat, now).step(l, limitertest.AnyQuantity(r, l))
	}
}

// TestWalkOracle compares Decide with the oracle on sequences of requests for one key. The limit
// changes, the state is sometimes set directly, and the clock sometimes moves backward.
func TestWalkOracle(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var admitted, refused, taken int
	for range limitertest.Steps(300_000) / 100 {
		limits := []limiter.Limit{anyLimit(r), anyLimit(r)}
		// The third limit is close to the first, as after a change of parameters.
		limits = append(limits, fold(limits[0].Max/2+r.Int64N(limits[0].Max), int64(limits[0].Interval)))
		w := newWalk(t, 0, uint64(limitertest.AnyInt(r))&math.MaxInt64)
		l, last := limits[0], limiter.Decision{}
		for range 100 {
			if r.UintN(8) == 0 {
				l = limits[r.IntN(len(limits))]
			}
			if r.UintN(50) == 0 {
				w.put(w.now + uint64(limitertest.AnyInt(r)))
			}
			last = w.step(l, limitertest.AnyQuantity(r, l))
			if last.Limited {
				refused++
			} else {
				admitted++
			}
			taken++
			w.advance(r, l, last)
		}
	}
	t.Logf("%d steps without a difference: %d admitted, %d refused", taken, admitted, refused)
	if admitted < taken/5 || refused < taken/5 {
		t.Errorf("%d admitted and %d refused in %d steps, want at least a fifth of each", admitted, refused, taken)
	}
}
