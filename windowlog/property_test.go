package windowlog

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/limiter/limitertest"
)

// check checks the invariants of a decision on a well-formed state.
func check(c limitertest.Decided) {
	c.Check()
	checkAnswer(c)
}

// checkAnswer checks the invariants of a decision on any state, including a damaged one. Damage may
// remain undetected until a later decision, which then clears the log.
func checkAnswer(c limitertest.Decided) {
	c.CheckAnswer()
	c.Expect(c.Got.RetryAfter <= c.Got.ResetAfter, "RetryAfter exceeds ResetAfter")
	c.Expect(!c.Change.Set || c.Change.Expires == c.Now+uint64(c.Got.ResetAfter), "Expires is not now + ResetAfter")
}

func TestProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 100_000 {
		l := anyLimit(r)
		now := uint64(limitertest.AnyInt(r)) & math.MaxInt64
		check(decide.Run(t, l, anyState(r, l, now), now, anyQuantity(r, l)))
	}
}

// TestDamage modifies bytes of well-formed states, and makes several decisions on the result.
func TestDamage(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for range 30_000 {
		l := anyLimit(r)
		now := uint64(limitertest.AnyInt(r)) & math.MaxInt64
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

// several makes a sequence of decisions, starting with any state.
func several(t *testing.T, l limiter.Limit, state limiter.State, now uint64, r *rand.Rand) {
	for range 5 {
		c := decide.Run(t, l, state, now, anyQuantity(r, l))
		checkAnswer(c)
		state = c.After()
		now = min(now+r.Uint64N(1+uint64(l.Interval)/2), limitertest.LastTime)
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
	// Sums, counts and offsets that do not match the entries.
	for i := range footerSize {
		data := encode(requests, []byte("junk"), 8)
		data[len(data)-1-i] ^= 0x81
		seed(305, 12, 10, data, t0, -2)
	}
	f.Add(int64(math.MaxInt64-1), int64(MaxPeriod-1), int64(MaxEntries-1), uint64(math.MaxUint64),
		encode([]request{{1, 1}, {math.MaxUint64, math.MaxInt64}}, nil, 0), uint64(0), int64(1))
	seed(1, MaxPeriod, 1, bytes.Repeat([]byte{0xff}, 1000), limitertest.LastTime, 1)
	seed(1, 1, 1, append(bytes.Repeat([]byte{0x80}, 1000), encode(requests, nil, 0)...), t0, -1)
	f.Fuzz(func(t *testing.T, limit, period, entries int64, expires uint64, data []byte, now uint64, quantity int64) {
		l := fold(limit, period, entries)
		now &= math.MaxInt64
		state := limiter.State{Expires: expires, Data: data}
		c := decide.Run(t, l, state, now, quantity)
		checkAnswer(c)
		r := rand.New(rand.NewPCG(expires, now))
		several(t, l, c.After(), now, r)
		// On a consistent state, the decision equals the decision of the oracle.
		if requests, ok := decode(data); ok && sumFits(requests) {
			check(c)
			w := walk{t: t, r: r, now: now}
			w.put(state)
			w.step(l, quantity)
		}
	})
}

// sumFits reports whether the oracle can compute with the requests: their sum fits in an int64, and no
// request is after the end of the clock.
func sumFits(requests []request) bool {
	sum := uint64(0)
	for _, q := range requests {
		sum += q.quantity
	}
	return sum <= math.MaxInt64 && requests[len(requests)-1].at <= limitertest.LastTime
}

// TestNeverOverAdmits runs random traces. For each pair of admitted requests within one window,
// it checks that the requests from the first to the second exceed neither the limit nor the
// maximum number of entries.
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
					t.Fatalf("%+v: %d units in %d requests are admitted within %d ns, which exceeds the limit or the number of entries", l, sum, j-i+1, admitted[j].at-admitted[i].at)
				}
				if sum == uint64(l.Max) {
					tight++
				}
			}
		}
	}
	if tight < 2000 || refused < 2000 {
		t.Errorf("%d windows used the whole limit, %d requests were refused; want at least 2000 of each", tight, refused)
	}
}

// trace sends random requests, often at the expiry of an entry. It returns the admitted requests
// and the number of refused requests.
func trace(t *testing.T, r *rand.Rand, l limiter.Limit) (admitted []request, refused int) {
	state, now := limiter.State{}, t0
	gap := 1 + uint64(l.Interval)/(1+r.Uint64N(60))
	for range 400 {
		quantity := int64(1)
		if r.UintN(3) == 0 {
			quantity += r.Int64N(l.Max)
		}
		c := decide.Run(t, l, state, now, quantity)
		state = c.After()
		if c.Got.Limited {
			refused++
		} else {
			admitted = append(admitted, request{now, uint64(quantity)})
		}
		switch {
		case c.Got.Limited && r.UintN(2) == 0:
			now += uint64(c.Got.RetryAfter) - r.Uint64N(2)
		case r.UintN(3) > 0:
			now += r.Uint64N(gap)
		case r.UintN(40) == 0:
			now += uint64(c.Got.ResetAfter)
		}
	}
	return admitted, refused
}
