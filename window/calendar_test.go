package window

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/limiter/limitertest"
)

var calendar = limitertest.Decide(Calendar)

// monday is the start of the windows in the tests, in nanoseconds.
const monday = uint64(1_700_000_000_000_000_000)

// until returns a limit for the window that ends at a time after monday. It starts before monday, unless the end is more
// than 800 hours after it.
func until(limit int64, end time.Duration) limiter.Limit {
	return between(limit, end-800*time.Hour, end)
}

// between returns a limit for the window between two times after monday.
func between(limit int64, start, end time.Duration) limiter.Limit {
	return limiter.Limit{Max: limit, Amount: int64(monday) + int64(end), Interval: end - start}
}

// counted returns a state of Calendar.
func counted(expires, count uint64) limiter.State {
	return limiter.State{Expires: expires, Data: binary.LittleEndian.AppendUint64(nil, count)}
}

func TestNewCalendarLimit(t *testing.T) {
	for _, tt := range []struct {
		limit      int64
		start, end uint64
		ok         bool
	}{
		{1, 1, 2, true},
		{1, 0, 2, true},
		{math.MaxInt64, 5, math.MaxInt64, true},
		{0, 1, 2, false},
		{-1, 1, 2, false},
		{1, 2, 2, false},
		{1, 3, 2, false},
		{1, 3, math.MaxInt64 + 1, false},
	} {
		l, err := NewCalendarLimit(tt.limit, tt.start, tt.end)
		want := limiter.Limit{Max: tt.limit, Interval: time.Duration(tt.end - tt.start), Amount: int64(tt.end)}
		if tt.ok && (err != nil || l != want) || !tt.ok && !errors.Is(err, limiter.ErrRange) {
			t.Errorf("NewCalendarLimit(%d, %d, %d) = %+v, %v", tt.limit, tt.start, tt.end, l, err)
		}
	}
}

// TestCalendar checks a window that ends after two hours, and the window after it, which ends an hour later.
func TestCalendar(t *testing.T) {
	const never, h, m = limiter.NoRetry, time.Hour, time.Minute
	s := calendar.Play(t, between(5, -6*h, 2*h), limiter.State{}, monday, []limitertest.Row{
		{0, 0, false, 5, never, 0},
		{0, 3, false, 2, never, 2 * h},
		{m, 3, true, 2, 119 * m, 119 * m},
		{m, 6, true, 2, never, 119 * m},
		{m, 2, false, 0, never, 119 * m},
		{h, 0, false, 0, never, h},
		{h, 1, true, 0, h, h},
		{h, -1, false, 1, never, h},
		{2*h - 1, 1, false, 0, never, 1},
		{2 * h, 4, false, 1, never, 9 * h}, // decided after the end of the window for which the limit was made
		{2*h + m, 2, true, 1, 9*h - m, 9*h - m},
	}, nil)
	calendar.Play(t, between(5, 2*h, 3*h), s, monday, []limitertest.Row{
		{2*h + m, 1, false, 0, never, 59 * m},
		{2*h + m, 1, true, 0, 59 * m, 59 * m},
		{2*h + m, -9, false, 5, never, 0},
	}, nil)
}

// TestCalendar_Changes checks limits that change while a key is in use: other maximums, and other ends of the window.
func TestCalendar_Changes(t *testing.T) {
	const never, h = limiter.NoRetry, time.Hour
	five := calendar.Run(t, until(5, 2*h), limiter.State{}, monday, 5).After()
	for _, tt := range []struct {
		name string
		l    limiter.Limit
		rows []limitertest.Row
	}{
		{"5 to 8 gives exactly 3 more", until(8, 2*h), []limitertest.Row{{0, 4, true, 3, 2 * h, 2 * h}, {0, 3, false, 0, never, 2 * h}, {0, 1, true, 0, 2 * h, 2 * h}}},
		{"5 to 3 refuses until the end", until(3, 2*h), []limitertest.Row{{h, 0, true, 0, h, h}, {h, 1, true, 0, h, h}}},
		{"a later end counts from the next charge on", until(8, 4*h), []limitertest.Row{{h, 0, false, 3, never, h}, {h, 4, true, 3, h, h}, {h, 1, false, 2, never, 3 * h}}},
		{"a charge does not shorten the window", until(8, h), []limitertest.Row{{0, 0, false, 3, never, 2 * h}, {0, 1, false, 2, never, 2 * h}, {h, 3, true, 2, h, h}}},
		{"an end long ago", between(8, -100*h, -99*h), []limitertest.Row{{0, 1, false, 2, never, 2 * h}, {2 * h, 1, false, 7, never, h}}},
		{"a window that starts when the other one ends", between(8, 2*h, 3*h), []limitertest.Row{{h, 0, false, 8, never, 0}, {h, 3, false, 5, never, 2 * h}, {h, 6, true, 5, 2 * h, 2 * h}}},
		{"a window that starts before the other one ends", between(8, 2*h-1, 3*h), []limitertest.Row{{h, 0, false, 3, never, h}, {h, 4, true, 3, h, h}}},
	} {
		t.Run(tt.name, func(t *testing.T) { calendar.Play(t, tt.l, five, monday, tt.rows, nil) })
	}
}

