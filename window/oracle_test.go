package window

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/limiter/limitertest"
)

// rule holds the parameters by which an oracle counts units.
type rule struct {
	sliding bool
	width   uint64 // of a sub-window
	parts   uint64 // number of sub-windows of a window; 2 if sliding
}

// fact records the units admitted in one sub-window. number is the number of that sub-window,
// counted from time 0.
type fact struct{ number, units uint64 }

// ledger is a slow reference limiter: a list of admitted units, oldest first, and the rule under
// which they were admitted. It computes each result from the definition, without encodings, shifts
// or closed formulas for waits.
type ledger struct {
	rule
	facts []fact

	moved    []fact // result of counted
	a, b, in big.Int
}

// expiry returns the time at which all units of the ledger have expired under its own rule.
func (o *ledger) expiry() uint64 {
	if len(o.facts) == 0 {
		return 0
	}
	return (o.facts[len(o.facts)-1].number + o.parts) * o.width
}

// counted returns the facts converted to rule r at time t. Units of a sub-window of a different
// rule count as of the last nanosecond of that sub-window or as of t, whichever is earlier.
func (o *ledger) counted(r rule, t uint64) []fact {
	if t >= o.expiry() {
		return nil
	}
	current := t / r.width
	o.moved = o.moved[:0]
	for _, f := range o.facts {
		if o.rule != r {
			f.number = min((f.number+1)*o.width-1, t) / r.width
		}
		if f.number+r.parts <= current {
			continue
		}
		if n := len(o.moved) - 1; n >= 0 && o.moved[n].number == f.number {
			sum, carry := bits.Add64(o.moved[n].units, f.units, 0)
			o.moved[n].units = sum | -carry
			continue
		}
		o.moved = append(o.moved, f)
	}
	return o.moved
}

// used returns the used units at t. If r is sliding, the result is multiplied by the width, so that
// it is an integer.
func (o *ledger) used(r rule, t uint64) *big.Int {
	o.a.SetUint64(0)
	current := t / r.width
	for _, f := range o.counted(r, t) {
		o.b.SetUint64(f.units)
		if r.sliding {
			weight := r.width
			if f.number < current {
				weight -= t % r.width // the sliding window covers only the end of the previous window
			}
			o.b.Mul(&o.b, o.in.SetUint64(weight))
		}
		o.a.Add(&o.a, &o.b)
	}
	return &o.a
}

// scale returns n units for comparison with the result of used: multiplied by the width if r is
// sliding.
func (o *ledger) scale(r rule, n int64) *big.Int {
	o.b.SetInt64(n)
	if r.sliding {
		o.b.Mul(&o.b, o.in.SetUint64(r.width))
	}
	return &o.b
}

// fits reports whether quantity could be charged at t.
func (o *ledger) fits(r rule, limit int64, t uint64, quantity int64) bool {
	return o.used(r, t).Cmp(o.scale(r, limit-quantity)) <= 0
}

// free returns the number of units that could be charged at t.
func (o *ledger) free(r rule, limit int64, t uint64) int64 {
	used := o.used(r, t)
	rest := used.Sub(o.scale(r, limit), used)
	if rest.Sign() < 0 {
		return 0
	}
	return exact(rest.Div(rest, o.scale(r, 1)))
}

func exact(v *big.Int) int64 {
	if !v.IsInt64() {
		panic("oracle: " + v.String() + " does not fit")
	}
	return v.Int64()
}

// change records an admitted decision: a charge, or a refund if quantity is negative.
func (o *ledger) change(r rule, t uint64, quantity int64) {
	o.facts = append(o.facts[:0], o.counted(r, t)...)
	o.rule = r
	if quantity > 0 {
		if n := len(o.facts) - 1; n >= 0 && o.facts[n].number == t/r.width {
			o.facts[n].units += uint64(quantity)
		} else {
			o.facts = append(o.facts, fact{t / r.width, uint64(quantity)})
		}
		return
	}
	back := -uint64(quantity)
	for n := len(o.facts) - 1; n >= 0; n-- {
		f := &o.facts[n]
		if f.units > back {
			f.units -= back
			return
		}
		back -= f.units
		o.facts = o.facts[:n]
	}
}

