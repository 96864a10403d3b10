package window

import (
	"bytes"
	"math"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/limiter/limitertest"
)

// t0 is the start of a day, and therefore the start of a window for each period that divides a
// day.
const t0 uint64 = 19_700 * 86_400e9

func mustLimit(tb testing.TB, limit int64, period time.Duration, parts int64) *limiter.Limit {
	tb.Helper()
	l, err := NewLimit(limit, limiter.Period{N: int64(period), Unit: 1}, parts)
	if err != nil {
		tb.Fatal(err)
	}
	return &l
}

// state returns a state with counters of size bytes. The newest counter belongs to the sub-window
// that starts at begin.
func state(width time.Duration, begin uint64, size int, counts ...uint64) limiter.State {
	code := map[int]uint64{1: 0, 2: 1, 4: 2, 8: 3}[size]
	s := limiter.State{Expires: begin + uint64(width)*uint64(len(counts))}
	s.Data = appendUint(nil, 8, code<<62|uint64(width))
	for _, c := range counts {
		s.Data = appendUint(s.Data, size, c)
	}
	return s
}

// appendUint appends the lowest size bytes of v in little endian.
func appendUint(b []byte, size int, v uint64) []byte {
	for i := range size {
		b = append(b, byte(v>>(8*i)))
	}
	return b
}

func equal(a, b limiter.State) bool {
	return a.Expires == b.Expires && bytes.Equal(a.Data, b.Data)
}

