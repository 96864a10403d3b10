package window

import (
	"math"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/limiter/limitertest"
)

const (
	no = limiter.NoRetry
	m  = time.Minute
	h  = time.Hour
)

// play makes decisions on one key and returns the resulting state.
func play(t *testing.T, decide limitertest.Decide, l *limiter.Limit, s limiter.State, rows []limitertest.Row) limiter.State {
	t.Helper()
	return decide.Play(t, *l, s, t0, rows, nil)
}

// TestFixed continues the first example of the package comment: the whole limit is charged at the
// end of a window, and again at the start of the next window.
func TestFixed(t *testing.T) {
	play(t, Count, mustLimit(t, 100, h, 1), limiter.State{}, []limitertest.Row{
		{59 * m, 100, false, 0, no, m},
		{59 * m, 1, true, 0, m, m},
		{60*m - 1, 1, true, 0, 1, 1},
		{60 * m, 100, false, 0, no, h},
		{60 * m, 0, false, 0, no, h},
		{90 * m, -30, false, 30, no, 30 * m},
		{90 * m, 31, true, 30, 30 * m, 30 * m},
		{90 * m, 30, false, 0, no, 30 * m},
		{90 * m, 101, true, 0, no, 30 * m},
		{90 * m, -100, false, 100, no, 0},
		{90 * m, 101, true, 100, no, 0},
	})
}

// TestBuckets tests the second example: 100 an hour in 3 sub-windows of 20 minutes.
func TestBuckets(t *testing.T) {
	play(t, Count, mustLimit(t, 100, h, 3), limiter.State{}, []limitertest.Row{
		{5 * m, 60, false, 40, no, 55 * m},
		{25 * m, 40, false, 0, no, 55 * m},
		{59 * m, 1, true, 0, m, 21 * m},
		{60 * m, 60, false, 0, no, h},
		{60 * m, 1, true, 0, 20 * m, h},
		{60 * m, 40, true, 0, 20 * m, h},
		{60 * m, 41, true, 0, h, h},
		{80*m - 1, 40, true, 0, 1, 40*m + 1},
		{80 * m, 40, false, 0, no, h},
		{80 * m, -70, false, 70, no, 40 * m},
		{119 * m, 71, true, 70, m, m},
		{120 * m, 71, false, 29, no, h},
	})
}

// TestSliding tests the third example: 84 units in the previous hour and 36 in the first quarter
// of the current hour.
func TestSliding(t *testing.T) {
	const wait = 42_857_142_858 * time.Nanosecond
	play(t, Slide, mustLimit(t, 100, h, 1), state(h, t0, 1, 84, 36), []limitertest.Row{
		{15 * m, 1, false, 0, no, 105 * m},
		{15 * m, 1, true, 0, wait, 105 * m},
		{15 * m, 0, false, 0, no, 105 * m},
		{15*m + wait - 1, 1, true, 0, 1, 105*m - wait + 1},
		{15*m + wait, 0, false, 1, no, 105*m - wait},
		{45 * m, 0, false, 42, no, 75 * m},
	})
	// prev 80, curr 40, 3/4 elapsed: 60 are used.
	play(t, Slide, mustLimit(t, 100, h, 1), state(h, t0, 1, 80, 40), []limitertest.Row{
		{45 * m, 0, false, 40, no, 75 * m},
		{45 * m, 41, true, 40, 45 * time.Second, 75 * m},
		{45 * m, 100, true, 40, 75 * m, 75 * m},
		{45 * m, 70, true, 40, 15*m + 15*m, 75 * m}, // until the sliding window covers only 30 of the 40 units
		{45 * m, -40, false, 80, no, 15 * m},
		{45 * m, -81, false, 100, no, 0},
	})
	// The previous window counts completely at the start of the current one, and not at all at its
	// end.
	play(t, Slide, mustLimit(t, 100, h, 1), state(h, t0-uint64(h), 1, 0, 100), []limitertest.Row{
		{0, 0, false, 0, no, h},
		{1, 1, true, 0, 36*time.Second - 1, h - 1},
		{h - 1, 0, false, 99, no, 1},
		{h, 0, false, 100, no, 0},
	})
}

