package windowlog

import (
	"bytes"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/limiter/limitertest"
)

// t0 is the reference time of the tests. Any time below 1<<63 is suitable.
const t0 uint64 = 1_700_000_000_000_000_000

const (
	no = limiter.NoRetry
	s  = time.Second
)

// decide is Decide with the checks that are common to all algorithms.
var decide limitertest.Decide = Decide

func newLimit(t *testing.T, limit int64, period time.Duration, entries int64) limiter.Limit {
	t.Helper()
	l, err := NewLimit(limit, limiter.Period{N: int64(period), Unit: 1}, entries)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// row is one decision of an example: the request, the expected decision, and the expected number of
// entries after it.
type row struct {
	at       time.Duration // since t0
	quantity int64
	limited  bool
	left     int64
	retry    time.Duration
	reset    time.Duration
	entries  int
}

// run makes the decisions in rows on one key.
func run(t *testing.T, l limiter.Limit, rows []row) {
	t.Helper()
	plain := make([]limitertest.Row, len(rows))
	for i, tt := range rows {
		plain[i] = limitertest.Row{tt.at, tt.quantity, tt.limited, tt.left, tt.retry, tt.reset}
	}
	decide.Play(t, l, limiter.State{}, t0, plain, func(i int, c limitertest.Decided) {
		check(c)
		if requests, _ := decode(c.After().Data); len(requests) != rows[i].entries {
			t.Errorf("row %d: the log has %d entries, want %d", i, len(requests), rows[i].entries)
		}
	})
}

// TestWorkedExample checks the example of the package comment.
func TestWorkedExample(t *testing.T) {
	run(t, newLimit(t, 5, 10*s, 4), []row{
		{0, 1, false, 4, no, 10 * s, 1},
		{2 * s, 3, false, 1, no, 10 * s, 2},
		{4 * s, 2, true, 1, 6 * s, 8 * s, 2},
		{4 * s, 1, false, 0, no, 10 * s, 3},
		{9 * s, 1, true, 0, s, 5 * s, 3},
		{10 * s, 1, false, 0, no, 10 * s, 3},
		{11 * s, -1, false, 1, no, 3 * s, 2},
		{11 * s, 6, true, 1, no, 3 * s, 2},
		{12 * s, 5, true, 4, 2 * s, 2 * s, 2},
		{14 * s, 0, false, 5, no, 0, 2},
		{14 * s, 5, false, 0, no, 10 * s, 1},
	})
}

// TestEdges checks that an entry counts until the last nanosecond of its window, and no longer.
func TestEdges(t *testing.T) {
	run(t, newLimit(t, 2, s, 10), []row{
		{0, 1, false, 1, no, s, 1},
		{1, 1, false, 0, no, s, 2},
		{s - 1, 1, true, 0, 1, 2, 2},
		{s - 1, 2, true, 0, 2, 2, 2},
		{s, 1, false, 0, no, s, 2},
		{s, 1, true, 0, 1, s, 2},
		{s + 1, 1, false, 0, no, s, 2},
		{2*s - 1, 0, false, 0, no, 2, 2},
		{2 * s, 0, false, 1, no, 1, 2},
		{2*s + 1, 0, false, 2, no, 0, 2},
	})
}

// TestCap fills a log with the maximum number of entries before the limit is reached.
func TestCap(t *testing.T) {
	run(t, newLimit(t, 100, 10*s, 3), []row{
		{0, 50, false, 50, no, 10 * s, 1},
		{s, 1, false, 49, no, 10 * s, 2},
		{2 * s, 1, false, 0, no, 10 * s, 3},
		{3 * s, 1, true, 0, 7 * s, 9 * s, 3},
		{3 * s, 49, true, 0, 8*s - s, 9 * s, 3},
		{3 * s, 99, true, 0, 8 * s, 9 * s, 3},
		{3 * s, 101, true, 0, no, 9 * s, 3},
		{3 * s, 0, false, 0, no, 9 * s, 3},
		{3 * s, -1, false, 49, no, 8 * s, 2},
		{3 * s, 49, false, 0, no, 10 * s, 3},
		{10 * s, 50, false, 0, no, 10 * s, 3},
	})
}

// TestOneEntryEach checks that each admitted request adds one entry, regardless of its quantity,
// and that refused requests add none.
func TestOneEntryEach(t *testing.T) {
	l := newLimit(t, 300, time.Minute, MaxEntries)
	var state limiter.State
	for i := range 200 {
		c, d := Decide(&l, state, t0+uint64(i), int64(1+i%2), nil)
		state = limitertest.After(state, c)
		if requests, ok := decode(state.Data); d.Limited || !ok || len(requests) != i+1 {
			t.Fatalf("request %d: %+v, %d entries; want an admitted request and one more entry", i, d, len(requests))
		}
	}
	before := slices.Clone(state.Data)
	for i := range 10_000 {
		if c, d := Decide(&l, state, t0+uint64(200+i), 1, nil); c.Set || !d.Limited {
			t.Fatalf("request %d when no units remain: %+v, %+v; want a refusal without a change", i, c, d)
		}
	}
	if !slices.Equal(before, state.Data) {
		t.Error("refusals have changed the state")
	}
}

// TestWaits checks the wait on a log of 10 entries, one per second, with quantities 1 to 10. The
// cases include searches from both ends of the log. All requests are made at 10 s.
func TestWaits(t *testing.T) {
	var requests []request
	for i := range uint64(10) {
		requests = append(requests, request{t0 + i*uint64(s), i + 1})
	}
	state := limiter.State{Expires: t0 + uint64(109*s), Data: encode(requests, nil, 0)}
	for _, tt := range []struct {
		limit, entries, quantity int64
		retry                    time.Duration
	}{
		{55, 10, 1, 90 * s},  // the number of entries is the constraint
		{55, 10, 2, 91 * s},  // the expiry of the first entry frees 1 entry, but only 1 of the 2 units needed
		{55, 100, 1, 90 * s}, // the number of units is the constraint
		{55, 100, 2, 91 * s},
		{55, 100, 3, 91 * s},
		{55, 100, 4, 92 * s},
		{55, 100, 45, 98 * s}, // 45 of 55 units have to expire, all except the last entry
		{55, 100, 46, 99 * s},
		{55, 100, 55, 99 * s},
		{20, 100, 1, 97 * s}, // the entries with 9 and 10 units can remain
		{20, 100, 2, 98 * s},
		{20, 100, 0, 97 * s},
		{18, 100, 0, 98 * s},
		{9, 100, 0, 99 * s},
		{10, 100, 0, 98 * s},
		{1000, 10, 1, 90 * s},
		{1000, 5, 1, 95 * s},
		{1000, 2, 1, 98 * s},
		{1000, 1, 1, 99 * s},
		{1000, 1, 0, no}, // a peek adds no entry
	} {
		l := newLimit(t, tt.limit, 100*s, tt.entries)
		if _, d := Decide(&l, state, t0+uint64(10*s), tt.quantity, nil); d.RetryAfter != tt.retry || d.Limited != (tt.retry != no) {
			t.Errorf("limit %d, %d entries, quantity %d: RetryAfter is %v, which is wrong; the decision is %+v", tt.limit, tt.entries, tt.quantity, d.RetryAfter, d)
		}
	}
}

// TestRefund makes refunds on a log with quantities 5, 1, 1, 3, and checks the remaining entries.
func TestRefund(t *testing.T) {
	at := func(i uint64) uint64 { return t0 - 10 + i }
	requests := []request{{at(0), 5}, {at(1), 1}, {at(2), 1}, {at(3), 3}}
	for _, tt := range []struct {
		quantity int64
		set      bool
		want     []request
	}{
		{-1, true, []request{{at(0), 5}, {at(1), 1}, {at(2), 1}, {at(3), 2}}},
		{-2, true, []request{{at(0), 5}, {at(1), 1}, {at(2), 1}, {at(3), 1}}},
		{-3, true, []request{{at(0), 5}, {at(1), 1}, {at(2), 1}}},
		{-4, true, []request{{at(0), 5}, {at(1), 1}}},
		{-5, true, []request{{at(0), 5}}},
		{-6, true, []request{{at(0), 4}}},
		{-9, true, []request{{at(0), 1}}},
		{-10, true, nil},
		{-11, true, nil},
		{math.MinInt64, true, nil},
	} {
		for _, junk := range []int{0, 3, 30} {
			l := newLimit(t, 10, s, 4)
			// Bytes before the oldest entry are ignored.
			old := limiter.State{Expires: t0 + uint64(s), Data: encode(requests, bytes.Repeat([]byte{0x81}, junk), 0)}
			c, d := Decide(&l, old, t0, tt.quantity, nil)
			if d.Limited || !c.Set || c.Expires != t0+uint64(d.ResetAfter) {
				t.Errorf("refund of %d: %+v, %+v; want a change that expires at the reset", tt.quantity, c, d)
			}
			if tt.want == nil {
				if d.Remaining != 10 || d.ResetAfter != 0 || c.Keep != 0 || len(c.Tail) != 0 {
					t.Errorf("after a refund of %d: %+v, %+v; want an empty log", tt.quantity, c, d)
				}
				continue
			}
			if got, ok := decode(limitertest.After(old, c).Data); !ok || !slices.Equal(got, tt.want) {
				t.Errorf("after a refund of %d: the entries are %v, want %v", tt.quantity, got, tt.want)
			}
		}
	}
	l := newLimit(t, 10, s, 4)
	if c, d := Decide(&l, limiter.State{}, t0, -1, nil); c.Set || d.Limited || d.Remaining != 10 {
		t.Errorf("refund to a fresh key: %+v, %+v; want no change", c, d)
	}
}

// TestChangedParameters decides on a log of 5 requests, one per second up to t0, with different
// limits.
func TestChangedParameters(t *testing.T) {
	var requests []request
	for i := range uint64(5) {
		requests = append(requests, request{t0 - (4-i)*uint64(s), 2})
	}
	state := limiter.State{Expires: t0 + uint64(10*s), Data: encode(requests, nil, 4)}
	for _, tt := range []struct {
		name         string
		limit        int64
		period       time.Duration
		entries      int64
		quantity     int64
		limited      bool
		left         int64
		retry, reset time.Duration
	}{
		{"the same", 10, 10 * s, 10, 1, true, 0, 6 * s, 10 * s},
		{"larger limit", 12, 10 * s, 10, 0, false, 2, no, 10 * s},
		{"smaller limit", 5, 10 * s, 10, 0, true, 0, 8 * s, 10 * s},
		{"shorter period", 10, 3 * s, 10, 1, false, 3, no, 3 * s},
		{"fewer entries", 20, 10 * s, 3, 1, true, 0, 8 * s, 10 * s},
		{"fewer entries, peek", 20, 10 * s, 3, 0, false, 0, no, 10 * s},
		// Until a charge extends it, the state expires according to the period under which it was
		// stored.
		{"longer period", 10, time.Hour, 10, 1, true, 0, 10 * s, 10 * s},
	} {
		l := newLimit(t, tt.limit, tt.period, tt.entries)
		want := limiter.Decision{Limited: tt.limited, Limit: l.Max, Remaining: tt.left, RetryAfter: tt.retry, ResetAfter: tt.reset}
		if _, d := Decide(&l, state, t0, tt.quantity, nil); d != want {
			t.Errorf("%s: got %+v, want %+v", tt.name, d, want)
		}
	}
	// After a charge under a longer period, all remaining entries count for that period.
	l := newLimit(t, 20, time.Hour, 10)
	c, _ := Decide(&l, state, t0+1, 1, nil)
	if _, d := Decide(&l, limitertest.After(state, c), t0+uint64(time.Hour-5*s), 0, nil); d.Remaining != 9 {
		t.Errorf("5 s before the end of the longer period: %+v, want 9 units remaining", d)
	}
	// Dropped entries are not restored.
	short := newLimit(t, 20, 2*s, 10)
	c, _ = Decide(&short, state, t0, 1, nil)
	if _, d := Decide(&l, limitertest.After(state, c), t0, 0, nil); d.Remaining != 15 {
		t.Errorf("shorter period, then longer: %+v, want 15 units remaining", d)
	}
}

// TestByHand decides on states that cannot result from a decision.
func TestByHand(t *testing.T) {
	l := newLimit(t, 10, 10*s, 5)
	put := func(expires uint64, requests ...request) limiter.State {
		return limiter.State{Expires: expires, Data: encode(requests, nil, 8)}
	}
	// A future time. The next entry must not be before it.
	later := t0 + uint64(3*s)
	old := put(t0+uint64(13*s), request{later, 1})
	c, d := Decide(&l, old, t0, 1, nil)
	if got, ok := decode(limitertest.After(old, c).Data); !ok || !slices.Equal(got, []request{{later, 1}, {later, 1}}) || d.ResetAfter != 13*s {
		t.Errorf("a charge before a future entry: %v, %+v; want both entries at the future time", got, d)
	}
	// A time out of the range of a Duration.
	old = put(math.MaxUint64, request{math.MaxUint64 - 1, 10})
	if _, d := Decide(&l, old, t0, 1, nil); d.RetryAfter != math.MaxInt64 || d.ResetAfter != math.MaxInt64 {
		t.Errorf("an entry out of the range of a Duration: %+v, want capped waits", d)
	}
	// The state, or each of its entries, has expired.
	for _, old := range []limiter.State{
		put(t0, request{t0 - 1, 1}),
		put(t0+1, request{t0 - uint64(10*s), 1}, request{t0 - uint64(10*s), 4}),
	} {
		if c, d := Decide(&l, old, t0, 1, nil); c.Keep != 0 || d.Remaining != 9 {
			t.Errorf("a charge to an expired state: %+v, %+v; want a new log", c, d)
		}
	}
	// Excess spare bytes are not written again.
	old = limiter.State{Expires: t0 + uint64(s), Data: encode([]request{{t0, 1}}, nil, 10_000)}
	if c, _ := Decide(&l, old, t0, 1, nil); c.Keep != 0 || len(c.Tail) > footerSize+20 {
		t.Errorf("a charge to a log with too many spare bytes: keep %d, tail of %d bytes; want a rebuilt log", c.Keep, len(c.Tail))
	}
}

// TestClockEnds covers the first and the last time of the clock.
func TestClockEnds(t *testing.T) {
	l := limiter.Limit{Max: math.MaxInt64, Interval: MaxPeriod, Amount: MaxEntries}
	for _, now := range []uint64{0, limitertest.LastTime} {
		c, d := Decide(&l, limiter.State{}, now, math.MaxInt64, nil)
		if d.Limited || d.ResetAfter != MaxPeriod || c.Expires != now+MaxPeriod {
			t.Errorf("charge of the whole limit at time %d: %+v, %+v; want an admitted request that expires after MaxPeriod", now, c, d)
		}
		if _, d := Decide(&l, limitertest.After(limiter.State{}, c), now, 1, nil); d.RetryAfter != MaxPeriod {
			t.Errorf("charge to an exhausted limit at time %d: %+v, want RetryAfter MaxPeriod", now, d)
		}
	}
	// The maximum time between two entries of one window.
	c, _ := Decide(&l, limiter.State{}, 0, 1, nil)
	state := limitertest.After(limiter.State{}, c)
	c, _ = Decide(&l, state, MaxPeriod-1, 1, nil)
	if got, ok := decode(limitertest.After(state, c).Data); !ok || !slices.Equal(got, []request{{0, 1}, {MaxPeriod - 1, 1}}) {
		t.Errorf("entries at both ends of a window: the log contains %v, want both entries", got)
	}
}

// TestAllocs checks that no code path of Decide allocates memory, and that NewLimit allocates none,
// whether or not it returns an error.
func TestAllocs(t *testing.T) {
	room := make([]byte, 1<<20)
	l := newLimit(t, 5000, time.Hour, MaxEntries)
	state, now := fill(&l, 4990, int64(time.Second)/2, 1)
	full := state
	full.Data = encode(must(decode(state.Data)), nil, 0)
	for _, tt := range []struct {
		name     string
		state    limiter.State
		now      uint64
		quantity int64
	}{
		{"charge to a fresh key", limiter.State{}, now, 3},
		{"charge in place", state, now, 1},
		{"charge in place, several units", state, now, 3},
		{"charge that rebuilds", full, now, 1},
		{"charge after many entries have expired", state, now + uint64(50*time.Minute), 1},
		{"refusal", state, now, 11},
		{"refused charge of half the limit", state, now, 2500},
		{"refused charge of the whole limit", state, now, 5000},
		{"charge of more than the limit", state, now, 5001},
		{"peek", state, now, 0},
		{"refund", state, now, -1},
		{"refund that rebuilds", state, now, -4000},
		{"full refund", state, now, -4990},
	} {
		limitertest.NoAllocs(t, tt.name, func() { outChange, out = Decide(&l, tt.state, tt.now, tt.quantity, room) })
	}
	limitertest.NoAllocs(t, "NewLimit", func() { outLimit, outErr = NewLimit(15, limiter.Seconds(60), 15) })
	limitertest.NoAllocs(t, "NewLimit out of range", func() { outLimit, outErr = NewLimit(15, limiter.Seconds(60), 0) })
}

func must(requests []request, ok bool) []request {
	if !ok {
		panic("malformed")
	}
	return requests
}