// ratio returns the used units at t as a rational number, computed from the definition.
func (o *ledger) ratio(r rule, t uint64) *big.Rat {
	sum := new(big.Rat)
	for _, f := range o.counted(r, t) {
		units := new(big.Rat).SetUint64(f.units)
		if r.sliding && f.number < t/r.width {
			window := new(big.Rat).SetUint64(r.width)
			elapsed := new(big.Rat).SetUint64(t - t/r.width*r.width)
			units.Mul(units, elapsed.Sub(window, elapsed).Quo(elapsed, window))
		}
		sum.Add(sum, units)
	}
	return sum
}

// walk sends the same requests on one key to an algorithm and to a ledger.
type walk struct {
	*testing.T
	decide  limitertest.Decide
	sliding bool
	oracle  ledger
	now     uint64
	state   limiter.State
	size    int // of a stored counter; 0 without a state
	before  []byte
	spare   []byte
	room    []byte
}

func (w *walk) rule(l *limiter.Limit) rule {
	if w.sliding {
		return rule{true, uint64(l.Interval), 2}
	}
	return rule{false, uint64(l.Interval), uint64(l.Amount)}
}

// step decides a request with the algorithm and with the ledger, and compares the results. If deep
// is set, it also finds the correct RetryAfter and ResetAfter by binary search.
func (w *walk) step(l *limiter.Limit, quantity int64, deep bool) limiter.Decision {
	w.Helper()
	o, r := &w.oracle, w.rule(l)
	ch, d := w.decide(l, w.state, w.now, quantity, w.room[:0])
	expect := func(ok bool, what string) {
		if !ok {
			w.Helper()
			w.Fatalf("%s: limit %+v, state %d %x, now %d, quantity %d: got %+v, %+v\noracle: %+v, %+v",
				what, *l, w.state.Expires, w.before, w.now, quantity, ch, d, o.rule, o.facts)
		}
	}
	limited := quantity > l.Max || quantity >= 0 && !o.fits(r, l.Max, w.now, quantity)
	expect(d.Limited == limited, "limited")
	expect(ch.Set == (!limited && quantity != 0), "set")
	expect(d.Limit == l.Max && d.Wait == 0 && d.Err == nil, "other fields")

	// The wait depends on the stored counts before the change.
	fits := func(t uint64) bool { return o.fits(r, l.Max, t, quantity) }
	if !limited || quantity > l.Max {
		expect(d.RetryAfter == limiter.NoRetry, "unexpected retry after")
	} else {
		at := w.now + uint64(d.RetryAfter)
		expect(d.RetryAfter > 0 && at <= o.expiry(), "retry after out of range")
		expect(at > endOfTime || fits(at), "refused once retry after has elapsed")
		expect(!fits(min(at-1, endOfTime)), "admitted before retry after has elapsed")
		expect(!deep || min(at, endOfTime) == w.search(fits), "the search found a different retry after")
	}
	if ch.Set {
		w.store(l, r, ch, expect, quantity)
	}
	expect(d.Remaining == o.free(r, l.Max, w.now), "remaining")
	full := func(t uint64) bool { return o.used(r, t).Sign() == 0 }
	at := w.now + uint64(d.ResetAfter)
	expect(d.ResetAfter >= 0 && (at > endOfTime || full(at)), "not full once reset after has elapsed")
	expect(d.ResetAfter == 0 || !full(min(at-1, endOfTime)), "full before reset after has elapsed")
	if ch.Set {
		expect(ch.Expires == o.expiry() && (len(o.facts) == 0 || ch.Expires == at), "expires")
	}
	if deep {
		expect(min(at, endOfTime) == w.search(full), "the search found a different reset after")
		used := new(big.Rat).SetFrac(o.used(r, w.now), new(big.Int).Set(o.scale(r, 1)))
		expect(used.Cmp(o.ratio(r, w.now)) == 0, "the two sums of the oracle differ")
	}
	return d
}

