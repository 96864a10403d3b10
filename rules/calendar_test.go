package rules

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/throttledhq/throttled/limiter"
)

// location loads a time zone.
func location(t testing.TB, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// zones are time zones with different rules: no change of the clock, changes at night, at midnight and by half an hour,
// offsets that are not whole hours, and a skipped day.
var zones = []string{"UTC", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Asia/Kathmandu", "Australia/Lord_Howe",
	"Asia/Beirut", "America/Havana", "Africa/Cairo", "Pacific/Apia", "Pacific/Kiritimati", "Pacific/Marquesas", "America/St_Johns", "Asia/Tehran"}

// TestCalendar_Ends checks the ends of windows at days that are special.
func TestCalendar_Ends(t *testing.T) {
	for _, tt := range []struct {
		period   string
		zone     string
		anchor   int
		now, end string
	}{
		{"day", "UTC", 0, "2026-11-23T14:00:00Z", "2026-11-24T00:00:00Z"},
		{"day", "UTC", 0, "2026-11-24T00:00:00Z", "2026-11-25T00:00:00Z"},
		{"day", "Europe/Berlin", 0, "2026-03-29T00:30:00+01:00", "2026-03-30T00:00:00+02:00"}, // 23 hours
		{"day", "Europe/Berlin", 0, "2026-10-25T00:00:00+02:00", "2026-10-26T00:00:00+01:00"}, // 25 hours
		{"day", "Europe/Berlin", 0, "2026-10-25T02:30:00+01:00", "2026-10-26T00:00:00+01:00"},
		{"day", "America/Sao_Paulo", 0, "2018-11-03T12:00:00-03:00", "2018-11-04T01:00:00-02:00"}, // there is no midnight
		{"day", "America/Sao_Paulo", 0, "2018-02-17T23:30:00-02:00", "2018-02-18T00:00:00-03:00"}, // 23:30 is shown twice
		{"day", "America/Sao_Paulo", 0, "2018-02-17T23:30:00-03:00", "2018-02-18T00:00:00-03:00"},
		{"day", "America/Havana", 0, "2026-11-01T00:30:00-04:00", "2026-11-02T00:00:00-05:00"}, // midnight is shown twice
		{"day", "Pacific/Apia", 0, "2011-12-29T12:00:00-10:00", "2011-12-31T00:00:00+14:00"},   // December 30 is skipped
		{"2 days", "UTC", 0, "1970-01-01T00:00:00Z", "1970-01-03T00:00:00Z"},
		{"2 days", "America/New_York", 0, "2026-11-23T14:00:00-05:00", "2026-11-25T00:00:00-05:00"},
		{"week", "Europe/Berlin", 0, "2026-11-23T00:00:00+01:00", "2026-11-30T00:00:00+01:00"}, // a Monday
		{"week", "Europe/Berlin", 0, "2026-11-22T23:59:59+01:00", "2026-11-23T00:00:00+01:00"},
		{"week", "UTC", 0, "2027-01-01T00:00:00Z", "2027-01-04T00:00:00Z"},
		{"week", "UTC", 0, "1970-01-01T00:00:00Z", "1970-01-05T00:00:00Z"},
		{"2 weeks", "UTC", 0, "1970-01-05T00:00:00Z", "1970-01-19T00:00:00Z"},
		{"month", "", 0, "2026-12-31T23:59:59Z", "2027-01-01T00:00:00Z"},
		{"month", "", 0, "2028-02-29T12:00:00Z", "2028-03-01T00:00:00Z"},
		{"month", "UTC", 15, "2026-11-14T23:59:59Z", "2026-11-15T00:00:00Z"},
		{"month", "UTC", 15, "2026-11-15T00:00:00Z", "2026-12-15T00:00:00Z"},
		{"month", "UTC", 31, "2026-01-31T00:00:00Z", "2026-02-28T00:00:00Z"}, // the last day of February
		{"month", "UTC", 31, "2026-02-28T00:00:00Z", "2026-03-31T00:00:00Z"},
		{"month", "UTC", 30, "2028-02-28T23:00:00Z", "2028-02-29T00:00:00Z"}, // a leap year
		{"month", "UTC", 29, "2027-02-27T23:00:00Z", "2027-02-28T00:00:00Z"},
		{"month", "Asia/Kathmandu", 1, "2026-12-31T18:14:59Z", "2027-01-01T00:00:00+05:45"},
		{"3 months", "UTC", 0, "2026-11-23T00:00:00Z", "2027-01-01T00:00:00Z"},
		{"3 months", "UTC", 31, "2026-11-23T00:00:00Z", "2027-01-31T00:00:00Z"},
		{"year", "America/New_York", 0, "2026-12-31T23:59:59-05:00", "2027-01-01T00:00:00-05:00"},
		{"4 years", "UTC", 0, "2026-06-01T00:00:00Z", "2030-01-01T00:00:00Z"},
		{"1200 years", "UTC", 0, "2026-06-01T00:00:00Z", "2262-04-11T23:47:16Z"}, // the last second of limiter time
		{"1200 months", "Europe/Berlin", 31, "2026-06-01T00:00:00Z", "2070-01-31T00:00:00+01:00"},
	} {
		l := &Limit{Algorithm: Algorithm{Kind: Fixed}, Anchor: tt.anchor}
		if tt.zone != "" {
			l.Zone = location(t, tt.zone)
		}
		c := counter(t, l, "5 per "+tt.period)
		now, err1 := time.Parse(time.RFC3339, tt.now)
		want, err2 := time.Parse(time.RFC3339, tt.end)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		limit := c.LimitAt(now, false)
		if got := time.Unix(0, limit.Amount).In(want.Location()); c.Kind != limiter.Calendar || !got.Equal(want) || limit.Max != 5 {
			t.Errorf("%s in %s, anchor %d: the window of %s ends at %v, want %s", tt.period, tt.zone, tt.anchor, tt.now, got, tt.end)
		}
		start := time.Unix(0, limit.Amount-int64(limit.Interval))
		if at := c.LimitAt(start, false).Amount; start.After(now) || at != limit.Amount {
			t.Errorf("%s in %s: the window of %s starts at %v, whose window ends at %v", tt.period, tt.zone, tt.now, start.In(want.Location()), at)
		}
		if before := c.LimitAt(start.Add(-time.Second), false).Amount; start.Unix() > 0 && before != start.UnixNano() {
			t.Errorf("%s in %s: the window before that of %s ends at %v, and this window starts at %v", tt.period, tt.zone, tt.now, before, start.UnixNano())
		}
	}
}

// windowStart returns the date on which the window of a date starts. It is an oracle: it steps back day by day.
func windowStart(c *calendar, y int, m time.Month, d int) time.Time {
	day := time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	for !isStart(c, day) {
		day = day.AddDate(0, 0, -1)
	}
	return day
}

// isStart reports whether a window starts on a date.
func isStart(c *calendar, day time.Time) bool {
	switch c.period.Unit {
	case Day:
		return day.Sub(time.Unix(0, 0)).Hours()/24 == float64(int64(day.Sub(time.Unix(0, 0)).Hours()/24)/c.period.N*c.period.N)
	case Week:
		days := int64(day.Sub(time.Date(1970, 1, 5, 0, 0, 0, 0, time.UTC)).Hours() / 24)
		return day.Weekday() == time.Monday && days%(7*c.period.N) == 0
	case Month:
		last := day.AddDate(0, 0, 1).Month() != day.Month()
		anchor := max(c.anchor, 1)
		months := int64(day.Year()-1970)*12 + int64(day.Month()) - 1
		return (day.Day() == anchor || last && day.Day() < anchor) && months%c.period.N == 0
	}
	return day.YearDay() == 1 && int64(day.Year()-1970)%c.period.N == 0
}

// endByClock returns the end of the window of a time. It is an oracle: it looks at a clock in the zone every 15 minutes
// until the clock shows a date in a later window.
func endByClock(c *calendar, zone *time.Location, now time.Time) time.Time {
	y, m, d := now.In(zone).Date()
	start := windowStart(c, y, m, d)
	shown := func(t time.Time) time.Time {
		y, m, d := t.In(zone).Date()
		return time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	}
	next := start.AddDate(0, 0, 1)
	for !isStart(c, next) {
		next = next.AddDate(0, 0, 1)
	}
	t := now.Truncate(15 * time.Minute).Add(15 * time.Minute)
	if far := next.AddDate(0, 0, -3); far.After(t) {
		t = far // clocks differ from UTC by less than three days
	}
	for shown(t).Before(next) {
		t = t.Add(15 * time.Minute)
	}
	return t
}

// end returns the end of the window of a time.
func (c *calendar) end(now int64) int64 {
	_, end := c.window(now)
	return end
}

// checkStart checks that the window of a time starts when the clock first shows the date of the start.
func checkStart(t testing.TB, c *calendar, zone *time.Location, now time.Time) {
	t.Helper()
	y, m, d := now.In(zone).Date()
	date := windowStart(c, y, m, d)
	seconds, _ := c.window(now.Unix())
	start := time.Unix(seconds, 0)
	shows := func(t time.Time) bool {
		y, m, d := t.In(zone).Date()
		return !time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Before(date)
	}
	if start.After(now) || seconds > 0 && (!shows(start) || shows(start.Add(-time.Second))) {
		t.Fatalf("%v in %v, anchor %d: the window of %v starts at %v, want the start of %v", c.period, zone, c.anchor, now.In(zone), start.In(zone), date)
	}
}

// TestCalendar_Oracle compares starts and ends of windows with the oracle, at random times and near changes of the clock.
func TestCalendar_Oracle(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 18))
	for _, name := range zones {
		zone := location(t, name)
		for range 1500 {
			c := calendar{Period{1 + r.Int64N(3), []Unit{Day, Day, Week, Month, Month, Year}[r.IntN(6)]}, zone, r.IntN(32)}
			now := time.Unix(600_000_000+r.Int64N(2_600_000_000), 0) // 1989 to 2071
			_, change := now.In(zone).ZoneBounds()
			if r.UintN(4) == 0 {
				change = time.Date(2040+4*r.IntN(6), 12, 31, 0, 0, 0, 0, time.UTC) // see firstShown
			}
			if r.UintN(2) == 0 && !change.IsZero() {
				now = change.Add(time.Duration(r.Int64N(int64(60*time.Hour))) - 30*time.Hour)
			}
			got, want := time.Unix(c.end(now.Unix()), 0), endByClock(&c, zone, now)
			if !got.Equal(want) {
				t.Fatalf("%v in %s, anchor %d: the window of %v ends at %v, want %v", c.period, name, c.anchor, now.In(zone), got.In(zone), want.In(zone))
			}
			checkStart(t, &c, zone, now)
		}
	}
}

