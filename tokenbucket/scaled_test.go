package tokenbucket

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/limiter/limitertest"
)

var scaled = limitertest.Decide(DecideScaled)

// under returns a state of DecideScaled: the state s of Decide, charged under the refills of a limit.
func under(l limiter.Limit, s limiter.State) limiter.State {
	data := binary.LittleEndian.AppendUint64(nil, uint64(l.Interval))
	data = binary.LittleEndian.AppendUint64(data, uint64(l.Amount))
	return limiter.State{Expires: s.Expires, Data: append(data, s.Data...)}
}

// TestScaled_Changes checks the effect of changed limits on a bucket with used tokens.
func TestScaled_Changes(t *testing.T) {
	const never, m = limiter.NoRetry, time.Minute
	for _, tt := range []struct {
		name     string
		from, to limiter.Limit
		used     int64
		rows     []limitertest.Row
	}{
		{"5 to 8 gives exactly 3 more", newLimit(t, 5, 5, m), newLimit(t, 8, 8, m), 5, []limitertest.Row{
			{m / 2, 4, true, 3, m / 2, m / 2},
			{m / 2, 3, false, 0, never, m / 2},
			{m, 8, false, 0, never, m},
		}},
		{"100 to 1000 blocks no request", newLimit(t, 100, 100, m), newLimit(t, 1000, 1000, m), 100, []limitertest.Row{
			{0, 900, false, 0, never, m},
		}},
		{"8 to 5, 6 used: none until the refill", newLimit(t, 8, 8, m), newLimit(t, 5, 5, m), 6, []limitertest.Row{
			{m - 1, 1, true, 0, 1, 1},
			{m, 5, false, 0, never, m},
		}},
		{"refills before the first charge are those of the old limit", newLimit(t, 100, 10, m), newLimit(t, 100, 50, m), 100, []limitertest.Row{
			{2*m + m/2, 21, true, 20, m / 2, 7*m + m/2},
			{2*m + m/2, 20, false, 0, never, m + m/2},
			{3 * m, 50, false, 0, never, 2 * m},
		}},
		{"a refused client waits as under the faster refills", newLimit(t, 2, 2, time.Hour), newLimit(t, 2, 2, m), 2, []limitertest.Row{
			{m / 2, 0, false, 0, never, time.Hour - m/2},
			{m / 2, 1, true, 0, m, m},
			{m / 2, 0, false, 0, never, m},
			{m, 1, true, 0, m / 2, m / 2},
			{3 * m / 2, 2, false, 0, never, m},
		}},
		{"a refused client waits no longer for all tokens", newLimit(t, 100, 100, 2*m), newLimit(t, 100, 1, m), 100, []limitertest.Row{
			{0, 1, true, 0, 2 * m, 2 * m},
			{m, 1, true, 0, m, m},
			{2 * m, 100, false, 0, never, 100 * m},
		}},
		{"a longer interval starts with the charge", newLimit(t, 10, 1, m), newLimit(t, 10, 1, 10*m), 5, []limitertest.Row{
			{90 * time.Second, 6, false, 0, never, 100 * m},
			{90*time.Second + 10*m - 1, 1, true, 0, 1, 90*m + 1},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			charged := scaled.Run(t, tt.from, limiter.State{}, t0, tt.used)
			scaled.Play(t, tt.to, charged.After(), t0, tt.rows, func(_ int, c limitertest.Decided) { c.Converted().Check() })
		})
	}
}

