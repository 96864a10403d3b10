package tokenbucket

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
	c, d := Decide(&l, old, now, quantity, bytes.Repeat([]byte{0xaa}, 64))
	got := decided{t, l, old, now, quantity, c, d}
	got.expect(bytes.Equal(data, old.Data), "the old state was written to")
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
	c.expect(d.Limited || c.quantity <= c.l.Max, "more than the capacity was admitted")
	c.expect(!d.Limited || c.quantity >= 0, "a refund was refused")
	c.expect((d.ResetAfter == 0) == (d.Remaining == d.Limit), "full, but not reset")
	c.expect(!c.c.Set || !d.Limited && c.quantity != 0, "refused or peeked, but changed")
	c.expect(!c.c.Set || c.c.Expires == c.now+uint64(d.ResetAfter), "expires at another time")
	c.expect(c.c.Set || d.Limited || c.quantity <= 0, "charged, but not changed")
	peek := decide(c.T, c.l, c.after(), c.now, 0)
	peek.expect(peek.d.Remaining == d.Remaining && peek.d.ResetAfter == d.ResetAfter, "a peek tells otherwise")
	c.remaining()
	c.waits()
}

// remaining checks that what is said to remain is there, and no more, and that what is
// charged can be given back.
func (c decided) remaining() {
	r, s := c.d.Remaining, c.after()
	if r > 0 {
		all := decide(c.T, c.l, s, c.now, r)
		all.expect(!all.d.Limited && all.d.Remaining == 0, "what remained is refused")
		back := decide(c.T, c.l, all.after(), c.now, -r)
		back.expect(back.d.Remaining == r, "a refund does not undo the charge")
		back.expect(!c.c.Set || back.d.ResetAfter == c.d.ResetAfter, "a refund does not stop the wait for the charge")
	}
	if r < c.l.Max {
		more := decide(c.T, c.l, s, c.now, r+1)
		more.expect(more.d.Limited, "more than remained is admitted")
	}
}

// waits checks the two durations against what happens after them and 1 ns before, within
// the clock. The longest duration may stand for a longer one.
func (c decided) waits() {
	s := c.after()
	if retry := c.d.RetryAfter; retry != limiter.NoRetry {
		if at := c.now + uint64(retry); at <= lastTime && retry < math.MaxInt64 {
			again := decide(c.T, c.l, s, at, c.quantity)
			again.expect(!again.d.Limited, "refused after its retry after")
		}
		again := decide(c.T, c.l, s, min(c.now+uint64(retry)-1, lastTime), c.quantity)
		again.expect(again.d.Limited, "admitted before its retry after")
	}
	if reset := c.d.ResetAfter; reset > 0 {
		if at := c.now + uint64(reset); at <= lastTime && reset < math.MaxInt64 {
			full := decide(c.T, c.l, s, at, c.l.Max)
			full.expect(!full.d.Limited, "not full after its reset after")
		}
		full := decide(c.T, c.l, s, min(c.now+uint64(reset)-1, lastTime), 0)
		full.expect(full.d.Remaining < c.l.Max, "full before its reset after")
	}
}

func TestProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 100_000 {
		l := anyLimit(r)
		now := uint64(anyInt(r)) & math.MaxInt64
		decide(t, l, anyState(r, l, now), now, anyQuantity(r, l)).check()
	}
}

