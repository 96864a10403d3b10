package gcra

import (
	"math"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/limiter/limitertest"
)

// t0 is the start time of the tests. Any time below 1<<63 is suitable.
const t0 uint64 = 1_700_000_000_000_000_000

// TestWorkedExample tests the example of the package comment.
func TestWorkedExample(t *testing.T) {
	l, err := NewLimit(4, 1, limiter.Seconds(1))
	if err != nil {
		t.Fatal(err)
	}
	const no = limiter.NoRetry
	ms := func(n uint64) uint64 { return n * 1e6 }
	tat := uint64(0)
	for i, tt := range []struct {
		at       uint64 // ms since t0
		quantity int64
		limited  bool
		left     int64
		retry    time.Duration
		reset    time.Duration
		tat      uint64 // ms since t0
	}{
		{0, 1, false, 4, no, 1000 * time.Millisecond, 1000},
		{0, 4, false, 0, no, 5000 * time.Millisecond, 5000},
		{0, 1, true, 0, 1000 * time.Millisecond, 5000 * time.Millisecond, 5000},
		{3100, 1, false, 2, no, 2900 * time.Millisecond, 6000},
		{3100, 5, true, 2, 2900 * time.Millisecond, 2900 * time.Millisecond, 6000},
		{3100, -1, false, 3, no, 1900 * time.Millisecond, 5000},
		{5000, 6, true, 5, no, 0, 5000},
	} {
		want := limiter.Decision{Limited: tt.limited, Limit: 5, Remaining: tt.left, RetryAfter: tt.retry, ResetAfter: tt.reset}
		newTAT, d := Decide(l, tat, t0+ms(tt.at), tt.quantity)
		if d != want || newTAT != t0+ms(tt.tat) {
			t.Errorf("row %d: got the TAT t0+%d ns, %+v; want the TAT t0+%d ns, %+v", i, newTAT-t0, d, ms(tt.tat), want)
		}
		tat = newTAT
	}
}

// TestNewTAT tests the state after one decision at t0.
func TestNewTAT(t *testing.T) {
	const rest = uint64(0)
	for _, tt := range []struct {
		name                    string
		maxBurst, count, period int64
		quantity                int64
		tat, want               uint64
	}{
		{"charge to a fresh key", 15, 30, 60, 1, rest, t0 + 2e9},
		{"charge to a key whose TAT has passed", 4, 1, 1, 1, 5, t0 + 1e9},
		{"charge to a key with used units", 15, 30, 60, 3, t0 + 1, t0 + 1 + 6e9},
		{"charge with an interval below a millisecond", 1, 10_000, 1, 1, rest, t0 + 100_000},
		{"peek at a fresh key", 4, 1, 1, 0, rest, rest},
		{"peek at a key whose TAT has passed", 4, 1, 1, 0, t0 - 1, t0 - 1},
		{"peek at a key in use", 4, 1, 1, 0, t0 + 3e9, t0 + 3e9},
		{"peek with a TAT beyond the tolerance", 4, 1, 1, 0, t0 + 9e9, t0 + 9e9},
		{"refused", 4, 1, 1, 2, t0 + 4e9, t0 + 4e9},
		{"charge of more than the limit", 4, 1, 1, 6, rest, rest},
		{"partial refund", 15, 30, 60, -2, t0 + 6e9, t0 + 2e9},
		{"full refund", 15, 30, 60, -3, t0 + 6e9, t0},
		{"refund of more than the used units", 15, 30, 60, -4, t0 + 6e9, t0},
		{"refund to a fresh key", 15, 30, 60, -1, rest, t0},
		{"refund to a key whose TAT has passed", 15, 30, 60, -1, t0 - 1, t0},
		{"refund whose credit is 1<<64 ns", 15, 1_000_000_000, 1 << 31, -1 << 33, t0 + 6e9, t0},
		{"refund of the largest quantity", 15, 30, 60, math.MinInt64, t0 + 6e9, t0},
		{"refund of the largest quantity, interval 1 ns", 0, 1e9, 1, math.MinInt64, t0 + 6e9, t0},
		{"refund with a TAT beyond the range of a Duration", 15, 30, 60, -1, math.MaxUint64, t0 + math.MaxInt64 - 2e9},
		{"charge with a TAT beyond the range of a Duration", 15, 30, 60, 1, math.MaxUint64, math.MaxUint64},
		{"peek with a TAT beyond the range of a Duration", 15, 30, 60, 0, math.MaxUint64, math.MaxUint64},
		{"charge of the whole largest limit", math.MaxInt64 - 1, 1e9, 1, math.MaxInt64, rest, t0 + math.MaxInt64},
	} {
		l, err := NewLimit(tt.maxBurst, tt.count, limiter.Seconds(tt.period))
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if got, d := Decide(l, tt.tat, t0, tt.quantity); got != tt.want {
			t.Errorf("%s: got TAT %d, %+v, want TAT %d", tt.name, got, d, tt.want)
		}
	}
}

// TestClockEnds tests decisions at the first and the last time of the clock.
func TestClockEnds(t *testing.T) {
	l := limiter.Limit{Max: math.MaxInt64, Interval: 1}
	const last = uint64(math.MaxInt64)
	if tat, d := Decide(l, 0, last, math.MaxInt64); tat != 2*last || d.Limited || d.ResetAfter != math.MaxInt64 {
		t.Errorf("charge at the last time: TAT %d, %+v; want an admitted request and TAT 2*last", tat, d)
	}
	if tat, d := Decide(l, 2*last, last, 1); tat != 2*last || d.RetryAfter != 1 {
		t.Errorf("charge to the empty bucket at the last time: TAT %d, %+v; want TAT 2*last and RetryAfter 1 ns", tat, d)
	}
	if tat, d := Decide(l, 0, 0, -1); tat != 0 || d.Remaining != l.Max {
		t.Errorf("refund at time 0: TAT %d, %+v; want TAT 0 and the whole limit", tat, d)
	}
	if tat, d := Decide(l, 0, 0, 1); tat != 1 || d.Remaining != l.Max-1 {
		t.Errorf("charge at time 0: TAT %d, %+v; want TAT 1 and one unit less", tat, d)
	}
}

// TestAllocs checks that no branch of Decide allocates memory, and that NewLimit allocates none,
// whether or not it returns an error.
func TestAllocs(t *testing.T) {
	for _, br := range branches {
		limitertest.NoAllocs(t, "Decide "+br.name, func() { outTAT, out = Decide(branchLimit, br.tat, t0, br.quantity) })
	}
	limitertest.NoAllocs(t, "NewLimit", func() { outLimit, outErr = NewLimit(15, 30, limiter.Seconds(60)) })
	limitertest.NoAllocs(t, "NewLimit out of range", func() { outLimit, outErr = NewLimit(-1, 30, limiter.Seconds(60)) })
}