// TestCalendar_Partition checks that the end of a window is the start of the next one: for all times in between, the
// end is the same. At a change of the clock around midnight, a date may be shown again; such days are left out.
func TestCalendar_Partition(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 18))
	for _, name := range []string{"UTC", "Europe/Berlin", "Asia/Kathmandu", "Australia/Lord_Howe"} {
		for _, unit := range []Unit{Day, Week, Month, Year} {
			c := calendar{Period{1 + r.Int64N(3), unit}, location(t, name), 31}
			begin := c.end(1_000_000_000)
			for range 200 {
				end := c.end(begin)
				if end == lastSecond {
					break
				}
				for range 20 {
					at := begin + r.Int64N(end-begin)
					if start, got := c.window(at); start != begin || got != end {
						t.Fatalf("%v in %s: the window of %d is from %d to %d, want %d to %d", c.period, name, at, start, got, begin, end)
					}
				}
				begin = end
			}
		}
	}
}

// FuzzCalendar checks that the end of a window is after each time in it, that windows have about the right length, and
// that the limit can be used by the engine.
func FuzzCalendar(f *testing.F) {
	for i, unit := range []Unit{Day, Week, Month, Year} {
		f.Add(int64(1), uint8(unit), uint8(i), uint8(31), int64(1_700_000_000))
		f.Add(int64(1200), uint8(unit), uint8(i), uint8(1), int64(0))
		f.Add(int64(2), uint8(unit), uint8(3+i), uint8(0), int64(1541300400))
	}
	f.Add(int64(106751), uint8(Day), uint8(0), uint8(0), int64(1))
	f.Add(int64(15250), uint8(Week), uint8(0), uint8(0), lastSecond-1)
	f.Fuzz(func(t *testing.T, n int64, unit, zone, anchor uint8, now int64) {
		p := Period{1 + int64(uint64(n)%1200), Day + Unit(unit)%4}
		now = int64(uint64(now) % uint64(lastSecond-400*daySeconds))
		c := counter(t, &Limit{Algorithm: Algorithm{Kind: Fixed}, Zone: location(t, zones[int(zone)%len(zones)]), Anchor: int(anchor) % 32},
			fmt.Sprintf("5 per %v", p))
		limit := c.LimitAt(time.Unix(now, 999_999_999), true)
		end := limit.Amount / 1e9
		longest := map[Unit]int64{Day: 1, Week: 7, Month: 32, Year: 366}[p.Unit]*p.N + 2
		start := (limit.Amount - int64(limit.Interval)) / 1e9
		if end <= now || end-now > longest*daySeconds && end != lastSecond || limit.Interval < 1 || start < 0 || start > now {
			t.Errorf("%v in %s: the window of %d ends at %d, and is %v long", p, c.calendar.zone, now, end, limit.Interval)
		}
	})
}