// TestLimitChanges decides on the same counts with different limits.
func TestLimitChanges(t *testing.T) {
	s := state(h, t0, 1, 0, 80)
	play(t, Slide, mustLimit(t, 100, h, 1), s, []limitertest.Row{{30 * m, 0, false, 20, no, 90 * m}})
	play(t, Slide, mustLimit(t, 80, h, 1), s, []limitertest.Row{{30 * m, 0, false, 0, no, 90 * m}})
	// More units are used than the limit allows. Even a peek is refused until the used units fall to
	// the limit.
	play(t, Slide, mustLimit(t, 60, h, 1), s, []limitertest.Row{
		{30 * m, 0, true, 0, 45 * m, 90 * m},
		{30 * m, 1, true, 0, 45*m + 45*time.Second, 90 * m},
		{30 * m, 61, true, 0, no, 90 * m},
		{30 * m, -15, false, 0, no, 90 * m},
		{30 * m, -15, false, 10, no, 90 * m},
	})
	s = state(20*m, t0, 1, 30, 0, 50)
	play(t, Count, mustLimit(t, 60, h, 3), s, []limitertest.Row{
		{10 * m, 0, true, 0, 10 * m, 50 * m},
		{10 * m, 11, true, 0, 50 * m, 50 * m},
	})
	play(t, Count, mustLimit(t, 1<<40, h, 3), s, []limitertest.Row{
		{10 * m, 1, false, 1<<40 - 81, no, 50 * m},
	})
}

// TestParametersChange changes the parameters of the sub-windows, separately and together.
func TestParametersChange(t *testing.T) {
	none := limiter.State{}
	for _, tt := range []struct {
		name   string
		decide limitertest.Decide
		limit  int64
		period time.Duration
		parts  int64
		old    limiter.State
		calls  []limitertest.Row
		want   limiter.State // after the calls, if one of them stores a state
	}{
		// 60 units are in the hour from t0. At 30 m this hour has not ended, so the units count as of 30 m.
		{"fixed to buckets", Count, 100, h, 3, state(h, t0, 1, 60),
			[]limitertest.Row{{30 * m, 1, false, 39, no, 50 * m}}, state(20*m, t0+uint64(20*m), 1, 0, 0, 61)},
		// Without a charge, the 60 units count as of the time of each request, but expire at 60 m.
		{"fixed to buckets, refused", Count, 60, h, 3, state(h, t0, 1, 60),
			[]limitertest.Row{{30 * m, 1, true, 0, 30 * m, 30 * m}, {50 * m, 1, true, 0, 10 * m, 10 * m}, {h, 1, false, 59, no, h}},
			state(20*m, t0+uint64(h), 1, 0, 0, 1)},
		{"fixed to a shorter period", Count, 100, 10 * m, 1, state(h, t0, 1, 60),
			[]limitertest.Row{{30 * m, 0, false, 40, no, 30 * m}, {30 * m, 1, false, 39, no, 10 * m}},
			state(10*m, t0+uint64(30*m), 1, 61)},
		{"fixed to a longer period", Count, 100, 24 * h, 1, state(h, t0, 1, 60),
			[]limitertest.Row{{30 * m, 50, true, 40, 30 * m, 30 * m}, {30 * m, 1, false, 39, no, 24*h - 30*m}},
			state(24*h, t0, 1, 61)},
		// 10, 20 and 30 units are in sub-windows that end at 20 m, 40 m and 60 m.
		{"buckets to fixed", Count, 100, h, 1, state(20*m, t0+uint64(40*m), 1, 10, 20, 30),
			[]limitertest.Row{{50 * m, 1, false, 39, no, 10 * m}}, state(h, t0, 1, 61)},
		{"buckets to fixed, too late", Count, 100, h, 1, state(20*m, t0+uint64(40*m), 1, 10, 20, 30),
			[]limitertest.Row{{70 * m, 1, false, 99, no, 50 * m}}, state(h, t0+uint64(h), 1, 1)},
		{"buckets to more and shorter sub-windows", Count, 100, h, 6, state(20*m, t0+uint64(40*m), 1, 10, 20, 30),
			[]limitertest.Row{{55 * m, 71, true, 40, 45 * m, 45 * m}, {55 * m, 1, false, 39, no, 55 * m}},
			state(10*m, t0+uint64(50*m), 1, 0, 10, 0, 20, 0, 31)},
		{"buckets to fewer of the same length", Count, 100, 40 * m, 2, state(20*m, t0+uint64(40*m), 1, 10, 20, 30),
			[]limitertest.Row{{50 * m, 1, false, 49, no, 30 * m}}, state(20*m, t0+uint64(40*m), 1, 20, 31)},
		{"buckets to more of the same length", Count, 100, 80 * m, 4, state(20*m, t0+uint64(40*m), 1, 10, 20, 30),
			[]limitertest.Row{{50 * m, 1, false, 39, no, 70 * m}}, state(20*m, t0+uint64(40*m), 1, 0, 10, 20, 31)},
		{"buckets to lengths that do not divide", Count, 100, 75 * m, 5, state(20*m, t0+uint64(40*m), 1, 10, 20, 30),
			[]limitertest.Row{{50 * m, 1, false, 39, no, 70 * m}}, state(15*m, t0+uint64(45*m), 1, 0, 0, 10, 20, 31)},
		// 40 units are in the window that ends at 60 m, and 30 in the window that ends at 120 m.
		{"sliding to longer", Slide, 100, 2 * h, 1, state(h, t0+uint64(h), 1, 40, 30),
			[]limitertest.Row{{75 * m, 1, false, 29, no, 165 * m}}, state(2*h, t0, 1, 0, 71)},
		{"sliding to shorter", Slide, 50, h / 2, 1, state(h, t0+uint64(h), 1, 40, 30), []limitertest.Row{
			{75 * m, 10, true, 0, 7*m + 30*time.Second, 75 * m}, // until the sliding window covers only 10 of the 40 units
			{75 * m, 30, true, 0, 55 * m, 75 * m},               // until the sliding window covers only 20 of the 30 units, which are then in the window that starts at 90 m
		}, none},
		// 40 units are in the sub-window that ends at 80 m, and 30 in the one that ends at 100 m.
		// At 85 m, both counts are in the window that ends at 90 m, but the 30 units may move to
		// the next window.
		{"sliding, moving", Slide, 100, 90 * m, 1, state(20*m, t0+uint64(80*m), 1, 40, 30), []limitertest.Row{
			{85 * m, 40, true, 30, 27*m + 30*time.Second, 35 * m}, // until the sliding window covers only 30 of the 40 units
			{85 * m, 71, true, 30, 35 * m, 35 * m},                // the state has expired by then
			{85 * m, -1, false, 31, no, 95 * m},
		}, state(90*m, t0, 1, 0, 69)},
		{"all parameters", Count, 1000, 36 * m, 3, state(20*m, t0+uint64(40*m), 1, 10, 20, 30),
			[]limitertest.Row{{59 * m, 900, false, 50, no, 25 * m}}, state(12*m, t0+uint64(48*m), 2, 0, 20, 930)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := play(t, tt.decide, mustLimit(t, tt.limit, tt.period, tt.parts), tt.old, tt.calls)
			if tt.want.Data != nil && !equal(got, tt.want) {
				t.Errorf("got the state %d %x (Expires, Data), want %d %x", got.Expires, got.Data, tt.want.Expires, tt.want.Data)
			}
		})
	}
}