// search returns the first time from w.now on at which the condition holds, or the end of the clock.
// Without charges, the used units never increase, so the condition does not become false again.
func (w *walk) search(condition func(t uint64) bool) uint64 {
	low, high := w.now, min(max(w.now, w.oracle.expiry()), endOfTime)
	for low < high {
		if middle := low + (high-low)/2; condition(middle) {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low
}

// store applies a change to the state and to the ledger, and checks the encoding.
func (w *walk) store(l *limiter.Limit, r rule, ch limiter.Change, expect func(bool, string), quantity int64) {
	w.Helper()
	o := &w.oracle
	same := o.rule == r && w.now < o.expiry()
	inPlace := same && o.facts[len(o.facts)-1].number == w.now/r.width && bytesFor(uint64(l.Max)) <= w.size
	if !same {
		w.size = 0
	}
	o.change(r, w.now, quantity)
	expect(bytes.Equal(w.state.Data, w.before), "the old state was modified")
	data := append(append(w.spare[:0], w.state.Data[:ch.Keep]...), ch.Tail...)
	w.spare, w.state = w.state.Data, limiter.State{Expires: ch.Expires, Data: data}
	w.before = append(w.before[:0], data...)
	if len(o.facts) == 0 {
		w.state, w.size = limiter.State{}, 0
		expect(ch.Expires <= w.now, "all counts are 0, but the state does not expire")
		return
	}
	w.size = max(w.size, bytesFor(uint64(l.Max)))
	for _, f := range o.facts {
		w.size = max(w.size, bytesFor(f.units))
	}
	if inPlace && quantity > 0 {
		expect(ch.Keep == len(data)-w.size && len(ch.Tail) == w.size, "more than one counter was written")
	}
	expect(w.readBack(r, data), "the state differs from the ledger")
}

// readBack reports whether data encodes the ledger exactly.
func (w *walk) readBack(r rule, data []byte) bool {
	header := binary.LittleEndian.Uint64(data)
	if header&(1<<62-1) != r.width || 1<<(header>>62) != w.size || len(data) != 8+int(r.parts)*w.size {
		return false
	}
	facts := w.oracle.facts
	newest := facts[len(facts)-1].number
	for i := len(data); i > 8; i -= w.size {
		units := uint64(0)
		for j := range w.size {
			units |= uint64(data[i-w.size+j]) << (8 * j)
		}
		want := uint64(0)
		if n := len(facts) - 1; n >= 0 && facts[n].number == newest {
			want, facts = facts[n].units, facts[:n]
		}
		if units != want {
			return false
		}
		newest--
	}
	return len(facts) == 0
}

// bytesFor returns the smallest size of a counter that holds v.
func bytesFor(v uint64) int {
	switch {
	case v < 1<<8:
		return 1
	case v < 1<<16:
		return 2
	case v < 1<<32:
		return 4
	}
	return 8
}

// advance moves the clock, mostly to the end of RetryAfter or ResetAfter, within the current
// sub-window, or to the next one.
func (w *walk) advance(r *rand.Rand, l *limiter.Limit, last limiter.Decision) {
	width := uint64(l.Interval)
	by := uint64(0)
	switch r.UintN(16) {
	case 0, 1:
		by = uint64(max(last.RetryAfter, 0))
	case 2:
		by = uint64(max(last.RetryAfter-1, 0))
	case 3:
		by = uint64(max(last.ResetAfter-1+time.Duration(r.Int64N(3)), 0))
	case 4, 5:
		by = width - w.now%width // start of the next sub-window
	case 6:
		by = width - w.now%width - 1
	case 7:
		by = r.Uint64N(width) * (1 + r.Uint64N(4))
	case 8, 9, 10:
		by = r.Uint64N(width)
	case 11:
		by = uint64(anyInt(r))
	}
	w.now = min(w.now+min(by, endOfTime), endOfTime)
}

// anyInt draws a positive int64 of any magnitude.
func anyInt(r *rand.Rand) int64 {
	v := limitertest.AnyInt(r)
	return max(v, -v, 1)
}

// fold maps any numbers to a valid limit. It does not change valid parameters.
func fold(limit, period, parts int64) limiter.Limit {
	parts = limitertest.Within(parts-1, MaxParts)
	for period = limitertest.Within(period-1, int64(MaxPeriod)); ; period -= parts {
		l, err := NewLimit(limitertest.Within(limit-1, math.MaxInt64), limiter.Period{N: period, Unit: 1}, parts)
		if err == nil {
			return l
		}
	}
}

// anyParts draws a number of parts, mostly small.
func anyParts(r *rand.Rand) int64 {
	switch r.UintN(32) {
	case 0:
		return 1 + r.Int64N(MaxParts)
	case 1, 2, 3:
		return 1 + r.Int64N(70)
	}
	return 1 + r.Int64N(8)
}

// anyQuantity draws an arbitrary quantity, or a quantity at a boundary of the last decision.
func anyQuantity(r *rand.Rand, l *limiter.Limit, last limiter.Decision) int64 {
	switch r.UintN(16) {
	case 0:
		return 0
	case 1:
		return l.Max - 1 + r.Int64N(3) // may wrap to the smallest int64
	case 2:
		return math.MinInt64 + r.Int64N(2)
	case 3:
		return -anyInt(r)
	case 4:
		return -1 - r.Int64N(l.Max)
	case 5:
		return anyInt(r)
	case 6, 7, 8:
		return min(last.Remaining, l.Max-1) + r.Int64N(2)
	case 9, 10:
		return 1 + r.Int64N(max(last.Remaining, 1))
	}
	return 1 + r.Int64N(1+l.Max/4)
}

// limits returns limits for one key: a random limit, variants of it with a changed limit, period or
// number of parts, and an unrelated limit.
func limits(r *rand.Rand, parts func() int64) []limiter.Limit {
	limit, period, n := anyInt(r), anyInt(r), parts()
	tuned := func(v int64) int64 { return v/2 + r.Int64N(v) }
	factor := 1 + r.Int64N(5)
	return []limiter.Limit{
		fold(limit, period, n),
		fold(tuned(limit), period, n),
		fold(anyInt(r), period, n),
		fold(limit, tuned(period), n),
		fold(limit, period/factor, n),
		fold(limit, min(period, math.MaxInt64/factor)*factor, n),
		fold(limit, period, parts()),
		fold(anyInt(r), anyInt(r), parts()),
	}
}

// walks runs a walk on each of many keys.
func walks(t *testing.T, decide limitertest.Decide, sliding bool, seed uint64, parts func(*rand.Rand) int64) {
	r := rand.New(rand.NewPCG(seed, 2))
	w := walk{T: t, decide: decide, sliding: sliding, room: make([]byte, 0, 9<<10)}
	steps, count := limitertest.Steps(300_000), map[string]int{}
	for taken := 0; taken < steps; {
		all := limits(r, func() int64 { return parts(r) })
		l, last := &all[0], limiter.Decision{Remaining: all[0].Max}
		w.state, w.before, w.size = limiter.State{}, w.before[:0], 0
		w.oracle.facts = w.oracle.facts[:0]
		w.now = uint64(anyInt(r) - 1)
		for length := 20 + r.IntN(60); length > 0 && w.now < endOfTime; length-- {
			if r.UintN(8) == 0 {
				l = &all[r.IntN(len(all))]
				count["changed"]++
			}
			deep := taken%16 == 0
			last = w.step(l, anyQuantity(r, l, last), deep)
			taken++
			switch {
			case !last.Limited:
				count["admitted"]++
			case last.RetryAfter != limiter.NoRetry:
				count["refused for now"]++
			}
			w.advance(r, l, last)
		}
	}
	t.Logf("%d steps without a difference: %v", steps, count)
	for what, least := range map[string]int{"admitted": 3, "refused for now": 10, "changed": 20} {
		if count[what] < steps/least {
			t.Errorf("%d %s in %d steps: too few for a meaningful test", count[what], what, steps)
		}
	}
}

func onePart(*rand.Rand) int64 { return 1 }

func TestSlidingOracle(t *testing.T) { walks(t, Slide, true, 1, onePart) }

func TestFixedOracle(t *testing.T) { walks(t, Count, false, 2, onePart) }

func TestBucketsOracle(t *testing.T) { walks(t, Count, false, 3, anyParts) }
