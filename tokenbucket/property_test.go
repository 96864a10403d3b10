package tokenbucket

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/limiter/limitertest"
)

// check tests a decision against the rules that hold for all algorithms and against the rules
// of a token bucket.
func check(c limitertest.Decided) {
	c.Check()
	c.Expect(!c.Change.Set || c.Change.Expires == c.Now+uint64(c.Got.ResetAfter), "Expires is not now + ResetAfter")
	if r := c.Got.Remaining; r > 0 && c.Change.Set {
		back := c.Then(0, r).Then(0, -r)
		back.Expect(back.Got.ResetAfter == c.Got.ResetAfter, "ResetAfter differs after a charge and its refund")
	}
}

func TestProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 100_000 {
		l := anyLimit(r)
		now := uint64(limitertest.AnyInt(r)) & math.MaxInt64
		check(decide.Run(t, l, anyState(r, l, now), now, limitertest.AnyQuantity(r, l)))
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
	seed(encode(math.MaxUint64, math.MaxUint64, 0), limitertest.LastTime, -1)
	f.Add(int64(math.MaxInt64-1), int64(0), int64(0), uint64(math.MaxUint64), encode(0, math.MaxUint64, 1).Data, uint64(0), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, capacity, amount, interval int64, expires uint64, data []byte, now uint64, quantity int64) {
		l := fold(capacity, amount, interval)
		now &= math.MaxInt64
		s := limiter.State{Expires: expires, Data: data}
		check(decide.Run(t, l, s, now, quantity))
		if len(data) == dataSize {
			w := newWalk(t, rand.New(rand.NewPCG(expires, now)), now)
			w.put(s)
			w.step(l, quantity)
		}
	})
}

type event struct {
	at      uint64
	charged int64 // 0 if refused
	rest    bool  // the bucket was full before the request
}

// randomTrace makes random requests, often close to a refill.
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
		w = limitertest.After(w, c)
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

// TestNeverOverAdmits checks that the tokens charged between any two requests are at most
// capacity + amount * refills, where refills is the number of refills possible in that time.
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
					refills++ // the refill clock is running, so the first refill may be immediate
				}
				most := l.Max + l.Amount*refills
				if sum > most {
					t.Fatalf("%+v: %d tokens were charged in %d ns, more than capacity + amount * refills", l, sum, trace[j].at-trace[i].at)
				}
				if sum == most {
					tight++
				}
			}
		}
	}
	if tight < 1000 {
		t.Errorf("only %d intervals reached the bound, want at least 1000", tight)
	}
}

// TestSaturated counts the tokens admitted if a client repeats its request after each
// RetryAfter. The client must get all refilled tokens.
func TestSaturated(t *testing.T) {
	for _, tt := range []struct{ capacity, amount, interval, want int64 }{ // want: admitted in one second, including both ends
		{1, 1, 1e9, 2},
		{4, 2, 1e9, 6},
		{4, 2, 1e8, 24},
		{3, 5, 1e8, 3 + 10*3}, // tokens above the capacity are lost
		{1, 1, 1e6, 1001},
	} {
		l := fold(tt.capacity-1, tt.amount-1, tt.interval-1)
		s, now, got := limiter.State{}, t0, int64(0)
		for now <= t0+1e9 {
			c, d := Decide(&l, s, now, 1, nil)
			if c.Set {
				got, s = got+1, limitertest.After(s, c)
				continue
			}
			now += uint64(d.RetryAfter)
		}
		if got != tt.want {
			t.Errorf("%+v: %d tokens were admitted in a second, want %d", l, got, tt.want)
		}
	}
}