// TestExtremes covers extreme times, limits, periods and quantities.
func TestExtremes(t *testing.T) {
	const most = math.MaxInt64
	last := endOfTime
	l := mustLimit(t, most, MaxPeriod, 1)
	for _, decide := range []limitertest.Decide{Slide, Count} {
		ch, d := decide(l, limiter.State{}, last, most, nil)
		if d.Limited || d.Remaining != 0 || ch.Expires != last+uint64(d.ResetAfter) {
			t.Errorf("charge of the whole limit at the last time: %+v, %+v; want an admitted request that expires at the reset", ch, d)
		}
		s := limitertest.After(limiter.State{}, ch)
		if _, d := decide(l, s, last, most, nil); !d.Limited || d.RetryAfter != d.ResetAfter {
			t.Errorf("charge to an exhausted limit at the last time: %+v; want a refusal until the reset", d)
		}
		if ch, d := decide(l, s, last, math.MinInt64, nil); d.Remaining != most || ch.Expires > last {
			t.Errorf("full refund at the last time: %+v, %+v; want an expired state", ch, d)
		}
		if ch, d := decide(l, limiter.State{}, 0, 1, nil); d.Remaining != most-1 || ch.Expires != uint64(d.ResetAfter) {
			t.Errorf("charge at time 0: %+v, %+v; want one unit less", ch, d)
		}
	}
	// A conversion does not access sub-windows before time 0, since none exist.
	for _, width := range []time.Duration{h, 7 * m, 2 * h} {
		l := mustLimit(t, 100, 4*width, 4)
		if _, d := Count(l, state(h, 0, 1, 0, 0, 0, 60), uint64(59*m), 1, nil); d.Remaining != 39 {
			t.Errorf("charge in the first hour with the limit %+v: the decision is %+v; want 39 units remaining", l, d)
		}
	}
	// Counts whose sum exceeds 64 bits saturate, even if a conversion adds them up.
	s := state(h, t0, 8, math.MaxUint64, math.MaxUint64)
	for _, l := range []*limiter.Limit{mustLimit(t, most, 2*h, 2), mustLimit(t, most, 24*h, 1)} {
		ch, d := Count(l, s, t0+uint64(m), math.MinInt64, nil)
		if !ch.Set || d.Limited || d.Remaining != 0 {
			t.Errorf("limit %+v, quantity math.MinInt64: %+v, %+v; want 0 units remaining", l, ch, d)
		}
	}
}