// TestState checks the exact encoding after one call at the given hour. All sub-windows are one hour
// long.
func TestState(t *testing.T) {
	hour := func(n float64) uint64 { return t0 + uint64(n*float64(h)) }
	empty := limiter.State{}
	for _, tt := range []struct {
		name     string
		decide   limitertest.Decide
		limit    int64
		parts    int64 // also the length of the window, in hours
		old      limiter.State
		at       float64 // hours since t0
		quantity int64
		want     limiter.State
		keep     int
	}{
		{"fixed, first charge", Count, 255, 1, empty, 0.5, 7, state(h, t0, 1, 7), 0},
		{"fixed, next charge", Count, 255, 1, state(h, t0, 1, 7), 0.9, 8, state(h, t0, 1, 15), 8},
		{"fixed, next window", Count, 255, 1, state(h, t0, 1, 7), 1, 8, state(h, hour(1), 1, 8), 0},
		{"fixed, counter of 2 bytes", Count, 256, 1, empty, 0.5, 7, state(h, t0, 2, 7), 0},
		{"fixed, counter of 4 bytes", Count, 1 << 16, 1, empty, 0.5, 7, state(h, t0, 4, 7), 0},
		{"fixed, largest counter of 4 bytes", Count, 1<<32 - 1, 1, empty, 0.5, 1<<32 - 1, state(h, t0, 4, 1<<32-1), 0},
		{"fixed, counter of 8 bytes", Count, 1 << 32, 1, empty, 0.5, 7, state(h, t0, 8, 7), 0},
		{"fixed, largest count", Count, math.MaxInt64, 1, empty, 0.5, math.MaxInt64, state(h, t0, 8, math.MaxInt64), 0},
		{"fixed, refund", Count, 255, 1, state(h, t0, 1, 7), 0.9, -6, state(h, t0, 1, 1), 8},
		{"fixed, full refund", Count, 255, 1, state(h, t0, 1, 7), 0.9, -7, empty, 0},
		{"fixed, refund of more than the count", Count, 255, 1, state(h, t0, 1, 7), 0.9, math.MinInt64, empty, 0},
		{"fixed, refund to a fresh key", Count, 255, 1, empty, 0.9, -1, empty, 0},

		{"sliding, first charge", Slide, 255, 1, empty, 0.5, 7, state(h, t0, 1, 0, 7), 0},
		{"sliding, next charge", Slide, 255, 1, state(h, t0, 1, 5, 7), 0.9, 8, state(h, t0, 1, 5, 15), 9},
		{"sliding, next window", Slide, 255, 1, state(h, t0, 1, 5, 7), 1.5, 8, state(h, hour(1), 1, 7, 8), 0},
		{"sliding, all counts expired", Slide, 255, 1, state(h, t0, 1, 5, 7), 2, 8, state(h, hour(2), 1, 0, 8), 0},
		{"sliding, refund", Slide, 255, 1, state(h, t0, 1, 5, 7), 0.9, -6, state(h, t0, 1, 5, 1), 9},
		{"sliding, refund of the current count", Slide, 255, 1, state(h, t0, 1, 5, 7), 0.9, -7, state(h, hour(-1), 1, 0, 5), 0},
		{"sliding, refund over two windows", Slide, 255, 1, state(h, t0, 1, 5, 7), 0.9, -8, state(h, hour(-1), 1, 0, 4), 0},
		{"sliding, refund of the previous count", Slide, 255, 1, state(h, t0, 1, 5, 7), 1.9, -3, state(h, t0, 1, 0, 4), 0},
		{"sliding, full refund", Slide, 255, 1, state(h, t0, 1, 5, 7), 0.9, -12, empty, 0},

		{"buckets, first charge", Count, 255, 4, empty, 0.5, 7, state(h, t0, 1, 0, 0, 0, 7), 0},
		{"buckets, next charge", Count, 255, 4, state(h, t0, 1, 1, 2, 3, 4), 0.9, 8, state(h, t0, 1, 1, 2, 3, 12), 11},
		{"buckets, next sub-window", Count, 255, 4, state(h, t0, 1, 1, 2, 3, 4), 1.5, 8, state(h, hour(1), 1, 2, 3, 4, 8), 0},
		{"buckets, one remaining count", Count, 255, 4, state(h, t0, 1, 1, 2, 3, 4), 3.5, 8, state(h, hour(3), 1, 4, 0, 0, 8), 0},
		{"buckets, all counts expired", Count, 255, 4, state(h, t0, 1, 1, 2, 3, 4), 4, 8, state(h, hour(4), 1, 0, 0, 0, 8), 0},
		{"buckets, refund over three sub-windows", Count, 255, 4, state(h, t0, 1, 1, 2, 3, 4), 0.5, -8, state(h, hour(-2), 1, 0, 0, 1, 1), 0},
		{"buckets, refund over a gap", Count, 255, 4, state(h, t0, 1, 1, 2, 0, 4), 0.5, -5, state(h, hour(-2), 1, 0, 0, 1, 1), 0},
		{"buckets, partial refund of the remaining counts", Count, 255, 4, state(h, t0, 1, 1, 2, 3, 4), 1.5, -5, state(h, hour(-1), 1, 0, 0, 2, 2), 0},
		{"buckets, full refund of the remaining counts", Count, 255, 4, state(h, t0, 1, 1, 2, 3, 4), 1.5, -9, empty, 0},
	} {
		l := mustLimit(t, tt.limit, time.Duration(tt.parts)*h, tt.parts)
		ch, d := tt.decide(l, tt.old, hour(tt.at), tt.quantity, nil)
		got := limitertest.After(tt.old, ch)
		if !ch.Set || d.Limited || !equal(got, tt.want) || ch.Keep != tt.keep {
			t.Errorf("%s: %+v, %+v\n got the state %d %x\nwant the state %d %x", tt.name, ch, d, got.Expires, got.Data, tt.want.Expires, tt.want.Data)
		}
	}
}

// TestStateSize checks the size of SLIDING states: 24 bytes including Expires for limits below
// 1<<32.
func TestStateSize(t *testing.T) {
	for _, tt := range []struct {
		limit int64
		size  int
	}{
		{1, 18}, {255, 18}, {256, 20}, {65_535, 20}, {65_536, 24}, {1<<32 - 1, 24}, {1 << 32, 32}, {math.MaxInt64, 32},
	} {
		l := mustLimit(t, tt.limit, time.Hour, 1)
		s, now := limiter.State{}, t0
		for range 20 {
			ch, _ := Slide(l, s, now, 1+tt.limit/3, nil)
			s = limitertest.After(s, ch)
			now += uint64(20 * time.Minute)
			if size := 8 + len(s.Data); size != tt.size {
				t.Fatalf("limit %d: the state has %d bytes, want %d", tt.limit, size, tt.size)
			}
		}
	}
}