// checkScaled tests a decision against the rules that hold for all algorithms, and compares it with that of Decide: on
// the same state if the refills are unchanged, and else on the used tokens as of now.
func checkScaled(t *testing.T, l, from limiter.Limit, s limiter.State, now uint64, quantity int64) {
	c := scaled.Run(t, l, under(from, s), now, quantity)
	c.Converted().Check()
	same := from.Interval == l.Interval && from.Amount == l.Amount
	c.Expect(!same || !c.Change.Set || c.Change.Keep == min(rateSize, len(c.Old.Data)), "the refills are written again")
	if !same {
		s = limiter.State{}
		if b := open(&from, limiter.State{Expires: c.Old.Expires, Data: c.Old.Data[rateSize:]}, now); b.used > 0 {
			s = encode(math.MaxUint64, b.used, b.anchor)
			if from.Interval != l.Interval {
				s = encode(math.MaxUint64, b.used, now)
			}
		}
	}
	want := decide.Run(t, l, s, now, quantity)
	if c.Got.Limited && c.Change.Set {
		c.Expect(!same && quantity > 0 && c.Got == want.Got, "Decide has other times", want)
		c.Expect(string(c.After().Data) == string(under(l, s).Data), "a refused request changes the used tokens", s)
		b := open(&from, limiter.State{Expires: c.Old.Expires, Data: c.Old.Data[rateSize:]}, now)
		c.Expect(c.Got.RetryAfter < b.until(&from, uint64(l.Max-quantity), now) && c.Got.ResetAfter <= b.until(&from, 0, now), "a refused request prolongs the wait")
		return
	}
	c.Expect(c.Got.Limited == want.Got.Limited && c.Got.Remaining == want.Got.Remaining, "Decide has another result", want)
	if same || c.Change.Set {
		c.Expect(c.Got == want.Got && c.Change.Set == want.Change.Set, "Decide has other times", want)
	}
	if c.Change.Set && want.Change.Set {
		after := under(l, want.After())
		c.Expect(string(c.After().Data) == string(after.Data) && c.After().Expires == after.Expires, "Decide makes another change", want)
	}
}

func TestScaled_Properties(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 16))
	for range limitertest.Steps(100_000) {
		l, from := anyLimit(r), anyLimit(r)
		switch r.UintN(3) {
		case 0:
			from = l
		case 1:
			from = l
			from.Amount = 1 + r.Int64N(l.Max)
		}
		now := uint64(limitertest.AnyInt(r)) & math.MaxInt64
		checkScaled(t, l, from, anyState(r, from, now), now, limitertest.AnyQuantity(r, l))
	}
}

// TestScaled_UsedTokensStayUsed makes random requests under limits that change, and compares the tokens with a count: at
// a refill that is due under the limit of the last charge, its amount is subtracted. Nothing else restores tokens.
func TestScaled_UsedTokensStayUsed(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 16))
	for range 300 {
		limits := []limiter.Limit{newLimit(t, 100, 1+r.Int64N(9), time.Minute), newLimit(t, 10, 10, time.Minute), newLimit(t, 50, 5, time.Second)}
		l, by := limits[0], limits[0]
		var s limiter.State
		var used int64
		var refill uint64 // time of the next refill, if tokens are used
		now := t0
		for range 200 {
			if r.UintN(8) == 0 {
				l = limits[r.IntN(len(limits))]
			}
			now += r.Uint64N(uint64(by.Interval))
			for ; used > 0 && refill <= now; refill += uint64(by.Interval) {
				used = max(0, used-by.Amount)
			}
			quantity := []int64{1, 1 + r.Int64N(l.Max), 0, -1}[r.UintN(4)]
			c := scaled.Run(t, l, s, now, quantity)
			c.Expect(c.Got.Limited == (quantity >= 0 && used+quantity > l.Max), "used tokens do not stay used", used)
			if s = c.After(); c.Change.Set {
				if used == 0 || by.Interval != l.Interval {
					refill = now + uint64(l.Interval)
				}
				if c.Got.Limited {
					quantity = 0 // the state is converted, and nothing is charged
				}
				used, by = max(0, used+quantity), l
			}
			c.Expect(c.Got.Remaining == max(0, l.Max-used), "other tokens remain", used)
		}
	}
}

// TestScaled_Malformed checks that malformed states equal absent ones.
func TestScaled_Malformed(t *testing.T) {
	l := newLimit(t, 5, 5, time.Minute)
	good := under(l, encode(t0+30e9, 5, t0))
	for _, data := range [][]byte{nil, good.Data[:31], append(good.Data[:32:32], 0), make([]byte, 32),
		under(limiter.Limit{Interval: -1, Amount: 1}, encode(0, 5, t0)).Data, under(limiter.Limit{Interval: 1, Amount: -1}, encode(0, 5, t0)).Data} {
		for _, quantity := range []int64{0, 1, 5, 6, -1} {
			c := scaled.Run(t, l, limiter.State{Expires: good.Expires, Data: data}, t0, quantity)
			want := scaled.Run(t, l, limiter.State{}, t0, quantity)
			c.Expect(c.Got == want.Got && c.Change.Set == want.Change.Set, "a malformed state is used", want.Got)
		}
	}
}

