package tokenbucket

import (
	"encoding/binary"
	"math"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/limiter/limitertest"
)

// t0 is the start time of the tests. Any time below 1<<63 is suitable.
const t0 uint64 = 1_700_000_000_000_000_000

const no = limiter.NoRetry

// encode returns a state in the format of doc.go.
func encode(expires, used, anchor uint64) limiter.State {
	data := binary.LittleEndian.AppendUint64(nil, used)
	return limiter.State{Expires: expires, Data: binary.LittleEndian.AppendUint64(data, anchor)}
}

func decode(data []byte) (used, anchor uint64) {
	return binary.LittleEndian.Uint64(data), binary.LittleEndian.Uint64(data[8:])
}

func newLimit(t *testing.T, capacity, amount int64, interval time.Duration) limiter.Limit {
	t.Helper()
	l, err := NewLimit(capacity, amount, limiter.Period{N: int64(interval), Unit: 1})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// decide is Decide with the checks common to all algorithms.
var decide limitertest.Decide = Decide

// run makes the decisions in rows on one key.
func run(t *testing.T, l limiter.Limit, rows []limitertest.Row) {
	t.Helper()
	decide.Play(t, l, limiter.State{}, t0, rows, func(_ int, c limitertest.Decided) { check(c) })
}

// TestWorkedExample tests the example of the package comment.
func TestWorkedExample(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	states := []struct {
		used   uint64
		anchor time.Duration
	}{{1, 0}, {4, 0}, {4, 0}, {3, s}, {3, s}, {2, s}, {2, s}, {4, 2 * s}}
	decide.Play(t, newLimit(t, 4, 2, s), limiter.State{}, t0, []limitertest.Row{
		{0, 1, false, 3, no, s},
		{0, 3, false, 0, no, 2 * s},
		{400 * ms, 1, true, 0, 600 * ms, 1600 * ms},
		{s, 1, false, 1, no, 2 * s},
		{1500 * ms, 3, true, 1, 500 * ms, 1500 * ms},
		{1500 * ms, -1, false, 2, no, 500 * ms},
		{1500 * ms, 5, true, 2, no, 500 * ms},
		{2 * s, 4, false, 0, no, 2 * s},
	}, func(i int, c limitertest.Decided) {
		check(c)
		used, anchor := decode(c.After().Data)
		if want := states[i]; used != want.used || anchor != t0+uint64(want.anchor) {
			t.Errorf("row %d: the state has %d used tokens and an anchor %d ns after t0, which differs from the example", i, used, anchor-t0)
		}
	})
}

// TestFailedLogins tests a limit of 10 failed logins. Every hour, one more failed login is
// admitted.
func TestFailedLogins(t *testing.T) {
	const h, m = time.Hour, time.Minute
	var rows []limitertest.Row
	for i := range int64(10) {
		at := time.Duration(i) * m
		rows = append(rows, limitertest.Row{At: at, Quantity: 1, Remaining: 9 - i, RetryAfter: no, ResetAfter: time.Duration(i+1)*h - at})
	}
	run(t, newLimit(t, 10, 1, h), append(rows, []limitertest.Row{
		{10 * m, 1, true, 0, 50 * m, 9*h + 50*m},
		{h, 1, false, 0, no, 10 * h},
		{h, 1, true, 0, h, 10 * h},
		// A successful login refunds the failed ones.
		{h, -10, false, 10, no, 0},
		{2 * h, 0, false, 10, no, 0},
	}...))
}

// TestDollars tests a limit of $200 a day that is refilled with $50 every six hours.
func TestDollars(t *testing.T) {
	const h = time.Hour
	run(t, newLimit(t, 200, 50, 6*h), []limitertest.Row{
		{0, 120, false, 80, no, 18 * h},
		{h, 80, false, 0, no, 23 * h},
		{2 * h, 1, true, 0, 4 * h, 22 * h},
		{2 * h, 101, true, 0, 16 * h, 22 * h},
		{6 * h, 30, false, 20, no, 24 * h},
		{6 * h, 201, true, 20, no, 24 * h},
		{6 * h, -15, false, 35, no, 24 * h},
		{12 * h, 85, false, 0, no, 24 * h},
		{36 * h, 200, false, 0, no, 24 * h},
	})
}

// TestState tests the state after one decision at t0.
func TestState(t *testing.T) {
	const s = uint64(time.Second)
	used := func(n uint64) limiter.State { return encode(t0+9*s, n, t0-s/2) }
	for _, tt := range []struct {
		name     string
		old      limiter.State
		quantity int64
		set      bool
		want     limiter.State // compared only if set is true
	}{
		{"charge to a fresh key", limiter.State{}, 3, true, encode(t0+2*s, 3, t0)},
		{"charge to a key that expires now", encode(t0, 4, t0-s/2), 1, true, encode(t0+s, 1, t0)},
		{"charge to a bucket that refills have filled", encode(t0+s, 2, t0-s), 1, true, encode(t0+s, 1, t0)},
		{"charge to a bucket with used tokens", used(2), 1, true, encode(t0+3*s/2, 3, t0-s/2)},
		{"charge after refills", encode(t0+s, 8, t0-7*s/2), 2, true, encode(t0+s/2+s, 4, t0-s/2)},
		{"charge with no data in the state", limiter.State{Expires: t0 + s}, 1, true, encode(t0+s, 1, t0)},
		{"charge with too little data in the state", limiter.State{Expires: t0 + s, Data: used(4).Data[:15]}, 1, true, encode(t0+s, 1, t0)},
		{"charge with too much data in the state", limiter.State{Expires: t0 + s, Data: make([]byte, 17)}, 1, true, encode(t0+s, 1, t0)},
		{"peek", used(4), 0, false, limiter.State{}},
		{"refused charge", used(4), 1, false, limiter.State{}},
		{"charge of more than the capacity", limiter.State{}, 5, false, limiter.State{}},
		{"partial refund", used(4), -1, true, encode(t0+3*s/2, 3, t0-s/2)},
		{"full refund", used(4), -4, true, encode(t0, 0, t0-s/2)},
		{"refund of more tokens than used", used(4), -5, true, encode(t0, 0, t0-s/2)},
		{"refund of the largest quantity", used(4), math.MinInt64, true, encode(t0, 0, t0-s/2)},
		{"refund to a fresh key", limiter.State{}, -1, false, limiter.State{}},
		{"refund to a bucket that refills have filled", encode(t0+s, 2, t0-s), -1, false, limiter.State{}},
		{"refund of the capacity with more tokens used", encode(t0+9*s, math.MaxUint64, t0), -4, true, encode(t0+math.MaxInt64, math.MaxUint64-4, t0)},
		{"charge with an anchor in the future", encode(t0+9*s, 1, t0+3*s), 1, true, encode(t0+4*s, 2, t0+3*s)},
	} {
		l := newLimit(t, 4, 2, time.Second)
		c, d := Decide(&l, tt.old, t0, tt.quantity, nil)
		if c.Set != tt.set {
			t.Errorf("%s: Set is %t, want the opposite; the decision is %+v", tt.name, c.Set, d)
		}
		if got := limitertest.After(tt.old, c); c.Set && (got.Expires != tt.want.Expires || string(got.Data) != string(tt.want.Data)) {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// TestChangedParameters decides on the same state with different limits.
func TestChangedParameters(t *testing.T) {
	const s = time.Second
	// 6 of 8 tokens are used. The last refill was 1 s ago, and the bucket gets 2 tokens
	// every 2 s.
	state := encode(t0+uint64(5*s), 6, t0-uint64(s))
	for _, tt := range []struct {
		name             string
		capacity, amount int64
		interval         time.Duration
		quantity         int64
		limited          bool
		left             int64
		retry, reset     time.Duration
	}{
		{"the same", 8, 2, 2 * s, 3, true, 2, s, 5 * s},
		{"larger capacity", 16, 2, 2 * s, 3, false, 7, no, 9 * s},
		{"smaller capacity", 4, 2, 2 * s, 1, true, 0, 3 * s, 5 * s},
		{"smaller capacity, peek", 4, 2, 2 * s, 0, true, 0, s, 5 * s},
		{"larger amount", 8, 3, 2 * s, 3, true, 2, s, 3 * s},
		{"shorter interval", 8, 2, s, 3, false, 1, no, 4 * s},
		{"much shorter interval", 8, 2, s / 4, 3, false, 5, no, s / 2},
		{"smaller amount", 8, 1, 2 * s, 2, false, 0, no, 15 * s},
		// The state expires according to the parameters with which it was stored, before the next
		// refill under the longer interval.
		{"longer interval", 8, 2, time.Hour, 3, true, 2, 5 * s, 5 * s},
	} {
		l := newLimit(t, tt.capacity, tt.amount, tt.interval)
		want := limiter.Decision{Limited: tt.limited, Limit: l.Max, Remaining: tt.left, RetryAfter: tt.retry, ResetAfter: tt.reset}
		if _, d := Decide(&l, state, t0, tt.quantity, nil); d != want {
			t.Errorf("%s: got %+v, want %+v", tt.name, d, want)
		}
	}
}

// TestClockEnds tests decisions at the first and the last time of the clock.
func TestClockEnds(t *testing.T) {
	l := limiter.Limit{Max: math.MaxInt64, Amount: 1, Interval: 1}
	for _, now := range []uint64{0, limitertest.LastTime} {
		c, d := Decide(&l, limiter.State{}, now, math.MaxInt64, nil)
		if d.Limited || d.ResetAfter != math.MaxInt64 || c.Expires != now+math.MaxInt64 {
			t.Errorf("charge of the whole capacity at time %d: %+v, %+v; want an admitted request and the longest ResetAfter", now, c, d)
		}
		if _, d := Decide(&l, limitertest.After(limiter.State{}, c), now, 1, nil); d.RetryAfter != 1 {
			t.Errorf("charge to an empty bucket at time %d: %+v, want RetryAfter 1 ns", now, d)
		}
	}
}

// TestAllocs checks that no branch of Decide allocates memory, and that NewLimit allocates none,
// whether or not it returns an error.
func TestAllocs(t *testing.T) {
	room := make([]byte, 64)
	for _, br := range branches {
		limitertest.NoAllocs(t, "Decide "+br.name, func() { outChange, out = Decide(&branchLimit, br.state, t0, br.quantity, room) })
	}
	limitertest.NoAllocs(t, "NewLimit", func() { outLimit, outErr = NewLimit(15, 30, limiter.Seconds(60)) })
	limitertest.NoAllocs(t, "NewLimit out of range", func() { outLimit, outErr = NewLimit(0, 30, limiter.Seconds(60)) })
}