// TestCalendar_KeepsCounts makes random charges under limits with random ends, and checks this guarantee: the units that
// were charged before the end of their window, and have not been refunded, are at most the largest limit so far, and a
// charge is admitted only if they and its quantity are at most its limit.
func TestCalendar_KeepsCounts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 17))
	for range 500 {
		var s limiter.State
		var charges []calendarCharge
		now := monday
		for range 100 {
			now += r.Uint64N(uint64(time.Hour))
			l := until(1+r.Int64N(20), time.Duration(now-monday)+1+time.Duration(r.Int64N(int64(5*time.Hour))))
			quantity := 1 + r.Int64N(4)
			used := int64(0)
			for _, c := range charges {
				if c.end > now {
					used += c.quantity
				}
			}
			c := calendar.Run(t, l, s, now, quantity)
			c.Expect(c.Got.Limited || used+quantity <= l.Max, "a count is dropped before the end of its window", used)
			if s = c.After(); c.Change.Set {
				charges = append(charges, calendarCharge{uint64(l.Amount), quantity})
			}
		}
	}
}

// TestCalendar_Lag plays the edges of three windows, of days or months, with limiter time behind the wall clock and ahead
// of it. Limits are made by the wall clock. Each window admits its limit exactly once.
func TestCalendar_Lag(t *testing.T) {
	const hour, day, ms = time.Hour, 24 * time.Hour, time.Millisecond
	for _, edges := range [][]time.Duration{
		{0, day, 2 * day, 3 * day}, {hour, day, 49 * hour, 73 * hour}, // days of 24, or of 23 and 25 hours
		{0, 28 * day, 59 * day, 89 * day}, {0, 31 * day, 59 * day, 90 * day},
	} {
		for _, lag := range []time.Duration{0, 20 * ms, 10 * time.Minute, 13 * time.Hour, -20 * ms, -10 * time.Minute} {
			p := laggingClock{t, edges, lag, limiter.State{}}
			before := min(lag, 0) // from the end of a window by limiter time, if that is ahead, to its end by wall clock
			got := [][]int{
				{p.admit(edges[1]-15*hour, 4), p.admit(edges[1]+before-1, 9)},
				{p.admit(edges[1]+before, 2), p.admit(edges[1], 2), p.admit(edges[1]+hour, 9), p.admit(edges[2]+before-1, 9)},
				{p.admit(edges[2], 3), p.admit(edges[2]+hour, 9), p.admit(edges[3]+before-1, 9)},
			}
			if got[1][0]+got[1][1] != 4 || got[2][0] != 3 {
				t.Errorf("windows %v, lag %v: %v requests are admitted: units of an earlier window are still used", edges, lag, got)
			}
			for _, counts := range got {
				sum := 0
				for _, n := range counts {
					sum += n
				}
				if sum != 5 {
					t.Errorf("windows %v, lag %v: %v requests are admitted, want 5 in each window", edges, lag, got)
				}
			}
		}
	}
}

// laggingClock decides requests at a limiter time that lags behind the wall clock. A negative lag means that it is ahead.
type laggingClock struct {
	testing.TB
	edges []time.Duration // of windows by wall clock
	lag   time.Duration
	state limiter.State
}

// admit makes requests for one unit at a wall time, and returns the number of those that are admitted.
func (p *laggingClock) admit(wall time.Duration, requests int) (admitted int) {
	i := 1
	for i < len(p.edges)-1 && p.edges[i] <= wall {
		i++
	}
	for range requests {
		c := calendar.Run(p, between(5, p.edges[i-1], p.edges[i]), p.state, monday+uint64(wall-p.lag), 1)
		if p.state = c.After(); !c.Got.Limited {
			admitted++
		}
	}
	return admitted
}

// calendarCharge is a charge and the end of its window.
type calendarCharge struct {
	end      uint64
	quantity int64
}

