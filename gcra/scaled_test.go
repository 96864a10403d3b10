package gcra

import (
	"encoding/binary"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/limiter/limitertest"
)

var scaled = limitertest.Decide(DecideScaled)

// under returns a state that was charged under an emission interval.
func under(interval time.Duration, tat uint64) limiter.State {
	return limiter.State{Expires: tat, Data: binary.LittleEndian.AppendUint64(nil, uint64(interval))}
}

// perMinute returns a limit of count units a minute.
func perMinute(t testing.TB, count int64) limiter.Limit {
	t.Helper()
	l, err := NewLimit(count-1, count, limiter.Seconds(60))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestScaled_Changes checks the effect of changed limits on a key with used units.
func TestScaled_Changes(t *testing.T) {
	const never, s = limiter.NoRetry, time.Second
	for _, tt := range []struct {
		name     string
		from, to int64
		used     int64
		rows     []limitertest.Row
	}{
		{"5 to 8 gives exactly 3 more", 5, 8, 5, []limitertest.Row{
			{0, 0, false, 3, never, 60 * s},
			{0, 4, true, 3, 15 * s / 2, 75 * s / 2},
			{0, 3, false, 0, never, 60 * s},
			{0, 1, true, 0, 15 * s / 2, 60 * s},
		}},
		{"100 to 1000 blocks no request", 100, 1000, 100, []limitertest.Row{
			{0, 900, false, 0, never, 60 * s},
		}},
		{"8 to 5, 6 used: none until 2 are restored", 8, 5, 6, []limitertest.Row{
			{0, 1, true, 0, 15 * s, 45 * s},
			{15*s - 1, 1, true, 0, 1, 30*s + 1},
			{15 * s, 1, false, 0, never, 60 * s},
		}},
		{"a refused client waits as under the higher rate", 6, 600, 6, []limitertest.Row{
			{0, 0, false, 594, never, 60 * s},
			{0, 595, true, 594, s / 10, 6 * s / 10},
			{0, 0, false, 594, never, 6 * s / 10},
			{s / 10, 595, false, 0, never, 60 * s},
		}},
		{"refusals do not prolong", 1000, 10, 1000, []limitertest.Row{
			{0, 1, true, 0, 59460 * time.Millisecond, 60 * s},
			{30 * s, 1, true, 0, 29460 * time.Millisecond, 30 * s},
			{59 * s, 0, true, 0, 400 * time.Millisecond, s},
			{59460 * time.Millisecond, 1, false, 0, never, 60 * s},
		}},
		{"a refund under the new limit", 8, 5, 6, []limitertest.Row{
			{0, -2, false, 1, never, 48 * s},
			{0, 1, false, 0, never, 60 * s},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			charged := scaled.Run(t, perMinute(t, tt.from), limiter.State{}, t0, tt.used)
			scaled.Play(t, perMinute(t, tt.to), charged.After(), t0, tt.rows, func(_ int, c limitertest.Decided) { c.Converted().Check() })
		})
	}
}

// TestScaled_Unchanged checks that decisions under an unchanged interval are those of Decide, and that a change keeps
// the whole Data.
func TestScaled_Unchanged(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 14))
	for range 100_000 {
		l, now := anyLimit(r), uint64(limitertest.AnyInt(r))&math.MaxInt64
		tat := now + 1 + r.Uint64N(uint64(l.Interval)*uint64(l.Max))
		quantity := limitertest.AnyQuantity(r, l)
		c := scaled.Run(t, l, under(l.Interval, tat), now, quantity)
		want := common.Run(t, l, limiter.State{Expires: tat}, now, quantity)
		c.Expect(c.Got == want.Got && c.After().Expires == want.After().Expires, "Decide has another result", want)
		c.Expect(!c.Change.Set || c.Change.Keep == scaledSize && len(c.Change.Tail) == 0, "the interval is written again")
		c.Expect(HasInterval(&c.Old, l.Interval), "HasInterval returns false")
	}
}

// TestScaled_Malformed checks that malformed states equal absent ones.
func TestScaled_Malformed(t *testing.T) {
	l := perMinute(t, 5)
	for _, data := range []string{"", "1234567", "123456789", "\x00\x00\x00\x00\x00\x00\x00\x00", "\xff\xff\xff\xff\xff\xff\xff\xff"} {
		for _, quantity := range []int64{0, 1, 5, 6, -1} {
			c := scaled.Run(t, l, limiter.State{Expires: t0 + 50e9, Data: []byte(data)}, t0, quantity)
			want := scaled.Run(t, l, limiter.State{}, t0, quantity)
			c.Expect(c.Got == want.Got && c.Change.Set == want.Change.Set, "a malformed state is used", want.Got)
		}
	}
}