// TestScaled_NoMax checks that a limit whose Max was lowered to 0 refuses each charge.
func TestScaled_NoMax(t *testing.T) {
	l := newLimit(t, 5, 5, time.Minute)
	l.Max = 0
	faster := newLimit(t, 5, 5, time.Second)
	for _, s := range []limiter.State{{}, under(l, encode(t0+30e9, 3, t0)), under(faster, encode(t0+30e9, 3, t0))} {
		for _, quantity := range []int64{1, 5, math.MaxInt64} {
			c := scaled.Run(t, l, s, t0, quantity)
			c.Expect(c.Got.Limited && c.Got.Remaining == 0 && !c.Change.Set, "a limit of 0 admits")
		}
		peek := scaled.Run(t, l, s, t0, 0)
		peek.Expect(peek.Got.Remaining == 0 && peek.Got.Limited == (s.Expires > 0), "a peek on a limit of 0 has another result")
	}
}

func FuzzDecideScaled(f *testing.F) {
	seed := func(amount, interval int64, s limiter.State, quantity int64) {
		f.Add(int64(3), int64(1), int64(1e9-1), amount, interval, s.Expires, s.Data, t0+2e9, quantity)
	}
	for _, quantity := range []int64{1, 3, 4, 5, 0, -1, math.MinInt64} {
		seed(2, 1e9, encode(t0+9e9, 4, t0), quantity)
		seed(1, 1e9, encode(t0+9e9, 4, t0), quantity)
		seed(2, 5e9, encode(t0+9e9, 4, t0), quantity)
		seed(0, 1, encode(t0+9e9, 4, t0), quantity)
	}
	seed(math.MaxInt64, 1, encode(math.MaxUint64, math.MaxUint64, math.MaxUint64), 1)
	seed(1, math.MaxInt64, encode(math.MaxUint64, math.MaxUint64, 0), -1)
	seed(1, 1, limiter.State{Expires: math.MaxUint64, Data: make([]byte, 15)}, 1)
	f.Fuzz(func(t *testing.T, capacity, amount, interval, oldAmount, oldInterval int64, expires uint64, data []byte, now uint64, quantity int64) {
		l := fold(capacity, amount, interval)
		from := limiter.Limit{Interval: time.Duration(oldInterval), Amount: oldAmount}
		s := limiter.State{Expires: expires, Data: data}
		if rate := under(from, s); rateOf(&rate).Interval == 0 {
			scaled.Run(t, l, rate, now&math.MaxInt64, quantity).Check()
			return
		}
		checkScaled(t, l, from, s, now&math.MaxInt64, quantity)
	})
}

func TestScaled_AllocatesNothing(t *testing.T) {
	room := make([]byte, 0, 32)
	l := newLimit(t, 100, 7, time.Second)
	for _, from := range []limiter.Limit{l, newLimit(t, 100, 8, time.Second), newLimit(t, 100, 7, time.Minute)} {
		for _, quantity := range []int64{1, 0, -1, 100, 200} {
			s := under(from, encode(t0+90e9, 9, t0))
			limitertest.NoAllocs(t, "DecideScaled", func() { DecideScaled(&l, s, t0, quantity, room) })
			limitertest.NoAllocs(t, "DecideScaled on an absent state", func() { DecideScaled(&l, limiter.State{}, t0, quantity, room) })
		}
	}
}

func BenchmarkDecideScaled(b *testing.B) {
	room := make([]byte, 0, 32)
	l := limiter.Limit{Max: 100, Amount: 7, Interval: time.Second}
	for name, from := range map[string]limiter.Limit{"same": l, "changed": {Max: 100, Amount: 8, Interval: time.Second}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			s := under(from, encode(t0+90e9, 9, t0))
			for b.Loop() {
				DecideScaled(&l, s, t0, 3, room)
			}
		})
	}
}
