package leaky

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/limiter/limitertest"
)

// t0 is the start time of the tests. Any time below 1<<63 is suitable.
const t0 uint64 = 1_700_000_000_000_000_000

func TestNewLimit(t *testing.T) {
	const maxInt, minInt = math.MaxInt64, math.MinInt64
	for _, tt := range []struct {
		capacity, count, period int64
		want                    limiter.Limit // the zero Limit means out of range
	}{
		{3, 2, 1, limiter.Limit{Max: 3, Interval: 500 * time.Millisecond}},
		{1, 1, 1, limiter.Limit{Max: 1, Interval: time.Second}},
		{1, 3, 1, limiter.Limit{Max: 1, Interval: 333_333_334}},
		{1, maxInt, 1, limiter.Limit{Max: 1, Interval: 1}},
		{maxInt, 1_000_000_000, 1, limiter.Limit{Max: maxInt, Interval: 1}},
		{maxInt, 999_999_999, 1, limiter.Limit{}},
		{1, 1, 9_223_372_036, limiter.Limit{Max: 1, Interval: 9_223_372_036 * time.Second}},
		{1, 1, 9_223_372_037, limiter.Limit{}},
		{2, 1, 9_223_372_036, limiter.Limit{}},
		{0, 1, 1, limiter.Limit{}},
		{-1, 1, 1, limiter.Limit{}},
		{minInt, 1_000_000_000, 1, limiter.Limit{}},
		{1, 0, 1, limiter.Limit{}},
		{1, -1, 1, limiter.Limit{}},
		{1, 1, 0, limiter.Limit{}},
		{1, 1, minInt, limiter.Limit{}},
	} {
		got, err := NewLimit(tt.capacity, tt.count, limiter.Seconds(tt.period))
		if got != tt.want || errors.Is(err, limiter.ErrRange) != (tt.want == limiter.Limit{}) {
			t.Errorf("NewLimit(%d, %d, %d) = %+v, %v, want %+v", tt.capacity, tt.count, tt.period, got, err, tt.want)
		}
	}
}

// decide is Decide with the checks common to all algorithms.
var decide limitertest.Decide = Decide

// check tests a decision against the rules that hold for all algorithms, and its Wait against the
// used time. A decision caps its durations at math.MaxInt64 ns. If the TAT is further ahead, the
// durations are not exact, so check uses CheckNow instead of Check.
func check(c limitertest.Decided) {
	want := time.Duration(0)
	switch {
	case c.Got.Limited:
		want = limiter.NoRetry
	case c.Quantity >= 0:
		want = decide.Run(c.TB, c.Limit, c.Old, c.Now, 0).Got.ResetAfter
	}
	c.Expect(c.Got.Wait == want, "Wait is wrong; want the duration at the end of this message", want)
	c.Expect(!c.Change.Set || c.Change.Expires == c.Now+uint64(c.Got.ResetAfter), "Expires is not now + ResetAfter")
	c.Got.Wait = 0
	if c.Old.Expires > c.Now && c.Old.Expires-c.Now > math.MaxInt64 {
		c.CheckNow()
	} else {
		c.Check()
	}
}

// TestWorkedExample tests the example of the package comment.
func TestWorkedExample(t *testing.T) {
	l, err := NewLimit(3, 2, limiter.Seconds(1))
	if err != nil {
		t.Fatal(err)
	}
	const no, ms = limiter.NoRetry, time.Millisecond
	waits := []time.Duration{0, 500 * ms, 1000 * ms, no, 900 * ms, 0, 700 * ms, 0}
	decide.Play(t, l, limiter.State{}, t0, []limitertest.Row{
		{0, 1, false, 2, no, 500 * ms},
		{0, 1, false, 1, no, 1000 * ms},
		{0, 1, false, 0, no, 1500 * ms},
		{0, 1, true, 0, 500 * ms, 1500 * ms},
		{600 * ms, 1, false, 0, no, 1400 * ms},
		{800 * ms, -1, false, 1, no, 700 * ms},
		{800 * ms, 0, false, 1, no, 700 * ms},
		{5000 * ms, 1, false, 2, no, 500 * ms},
	}, func(i int, c limitertest.Decided) {
		check(c)
		if c.Got.Wait != waits[i] {
			t.Errorf("row %d: Wait is %v, want %v", i, c.Got.Wait, waits[i])
		}
	})
}