// checkScaled tests a decision against the rules that hold for all algorithms, and the used units against big integers.
func checkScaled(t *testing.T, l limiter.Limit, old limiter.State, now uint64, quantity int64) {
	c := scaled.Run(t, l, old, now, quantity)
	tat, stored := Rescale(&old, l.Interval, now)
	if c.Got.Limited && c.Change.Set {
		c.Expect(l.Interval < stored && quantity > 0, "a refused request converts the state to a longer interval")
		c.Expect(c.After().Expires == tat && HasInterval(&limiter.State{Data: c.After().Data}, l.Interval), "a refused request changes the used units")
		c = c.Converted()
		old, stored = c.Old, l.Interval
	}
	if max(tat, old.Expires, now)-now >= math.MaxInt64 || max(c.After().Expires, now)-now >= math.MaxInt64 {
		c.CheckNow() // times are capped, so rules about later times do not hold
	} else {
		c.Check()
	}
	if stored == 0 || stored == l.Interval {
		c.Expect(tat == 0 || tat == old.Expires && stored > 0, "the TAT is not the one in the state")
		return
	}
	used := new(big.Int).SetUint64(min(old.Expires-now, math.MaxInt64))
	used.Mul(used, big.NewInt(int64(l.Interval)))
	used.Add(used, big.NewInt(int64(stored)-1)).Div(used, big.NewInt(int64(stored)))
	if !used.IsInt64() {
		used.SetInt64(math.MaxInt64)
	}
	c.Expect(tat == now+used.Uint64(), "the TAT is not converted exactly", used)
}

// anyScaled draws a state that was charged under any limit, often one that is near l.
func anyScaled(r *rand.Rand, l limiter.Limit, now uint64) limiter.State {
	from := anyLimit(r)
	if r.UintN(2) == 0 {
		from = fold(l.Max-1+r.Int64N(5)-2, int64(l.Interval)/(1+r.Int64N(4))*(1+r.Int64N(4)))
	}
	if r.UintN(8) == 0 {
		return under(from.Interval, uint64(limitertest.AnyInt(r)))
	}
	return under(from.Interval, now+r.Uint64N(uint64(from.Interval)*uint64(from.Max)+1))
}

func TestScaled_Properties(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 14))
	for range limitertest.Steps(200_000) {
		l := anyLimit(r)
		now := uint64(limitertest.AnyInt(r)) & math.MaxInt64
		checkScaled(t, l, anyScaled(r, l, now), now, limitertest.AnyQuantity(r, l))
	}
}

func FuzzDecideScaled(f *testing.F) {
	const s = int64(time.Second)
	for _, quantity := range []int64{1, 2, 3, 4, 0, -1, 8, 9, math.MinInt64} {
		f.Add(int64(7), 15*s/2-1, 12*s, t0+60e9, t0, quantity)
		f.Add(int64(4), 12*s-1, 15*s/2, t0+45e9, t0, quantity)
		f.Add(int64(4), 12*s-1, int64(1), t0+45e9, t0, quantity)
	}
	f.Add(int64(0), int64(math.MaxInt64-1), int64(1), uint64(math.MaxUint64), uint64(math.MaxInt64), int64(1))
	f.Add(int64(math.MaxInt64-1), int64(0), int64(math.MaxInt64), uint64(math.MaxInt64), uint64(0), int64(math.MaxInt64))
	f.Add(int64(1), int64(1), int64(-1), uint64(5), uint64(1), int64(1))
	f.Fuzz(func(t *testing.T, limit, interval, stored int64, expires, now uint64, quantity int64) {
		checkScaled(t, fold(limit, interval), under(time.Duration(stored), expires), now&math.MaxInt64, quantity)
	})
}

// ledger is an oracle for used units: it restores them at the rate of the last change of the state, with rational numbers
// and without any rounding.
type ledger struct {
	used     *big.Rat
	interval time.Duration
	at       uint64
}

// now returns the used units at a time.
func (g *ledger) now(t uint64) *big.Rat {
	used := new(big.Rat).SetFrac(new(big.Int).SetUint64(t-g.at), big.NewInt(int64(max(g.interval, 1))))
	if used.Sub(g.used, used); used.Sign() < 0 {
		used.SetInt64(0)
	}
	return used
}

