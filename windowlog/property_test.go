package windowlog

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/throttledhq/throttled/limiter"
)

// A decision with what it was asked and what it made of the state.
type decided struct {
	*testing.T
	l        limiter.Limit
	old      limiter.State
	now      uint64
	quantity int64
	c        limiter.Change
	d        limiter.Decision
}

func decide(t *testing.T, l limiter.Limit, old limiter.State, now uint64, quantity int64) decided {
	data := bytes.Clone(old.Data)
	c, d := Decide(&l, old, now, quantity, bytes.Repeat([]byte{0xaa}, 100))
	got := decided{t, l, old, now, quantity, c, d}
	for i := range c.Tail {
		c.Tail[i] ^= 0xff // would show in the old state, if the two had bytes in common
	}
	got.expect(bytes.Equal(data, old.Data), "the old state was written to")
	for i := range c.Tail {
		c.Tail[i] ^= 0xff
	}
	return got
}

// expect fails the test, with the decision, unless ok.
func (c decided) expect(ok bool, what string) {
	if !ok {
		c.Helper()
		c.Fatalf("%s: Decide(%+v, %+v, %d, %d)\n= %+v, %+v", what, c.l, c.old, c.now, c.quantity, c.c, c.d)
	}
}

// after returns the state after the decision.
func (c decided) after() limiter.State {
	if !c.c.Set {
		return c.old
	}
	return apply(c.old, c.c)
}

// check holds a decision to everything that is true of all of them, whatever the state.
func (c decided) check() {
	d := c.d
	c.expect(d.Limit == c.l.Max && d.Err == nil && d.Wait == 0, "limit, error, wait")
	c.expect(0 <= d.Remaining && d.Remaining <= d.Limit, "remaining out of range")
	c.expect(d.ResetAfter >= 0, "negative reset after")
	c.expect(d.RetryAfter == limiter.NoRetry || d.Limited && d.RetryAfter > 0, "retry after out of range")
	c.expect(!d.Limited || (d.RetryAfter == limiter.NoRetry) == (c.quantity > c.l.Max), "retry after does not fit the quantity")
	c.expect(d.RetryAfter <= d.ResetAfter, "a wait beyond the last entry")
	c.expect(d.Limited || c.quantity <= c.l.Max, "more than the limit was admitted")
	c.expect(!d.Limited || c.quantity >= 0, "a refund was refused")
	c.expect((d.ResetAfter == 0) == (d.Remaining == d.Limit), "full, but not reset")
	c.expect(!c.c.Set || !d.Limited && c.quantity != 0, "refused or peeked, but changed")
	c.expect(!c.c.Set || c.c.Expires == c.now+uint64(d.ResetAfter), "expires at another time")
	c.expect(c.c.Set || d.Limited || c.quantity <= 0, "charged, but not changed")
	c.expect(!c.c.Set || 0 <= c.c.Keep && c.c.Keep <= len(c.old.Data), "keeps what is not there")
	c.expect(!c.c.Set || c.c.Keep == 0 || c.c.Keep+len(c.c.Tail) == len(c.old.Data), "keeps some, but changes the length")
}

// checkSound checks what is true of a state that is well formed, too: the two durations,
// against what happens after them and 1 ns before, that what remains is admitted, and no
// more, and that a refund undoes a charge. Damage may show only later, and then all is forgotten.
func (c decided) checkSound() {
	state := c.after()
	peek := decide(c.T, c.l, state, c.now, 0)
	peek.expect(peek.d.Remaining == c.d.Remaining && peek.d.ResetAfter == c.d.ResetAfter, "a peek tells otherwise")
	if r := c.d.Remaining; r > 0 {
		all := decide(c.T, c.l, state, c.now, r)
		all.expect(!all.d.Limited && all.d.Remaining == 0, "what remained is refused")
	}
	if r := c.d.Remaining; r < c.l.Max {
		more := decide(c.T, c.l, state, c.now, r+1)
		more.expect(more.d.Limited, "more than remained is admitted")
	}
	if c.c.Set && c.quantity > 0 {
		back := decide(c.T, c.l, state, c.now, -c.quantity)
		before := decide(c.T, c.l, c.old, c.now, 0)
		back.expect(back.d.Remaining == before.d.Remaining, "a refund does not undo the charge")
	}
	at := func(wait int64, quantity int64) decided {
		return decide(c.T, c.l, state, min(c.now+uint64(wait), lastTime), quantity)
	}
	inside := func(wait int64) bool { return wait < math.MaxInt64 && c.now+uint64(wait) <= lastTime }
	if retry := int64(c.d.RetryAfter); retry > 0 {
		again := at(retry, c.quantity)
		again.expect(!again.d.Limited || !inside(retry), "refused after its retry after")
		again = at(retry-1, c.quantity)
		again.expect(again.d.Limited, "admitted before its retry after")
	}
	if reset := int64(c.d.ResetAfter); reset > 0 {
		full := at(reset, c.l.Max)
		full.expect(!full.d.Limited || !inside(reset), "not full after its reset after")
		full = at(reset-1, 0)
		full.expect(full.d.Remaining < c.l.Max, "full before its reset after")
	}
}

func TestProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 100_000 {
		l := anyLimit(r)
		now := uint64(anyInt(r)) & math.MaxInt64
		c := decide(t, l, anyState(r, l, now), now, anyQuantity(r, l))
		c.check()
		c.checkSound()
	}
}