// TestCalendar_NoAllocation checks that LimitAt does not allocate, also after the last known change of the clock.
func TestCalendar_NoAllocation(t *testing.T) {
	for _, period := range []string{"day", "2 weeks", "month", "year"} {
		c := counter(t, &Limit{Algorithm: Algorithm{Kind: Fixed}, Zone: location(t, "Europe/Berlin")}, "5 per "+period)
		for _, now := range []int64{1_000_000_000, 1_800_000_000, 5_000_000_000} {
			if n := testing.AllocsPerRun(100, func() { c.LimitAt(time.Unix(now, 0), false) }); n != 0 {
				t.Errorf("%s: LimitAt allocates %v times", period, n)
			}
		}
	}
}

func BenchmarkLimitAt(b *testing.B) {
	for _, zone := range []string{"UTC", "Europe/Berlin"} {
		for _, period := range []string{"minute", "day", "week", "month", "year"} {
			b.Run(zone+"/"+period, func(b *testing.B) {
				c := counter(b, &Limit{Algorithm: Algorithm{Kind: Fixed}, Zone: location(b, zone)}, "5 per "+period)
				now := time.Unix(1_795_000_000, 0)
				b.ReportAllocs()
				for b.Loop() {
					c.LimitAt(now, false)
				}
			})
		}
	}
}