// TestSizeGrows checks the counter size of one key under changing limits.
func TestSizeGrows(t *testing.T) {
	s, now := limiter.State{}, t0
	for i, tt := range []struct {
		limit    int64
		period   time.Duration
		after    time.Duration
		quantity int64
		want     limiter.State
	}{
		{200, time.Hour, 0, 3, state(time.Hour, t0, 1, 0, 3)},
		{300, time.Hour, 0, 290, state(time.Hour, t0, 2, 0, 293)},
		{1 << 40, time.Hour, 0, -1, state(time.Hour, t0, 8, 0, 292)},
		// Neither a smaller limit nor the next window shrinks the counters.
		{200, time.Hour, 0, -192, state(time.Hour, t0, 8, 0, 100)},
		{200, time.Hour, time.Hour, 1, state(time.Hour, t0+3600e9, 8, 100, 1)},
		// A change of the window does shrink them.
		{200, 2 * time.Hour, 0, 1, state(2*time.Hour, t0, 1, 0, 102)},
		// The counts need larger counters than the limit.
		{1000, 2 * time.Hour, 0, 700, state(2*time.Hour, t0, 2, 0, 802)},
		{200, time.Hour, 0, -1, state(time.Hour, t0+3600e9, 2, 0, 801)},
		// After all counts have expired, the counter size is reset.
		{200, time.Hour, 2 * time.Hour, 1, state(time.Hour, t0+3*3600e9, 1, 0, 1)},
	} {
		now += uint64(tt.after)
		ch, d := Slide(mustLimit(t, tt.limit, tt.period, 1), s, now, tt.quantity, nil)
		if s = limitertest.After(s, ch); !equal(s, tt.want) {
			t.Fatalf("row %d: %+v\n got the state %d %x\nwant the state %d %x", i, d, s.Expires, s.Data, tt.want.Expires, tt.want.Data)
		}
	}
}

// TestMalformed checks that a malformed state equals an absent one.
func TestMalformed(t *testing.T) {
	const now = t0 + uint64(h)
	good := state(h, t0, 1, 1, 2, 3)
	with := func(change func(s *limiter.State)) limiter.State {
		s := limiter.State{Expires: good.Expires, Data: bytes.Clone(good.Data)}
		change(&s)
		return s
	}
	at := func(expires uint64, s limiter.State) limiter.State {
		s.Expires = expires
		return s
	}
	hours := endOfTime/uint64(h)*uint64(h) + uint64(h) // the first hour after the end of the clock
	for _, tt := range []struct {
		name string
		old  limiter.State
	}{
		{"no data", with(func(s *limiter.State) { s.Data = nil })},
		{"incomplete header", with(func(s *limiter.State) { s.Data = s.Data[:4] })},
		{"no counters", with(func(s *limiter.State) { s.Data = s.Data[:8] })},
		{"incomplete counter", with(func(s *limiter.State) { s.Data[7] |= 1 << 6 })},
		{"less than one counter", with(func(s *limiter.State) { s.Data[7] |= 3 << 6 })},
		{"newest counter is 0", with(func(s *limiter.State) { s.Data[10] = 0 })},
		{"width is 0", with(func(s *limiter.State) { clear(s.Data[:8]) })},
		{"newest sub-window starts 1 ns late", with(func(s *limiter.State) { s.Expires++ })},
		{"newest sub-window starts 1 ns early", with(func(s *limiter.State) { s.Expires-- })},
		{"misaligned start in the future", with(func(s *limiter.State) { s.Expires += 5*uint64(h) + 1 })},
		{"starts after the end of the clock", at(hours+3*uint64(h), good)},
		{"counts before the start of the clock", state(MaxPeriod, 0, 1, 1, 1)},
		{"too many counters", state(2*h, t0, 1, append(make([]uint64, MaxParts), 1)...)},
		{"expired", at(now, good)},
		// Without overflow checks, the computed start of these states would be in range.
		{"total length exceeds 64 bits", at(1<<62-5, state(MaxPeriod, 0, 1, 0, 0, 0, 0, 1))},
		{"total length exceeds Expires", at(1<<61, state(1<<61, 0, 1, 0, 0, 0, 0, 0, 1))},
	} {
		for _, l := range []*limiter.Limit{mustLimit(t, 100, 3*h, 3), mustLimit(t, 100, 24*h, 1)} {
			if _, d := Count(l, tt.old, now, 0, nil); d.Remaining != 100 || d.ResetAfter != 0 {
				t.Errorf("%s: peek: %+v, want the whole limit", tt.name, d)
			}
			ch, _ := Count(l, tt.old, now, 7, nil)
			fresh, _ := Count(l, limiter.State{}, now, 7, nil)
			if ch.Keep != 0 || ch.Expires != fresh.Expires || !bytes.Equal(ch.Tail, fresh.Tail) {
				t.Errorf("%s: charge: the change is %+v, want the change for an absent state, %+v", tt.name, ch, fresh)
			}
		}
	}
	// The units of similar states that are well formed must count.
	for _, old := range []limiter.State{
		good,
		at(hours-uint64(h)+3*uint64(h), good),
		state(MaxPeriod, 0, 1, 0, 6),
		state(2*h, t0, 1, append(make([]uint64, MaxParts-1), 6)...),
	} {
		if _, d := Count(mustLimit(t, 100, 3*h, 3), old, now, 0, nil); d.Remaining > 95 {
			t.Errorf("the well-formed state %d %x is ignored: %+v", old.Expires, old.Data, d)
		}
	}
}