// TestDamage changes bytes of good states, and decides on what comes of it several times.
func TestDamage(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for range 30_000 {
		l := anyLimit(r)
		now := uint64(anyInt(r)) & math.MaxInt64
		state := anyState(r, l, now)
		for range 1 + r.IntN(3) {
			if i := r.IntN(len(state.Data)); r.UintN(8) == 0 {
				state.Data = state.Data[:i+1]
			} else {
				state.Data[i] ^= 1 << r.UintN(8)
			}
		}
		several(t, l, state, now, r)
	}
}

// several makes some decisions one after the other on a state, whatever it is.
func several(t *testing.T, l limiter.Limit, state limiter.State, now uint64, r *rand.Rand) {
	for range 5 {
		c := decide(t, l, state, now, anyQuantity(r, l))
		c.check()
		state = c.after()
		now = min(now+r.Uint64N(1+uint64(l.Interval)/2), lastTime)
	}
}

func FuzzDecide(f *testing.F) {
	requests := []request{{t0 - 20, 1}, {t0 - 10, 300}, {t0 - 10, 1}, {t0 - 5, 2}}
	seed := func(limit, period, entries int64, data []byte, now uint64, quantity int64) {
		f.Add(limit-1, period-1, entries-1, t0+1000, data, now, quantity)
	}
	for _, quantity := range []int64{1, 2, 300, 301, 0, -1, -2, -303, math.MinInt64} {
		seed(305, 1000, 10, nil, t0, quantity)
		seed(305, 1000, 10, encode(requests, nil, 8), t0, quantity)
		seed(305, 1000, 4, encode(requests, []byte("junk"), 0), t0+985, quantity)
		seed(301, 15, 4, encode(requests, []byte("junk"), 100), t0, quantity)
	}
	// Sums, counts and offsets that do not fit the entries.
	for i := range footerSize {
		data := encode(requests, []byte("junk"), 8)
		data[len(data)-1-i] ^= 0x81
		seed(305, 12, 10, data, t0, -2)
	}
	f.Add(int64(math.MaxInt64-1), int64(MaxPeriod-1), int64(MaxEntries-1), uint64(math.MaxUint64),
		encode([]request{{1, 1}, {math.MaxUint64, math.MaxInt64}}, nil, 0), uint64(0), int64(1))
	seed(1, MaxPeriod, 1, bytes.Repeat([]byte{0xff}, 1000), lastTime, 1)
	seed(1, 1, 1, append(bytes.Repeat([]byte{0x80}, 1000), encode(requests, nil, 0)...), t0, -1)
	f.Fuzz(func(t *testing.T, limit, period, entries int64, expires uint64, data []byte, now uint64, quantity int64) {
		l := fold(limit, period, entries)
		now &= math.MaxInt64
		state := limiter.State{Expires: expires, Data: data}
		c := decide(t, l, state, now, quantity)
		c.check()
		r := rand.New(rand.NewPCG(expires, now))
		several(t, l, c.after(), now, r)
		// What fits together is decided as the oracle does.
		if requests, ok := decode(data); ok && sumFits(requests) {
			c.checkSound()
			w := walk{t: t, r: r, now: now}
			w.put(state)
			w.step(l, quantity)
		}
	})
}

// sumFits tells whether the oracle can count requests without an overflow.
func sumFits(requests []request) bool {
	sum := uint64(0)
	for _, q := range requests {
		sum += q.quantity
	}
	return sum <= math.MaxInt64 && requests[len(requests)-1].at <= lastTime
}

// TestNeverOverAdmits runs random traces, and checks of every pair of admitted requests in
// one window that all from the one to the other are at most the limit, and at most so many
// as a log may hold.
func TestNeverOverAdmits(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	tight, refused := 0, 0
	for range 200 {
		l := fold(r.Int64N(50), r.Int64N(1e12), 9+r.Int64N(60))
		period := uint64(l.Interval)
		admitted, limited := trace(t, r, l)
		refused += limited
		for i := range admitted {
			sum := uint64(0)
			for j := i; j < len(admitted) && admitted[j].at-admitted[i].at < period; j++ {
				sum += admitted[j].quantity
				if sum > uint64(l.Max) || int64(j-i+1) > l.Amount {
					t.Fatalf("%+v: %d units, %d requests in %d ns", l, sum, j-i+1, admitted[j].at-admitted[i].at)
				}
				if sum == uint64(l.Max) {
					tight++
				}
			}
		}
	}
	if tight < 2000 || refused < 2000 {
		t.Errorf("only %d windows used all there was, %d were refused", tight, refused)
	}
}

// trace sends requests at random, often right when an entry leaves, and returns those that
// were admitted, and how many were refused.
func trace(t *testing.T, r *rand.Rand, l limiter.Limit) (admitted []request, refused int) {
	state, now := limiter.State{}, t0
	gap := 1 + uint64(l.Interval)/(1+r.Uint64N(60))
	for range 400 {
		quantity := int64(1)
		if r.UintN(3) == 0 {
			quantity += r.Int64N(l.Max)
		}
		c := decide(t, l, state, now, quantity)
		state = c.after()
		if c.d.Limited {
			refused++
		} else {
			admitted = append(admitted, request{now, uint64(quantity)})
		}
		switch {
		case c.d.Limited && r.UintN(2) == 0:
			now += uint64(c.d.RetryAfter) - r.Uint64N(2)
		case r.UintN(3) > 0:
			now += r.Uint64N(gap)
		case r.UintN(40) == 0:
			now += uint64(c.d.ResetAfter)
		}
	}
	return admitted, refused
}