// checkCalendar tests a decision against the rules that hold for all algorithms, and against a fixed window of the same
// count.
func checkCalendar(t *testing.T, l limiter.Limit, old limiter.State, now uint64, quantity int64) {
	c := calendar.Run(t, l, old, now, quantity)
	if old.Expires > now && len(old.Data) >= calendarSize && binary.LittleEndian.Uint64(old.Data) == 0 {
		return // Calendar does not store a count of 0
	}
	if max(old.Expires, now)-now >= math.MaxInt64 {
		c.CheckNow()
	} else {
		c.Check()
	}
	start := uint64(l.Amount) - min(uint64(l.Amount), uint64(l.Interval))
	c.Expect(!c.Change.Set || quantity < 0 || len(old.Data) != calendarSize || old.Expires <= start || c.Change.Expires >= old.Expires, "the window became shorter")
	c.Expect(!c.Change.Set || quantity < 0 || c.Change.Expires >= uint64(l.Amount), "the window ends before its end")
}

// anyCalendar draws a limit of Calendar and a state.
func anyCalendar(r *rand.Rand) (limiter.Limit, limiter.State, uint64) {
	now := uint64(limitertest.AnyInt(r)) & math.MaxInt64 >> 2
	l := limiter.Limit{Max: limitertest.Within(limitertest.AnyInt(r), math.MaxInt64), Interval: time.Duration(limitertest.Within(limitertest.AnyInt(r), math.MaxInt64>>2))}
	l.Amount = int64(now>>1 + r.Uint64N(now+2))
	s := counted(now+uint64(limitertest.AnyInt(r)), uint64(limitertest.AnyInt(r)))
	if r.UintN(2) == 0 {
		s = counted(now+r.Uint64N(1e15), r.Uint64N(uint64(l.Max))+r.Uint64N(3))
	}
	if r.UintN(4) == 0 {
		s.Data = binary.LittleEndian.AppendUint64(s.Data, now>>1+r.Uint64N(now+2))
	}
	if r.UintN(10) == 0 {
		s.Data = s.Data[:r.IntN(len(s.Data))]
	}
	return l, s, now
}

func TestCalendar_Properties(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 17))
	for range limitertest.Steps(200_000) {
		l, s, now := anyCalendar(r)
		checkCalendar(t, l, s, now, limitertest.AnyQuantity(r, l))
	}
}

func FuzzCalendar(f *testing.F) {
	for _, quantity := range []int64{1, 3, 5, 6, 0, -1, -9, math.MinInt64} {
		f.Add(int64(5), int64(monday+9e9), int64(1e9), monday+9e9, uint64(3), monday, quantity)
		f.Add(int64(5), int64(monday+9e9), int64(1e9), monday+5e9, uint64(7), monday, quantity)
		f.Add(int64(5), int64(monday-9e9), int64(1e9), monday, uint64(3), monday, quantity)
	}
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), int64(1), uint64(math.MaxUint64), uint64(math.MaxUint64), uint64(0), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, limit, end, next int64, expires, count, now uint64, quantity int64) {
		l := limiter.Limit{Max: limitertest.Within(limit-1, math.MaxInt64), Interval: time.Duration(limitertest.Within(next, math.MaxInt64>>1)), Amount: limitertest.Within(end-1, math.MaxInt64>>1)}
		checkCalendar(t, l, counted(expires, count), now&(math.MaxInt64>>1), quantity)
	})
}

// TestCalendar_NoMax checks that a limit whose Max was lowered to 0 refuses each charge.
func TestCalendar_NoMax(t *testing.T) {
	for _, s := range []limiter.State{{}, counted(monday+5, 3)} {
		for _, quantity := range []int64{1, 5, math.MaxInt64} {
			c := calendar.Run(t, until(0, time.Hour), s, monday, quantity)
			c.Expect(c.Got.Limited && c.Got.Remaining == 0 && !c.Change.Set, "a limit of 0 admits")
		}
	}
}

func TestCalendar_AllocatesNothing(t *testing.T) {
	room := make([]byte, 0, openSize)
	s := counted(monday+9e9, 3)
	for _, l := range []limiter.Limit{until(5, time.Hour), until(5, 0)} {
		for _, quantity := range []int64{1, 0, 3, 6, -1} {
			limitertest.NoAllocs(t, "Calendar", func() { Calendar(&l, s, monday, quantity, room) })
			limitertest.NoAllocs(t, "Calendar", func() { Calendar(&l, limiter.State{}, monday, quantity, room) })
		}
	}
}

func BenchmarkCalendar(b *testing.B) {
	room := make([]byte, 0, calendarSize)
	l, s := until(5, time.Hour), counted(monday+9e9, 3)
	b.ReportAllocs()
	for b.Loop() {
		Calendar(&l, s, monday, 1, room)
	}
}