// TestRow tests single decisions at t0 on a queue with a capacity of 4 units. One unit leaves
// each second.
func TestRow(t *testing.T) {
	const s, no = time.Second, limiter.NoRetry
	used := func(d time.Duration) limiter.State { return limiter.State{Expires: t0 + uint64(d)} }
	for _, tt := range []struct {
		name     string
		old      limiter.State
		quantity int64
		set      bool
		want     limiter.Decision
	}{
		{"charge of several units to an empty queue", limiter.State{}, 3, true, limiter.Decision{Remaining: 1, RetryAfter: no, ResetAfter: 3 * s}},
		{"charge of several units to a queue in use", used(2 * s), 2, true, limiter.Decision{RetryAfter: no, ResetAfter: 4 * s, Wait: 2 * s}},
		{"charge to a queue that becomes empty now", used(0), 1, true, limiter.Decision{Remaining: 3, RetryAfter: no, ResetAfter: s}},
		{"charge 1 ns above the capacity", used(3*s + 1), 1, false, limiter.Decision{Limited: true, RetryAfter: 1, ResetAfter: 3*s + 1, Wait: no}},
		{"charge of more than the capacity", used(2 * s), 5, false, limiter.Decision{Limited: true, Remaining: 2, RetryAfter: no, ResetAfter: 2 * s, Wait: no}},
		{"peek at an empty queue", limiter.State{}, 0, false, limiter.Decision{Remaining: 4, RetryAfter: no}},
		{"peek at a full queue", used(4 * s), 0, false, limiter.Decision{RetryAfter: no, ResetAfter: 4 * s, Wait: 4 * s}},
		{"peek at a queue longer than its capacity", used(6 * s), 0, false, limiter.Decision{Limited: true, RetryAfter: 2 * s, ResetAfter: 6 * s, Wait: no}},
		{"partial refund", used(3 * s), -1, true, limiter.Decision{Remaining: 2, RetryAfter: no, ResetAfter: 2 * s}},
		{"full refund", used(3 * s), -3, true, limiter.Decision{Remaining: 4, RetryAfter: no}},
		{"refund of the largest quantity", used(3 * s), math.MinInt64, true, limiter.Decision{Remaining: 4, RetryAfter: no}},
		{"refund to an empty queue", limiter.State{}, -1, false, limiter.Decision{Remaining: 4, RetryAfter: no}},
		{"refund to a queue that becomes empty now", used(0), -1, false, limiter.Decision{Remaining: 4, RetryAfter: no}},
		{"a state with data", limiter.State{Expires: t0 + uint64(9*s), Data: []byte{1}}, 1, true, limiter.Decision{Remaining: 3, RetryAfter: no, ResetAfter: s}},
		{"a TAT beyond the range of a Duration", limiter.State{Expires: math.MaxUint64}, 1, false, limiter.Decision{Limited: true, RetryAfter: math.MaxInt64 - 3*s, ResetAfter: math.MaxInt64, Wait: no}},
	} {
		l := limiter.Limit{Max: 4, Interval: s}
		tt.want.Limit = 4
		decided := decide.Run(t, l, tt.old, t0, tt.quantity)
		check(decided)
		c, d := decided.Change, decided.Got
		if d != tt.want || c.Set != tt.set {
			t.Errorf("%s: got %+v, %+v, want %+v", tt.name, c, d, tt.want)
		}
		if c.Set && (c.Expires != t0+uint64(d.ResetAfter) || c.Keep != 0 || len(c.Tail) != 0) {
			t.Errorf("%s: the change is %+v, want the reset time as Expires and no Data", tt.name, c)
		}
	}
}

// TestChangedParameters decides on a queue with a length of 3 s, with different limits.
func TestChangedParameters(t *testing.T) {
	const s, no = time.Second, limiter.NoRetry
	for _, tt := range []struct {
		name        string
		capacity    int64
		interval    time.Duration
		quantity    int64
		limited     bool
		left        int64
		wait, retry time.Duration
	}{
		{"the same", 4, s, 1, false, 0, 3 * s, no},
		{"larger capacity", 8, s, 1, false, 4, 3 * s, no},
		{"smaller capacity", 2, s, 1, true, 0, no, 2 * s},
		{"faster", 4, s / 2, 1, true, 0, no, 3 * s / 2},
		{"slower", 4, 2 * s, 3, true, 2, no, s},
	} {
		l := limiter.Limit{Max: tt.capacity, Interval: tt.interval}
		_, d := Decide(&l, limiter.State{Expires: t0 + uint64(3*s)}, t0, tt.quantity, nil)
		if d.Limited != tt.limited || d.Remaining != tt.left || d.Wait != tt.wait || d.RetryAfter != tt.retry {
			t.Errorf("%s: wrong decision %+v", tt.name, d)
		}
	}
}

// TestRefundBringsDeparturesTogether tests the example in the caveats of the package
// comment.
func TestRefundBringsDeparturesTogether(t *testing.T) {
	l := limiter.Limit{Max: 5, Interval: 500 * time.Millisecond}
	var s limiter.State
	var waits []time.Duration
	for _, quantity := range []int64{1, 1, 1, -1, 1, 1} {
		c, d := Decide(&l, s, t0, quantity, nil)
		s.Expires = c.Expires
		if quantity > 0 {
			waits = append(waits, d.Wait/time.Millisecond)
		}
	}
	for i, want := range []time.Duration{0, 500, 1000, 1000, 1500} {
		if waits[i] != want {
			t.Errorf("request %d waits %d ms, want %d", i, waits[i], want)
		}
	}
}