func FuzzDecide(f *testing.F) {
	seed := func(s limiter.State, now uint64, quantity int64) {
		f.Add(int64(3), int64(1), int64(1e9-1), s.Expires, s.Data, now, quantity)
	}
	for _, quantity := range []int64{1, 3, 4, 5, 0, -1, math.MinInt64} {
		seed(limiter.State{}, t0, quantity)
		seed(encode(t0+2e9, 4, t0), t0+4e8, quantity)
		seed(encode(t0+2e9, 4, t0), t0+1e9, quantity)
	}
	seed(limiter.State{Expires: math.MaxUint64, Data: make([]byte, 15)}, t0, 1)
	seed(encode(math.MaxUint64, math.MaxUint64, math.MaxUint64), t0, 1)
	seed(encode(math.MaxUint64, math.MaxUint64, 0), lastTime, -1)
	f.Add(int64(math.MaxInt64-1), int64(0), int64(0), uint64(math.MaxUint64), encode(0, math.MaxUint64, 1).Data, uint64(0), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, capacity, amount, interval int64, expires uint64, data []byte, now uint64, quantity int64) {
		l := fold(capacity, amount, interval)
		now &= math.MaxInt64
		s := limiter.State{Expires: expires, Data: data}
		decide(t, l, s, now, quantity).check()
		if len(data) == dataSize {
			w := newWalk(t, rand.New(rand.NewPCG(expires, now)), now)
			w.put(s)
			w.step(l, quantity)
		}
	})
}

type event struct {
	at      uint64
	charged int64 // 0: refused
	rest    bool  // the bucket was full
}

// randomTrace makes requests at random, often right around a refill.
func randomTrace(r *rand.Rand, l limiter.Limit) []event {
	var trace []event
	w := limiter.State{}
	now := uint64(1e18)
	for range 300 {
		quantity := 1 + r.Int64N(l.Max)
		if r.UintN(2) == 0 {
			quantity = 1
		}
		_, before := Decide(&l, w, now, 0, nil)
		c, d := Decide(&l, w, now, quantity, nil)
		if c.Set {
			w = apply(w, c)
		}
		if d.Limited {
			quantity = 0
		}
		trace = append(trace, event{now, quantity, before.ResetAfter == 0})
		switch {
		case d.Limited && r.UintN(2) == 0:
			now += uint64(d.RetryAfter) - r.Uint64N(2)
		case r.UintN(3) == 0:
			now += r.Uint64N(uint64(2*l.Interval) + 1)
		case r.UintN(20) == 0:
			now += uint64(d.ResetAfter)
		}
	}
	return trace
}

// TestNeverOverAdmits checks over the stretch between any two requests that what was
// charged is at most capacity + amount * the refills that can come in between.
func TestNeverOverAdmits(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	tight := 0
	for range 150 {
		l := fold(r.Int64N(50), r.Int64N(20), r.Int64N(1e12))
		trace := randomTrace(r, l)
		for i := range trace {
			sum := int64(0)
			for j := i; j < len(trace); j++ {
				sum += trace[j].charged
				refills := int64((trace[j].at - trace[i].at) / uint64(l.Interval))
				if !trace[i].rest {
					refills++ // the clock runs already, so one may come at once
				}
				most := l.Max + l.Amount*refills
				if sum > most {
					t.Fatalf("%+v: %d charged in %d ns", l, sum, trace[j].at-trace[i].at)
				}
				if sum == most {
					tight++
				}
			}
		}
	}
	if tight < 1000 {
		t.Errorf("only %d stretches used all there was", tight)
	}
}

// TestSaturated counts what a client gets that asks again at every retry after: all that
// was refilled.
func TestSaturated(t *testing.T) {
	for _, tt := range []struct{ capacity, amount, interval, want int64 }{ // want: in one second, both ends included
		{1, 1, 1e9, 2},
		{4, 2, 1e9, 6},
		{4, 2, 1e8, 24},
		{3, 5, 1e8, 3 + 10*3}, // what does not fit is lost
		{1, 1, 1e6, 1001},
	} {
		l := fold(tt.capacity-1, tt.amount-1, tt.interval-1)
		s, now, got := limiter.State{}, t0, int64(0)
		for now <= t0+1e9 {
			c, d := Decide(&l, s, now, 1, nil)
			if c.Set {
				got, s = got+1, apply(s, c)
				continue
			}
			now += uint64(d.RetryAfter)
		}
		if got != tt.want {
			t.Errorf("%+v: %d admitted in a second, want %d", l, got, tt.want)
		}
	}
}
