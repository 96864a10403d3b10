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

// until returns a limit for the window that ends at a time after monday. The next window is an hour long.
func until(limit int64, end time.Duration) limiter.Limit {
	return limiter.Limit{Max: limit, Amount: int64(monday) + int64(end), Interval: time.Hour}
}

// counted returns a state of Calendar.
func counted(expires, count uint64) limiter.State {
	return limiter.State{Expires: expires, Data: binary.LittleEndian.AppendUint64(nil, count)}
}

func TestNewCalendarLimit(t *testing.T) {
	for _, tt := range []struct {
		limit     int64
		end, next uint64
		ok        bool
	}{
		{1, 1, 2, true},
		{math.MaxInt64, 5, math.MaxInt64, true},
		{0, 1, 2, false},
		{-1, 1, 2, false},
		{1, 0, 2, false},
		{1, 2, 2, false},
		{1, 3, 2, false},
		{1, 3, math.MaxInt64 + 1, false},
	} {
		l, err := NewCalendarLimit(tt.limit, tt.end, tt.next)
		want := limiter.Limit{Max: tt.limit, Interval: time.Duration(tt.next - tt.end), Amount: int64(tt.end)}
		if tt.ok && (err != nil || l != want) || !tt.ok && !errors.Is(err, limiter.ErrRange) {
			t.Errorf("NewCalendarLimit(%d, %d, %d) = %+v, %v", tt.limit, tt.end, tt.next, l, err)
		}
	}
}

// TestCalendar checks a window that ends after two hours, and the window after it, which ends an hour later.
func TestCalendar(t *testing.T) {
	const never, h, m = limiter.NoRetry, time.Hour, time.Minute
	s := calendar.Play(t, until(5, 2*h), limiter.State{}, monday, []limitertest.Row{
		{0, 0, false, 5, never, 0},
		{0, 3, false, 2, never, 2 * h},
		{m, 3, true, 2, 119 * m, 119 * m},
		{m, 6, true, 2, never, 119 * m},
		{m, 2, false, 0, never, 119 * m},
		{h, 0, false, 0, never, h},
		{h, 1, true, 0, h, h},
		{h, -1, false, 1, never, h},
		{2*h - 1, 1, false, 0, never, 1},
		{2 * h, 5, false, 0, never, h}, // decided after the end of the window for which the limit was made
		{2*h + m, 1, true, 0, 59 * m, 59 * m},
	}, nil)
	calendar.Play(t, until(5, 3*h), s, monday, []limitertest.Row{
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
		{"an end long ago", until(8, -100*h), []limitertest.Row{{0, 1, false, 2, never, 2 * h}, {2 * h, 1, false, 7, never, h}}},
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

// calendarCharge is a charge and the end of its window.
type calendarCharge struct {
	end      uint64
	quantity int64
}

// checkCalendar tests a decision against the rules that hold for all algorithms, and against a fixed window of the same
// count.
func checkCalendar(t *testing.T, l limiter.Limit, old limiter.State, now uint64, quantity int64) {
	c := calendar.Run(t, l, old, now, quantity)
	if old.Expires > now && len(old.Data) == calendarSize && binary.LittleEndian.Uint64(old.Data) == 0 {
		return // Calendar does not store a count of 0
	}
	if max(old.Expires, now)-now >= math.MaxInt64 {
		c.CheckNow()
	} else {
		c.Check()
	}
	c.Expect(!c.Change.Set || quantity < 0 || len(old.Data) != calendarSize || c.Change.Expires >= old.Expires, "the window became shorter")
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
	if r.UintN(10) == 0 {
		s.Data = s.Data[:r.IntN(8)]
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
	room := make([]byte, 0, calendarSize)
	l, s := until(5, time.Hour), counted(monday+9e9, 3)
	for _, quantity := range []int64{1, 0, 3, 6, -1} {
		limitertest.NoAllocs(t, "Calendar", func() { Calendar(&l, s, monday, quantity, room) })
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