// TestScaled_UsedUnitsStayUsed makes random requests on one key under limits that change, and compares the decisions
// with a ledger of used units. It checks this guarantee: a request is admitted only if the used units of the ledger and
// its quantity are at most Max. A request is refused only if this sum, and one nanosecond of the longest interval so
// far for each change of the interval, is more than Max.
func TestScaled_UsedUnitsStayUsed(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 14))
	for range 300 {
		s, now := limiter.State{}, t0
		g := ledger{used: new(big.Rat)}
		rounding := new(big.Rat) // units
		limits := []limiter.Limit{perMinute(t, 1+r.Int64N(100)), perMinute(t, 1+r.Int64N(10)), perMinute(t, 1+r.Int64N(1000))}
		l := limits[0]
		for range 200 {
			if r.UintN(10) == 0 {
				l = limits[r.IntN(len(limits))]
			}
			now += []uint64{0, r.Uint64N(uint64(l.Interval)), r.Uint64N(10e9)}[r.UintN(3)]
			quantity := []int64{1, 1, 1 + r.Int64N(l.Max), -1}[r.UintN(4)]
			c := scaled.Run(t, l, s, now, quantity)
			used := g.now(now)
			if used.Sign() == 0 {
				rounding.SetInt64(0)
			}
			sum := new(big.Rat).Add(used, new(big.Rat).SetInt64(max(quantity, 0)))
			limit := new(big.Rat).SetInt64(l.Max)
			c.Expect(c.Got.Limited || quantity < 0 || sum.Cmp(limit) <= 0, "more than the limit is admitted", sum)
			c.Expect(!c.Got.Limited || sum.Add(sum, rounding).Add(sum, big.NewRat(1, int64(l.Interval))).Cmp(limit) > 0, "refused although enough remains", sum)
			if s = c.After(); c.Change.Set {
				if g.interval != l.Interval {
					rounding.Add(rounding, big.NewRat(1, int64(l.Interval)))
				}
				if c.Got.Limited {
					quantity = 0 // the state is converted, and nothing is charged
				}
				if used.Add(used, new(big.Rat).SetInt64(quantity)); used.Sign() < 0 {
					used.SetInt64(0)
				}
				g = ledger{used: used, interval: l.Interval, at: now}
			}
		}
	}
}

// TestScaled_TwoLimits checks that requests under a low limit, which share a key with requests under a high limit, do
// not restore units: both together never admit more than the high limit, at its rate.
func TestScaled_TwoLimits(t *testing.T) {
	low, high := perMinute(t, 10), perMinute(t, 1000)
	s, now, admitted := limiter.State{}, t0, int64(0)
	for i := range 100_000 {
		for _, l := range []limiter.Limit{low, high} {
			c := scaled.Run(t, l, s, now, 1)
			if s = c.After(); !c.Got.Limited {
				admitted++
			}
		}
		now += 1e6
		if most := high.Max + int64(i)*1e6/int64(high.Interval) + 1; admitted > most {
			t.Fatalf("%d units are admitted in %d ms, want at most %d", admitted, i, most)
		}
	}
}

// TestScaled_NoMax checks that a limit whose Max was lowered to 0 refuses each charge, and charges nothing.
func TestScaled_NoMax(t *testing.T) {
	l := perMinute(t, 5)
	l.Max = 0
	for _, s := range []limiter.State{{}, under(l.Interval, t0+1e9), under(time.Second, t0+1e9)} { // a second is less than the interval of l
		for _, quantity := range []int64{1, 5, math.MaxInt64} {
			c := scaled.Run(t, l, s, t0, quantity)
			c.Expect(c.Got.Limited && c.Got.Remaining == 0 && c.Got.RetryAfter == limiter.NoRetry && !c.Change.Set, "a limit of 0 admits")
		}
		peek := scaled.Run(t, l, s, t0, 0)
		peek.Expect(peek.Got.Remaining == 0 && peek.Got.Limited == (s.Expires > 0), "a peek on a limit of 0 has another result")
	}
}

func TestScaled_AllocatesNothing(t *testing.T) {
	room := make([]byte, 0, scaledSize)
	l := branchLimit
	for _, interval := range []time.Duration{l.Interval, 3 * l.Interval} {
		for _, br := range branches {
			s := under(interval, br.tat)
			limitertest.NoAllocs(t, br.name, func() { _, out = DecideScaled(&l, s, t0, br.quantity, room) })
		}
	}
}

func BenchmarkDecideScaled(b *testing.B) {
	room := make([]byte, 0, scaledSize)
	for _, bm := range []struct {
		name     string
		interval time.Duration
	}{{"same", branchLimit.Interval}, {"changed", 3 * branchLimit.Interval}} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			s := under(bm.interval, t0+7e9)
			for b.Loop() {
				_, out = DecideScaled(&branchLimit, s, t0, 3, room)
			}
		})
	}
}