// TestClockBehind checks decisions on states whose newest sub-window starts in the future. The
// decisions must use that start as the current time.
func TestClockBehind(t *testing.T) {
	now := t0 - uint64(h/2)
	peek := func(name string, d limiter.Decision, limited bool, left int64, retry, reset time.Duration) {
		t.Helper()
		want := limiter.Decision{Limited: limited, Limit: 100, Remaining: left, RetryAfter: retry, ResetAfter: reset}
		if d != want {
			t.Errorf("%s: got %+v, want %+v", name, d, want)
		}
	}
	l, old := mustLimit(t, 100, h, 1), state(h, t0, 1, 60, 30)
	ch, d := Slide(l, old, now, 10, nil)
	peek("sliding, charge", d, false, 0, limiter.NoRetry, 5*h/2)
	if got, want := limitertest.After(old, ch), state(h, t0, 1, 60, 40); !equal(got, want) {
		t.Errorf("sliding, charge: got the Data %x, want %x", got.Data, want.Data)
	}
	_, d = Slide(l, old, now, 40, nil)
	peek("sliding, refused", d, true, 10, h, 5*h/2)
	_, d = Slide(mustLimit(t, 100, 2*h, 1), old, now, 20, nil)
	peek("sliding, converted", d, true, 10, h/2+20*time.Minute, 5*h/2)

	l, old = mustLimit(t, 100, 3*h, 3), state(h, t0, 1, 50, 0, 30)
	_, d = Count(l, old, now, 21, nil)
	peek("buckets, refused", d, true, 20, 3*h/2, 7*h/2)
	ch, d = Count(l, old, now, -31, nil)
	peek("buckets, refund", d, false, 51, limiter.NoRetry, 3*h/2)
	if got, want := limitertest.After(old, ch), state(h, t0-2*uint64(h), 1, 0, 0, 49); !equal(got, want) {
		t.Errorf("buckets, refund: got the Data %x, want %x", got.Data, want.Data)
	}
	// The wait exceeds the range of a Duration.
	old = state(h, math.MaxInt64/uint64(h)*uint64(h), 1, 0, 0, 100)
	_, d = Count(l, old, 0, 1, nil)
	peek("buckets, far ahead", d, true, 0, math.MaxInt64, math.MaxInt64)
}
