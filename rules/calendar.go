package rules

import (
	"math"
	"time"
)

// calendar divides time into the windows of a period of days, weeks, months or years, as a clock in a time zone shows
// them.
//
// Windows of days start at midnight, of weeks on Monday, of months on the anchor day, or on the last day of a month that
// is shorter, and of years on January 1. Windows of several units are aligned to the first window from January 1970 on:
// days to January 1, weeks to Monday, January 5, months to January, and years to 1970.
//
// A window ends at the first instant at which the clock shows the date on which the next window starts. A change of the
// clock for daylight saving time makes a window longer or shorter, and does not move its start to another date.
type calendar struct {
	period Period
	zone   *time.Location // nil for UTC
	anchor int            // of months; 0 is day 1
}

const (
	daySeconds = 24 * 60 * 60
	firstYear  = 1970
	// firstMonday is the number of the first Monday since January 1, 1970.
	firstMonday = 4
	// lastSecond is the last second of limiter time.
	lastSecond = math.MaxInt64 / int64(time.Second)
)

// window returns the start and the end of the window that contains the given time. The end is the last second of limiter
// time if the window ends after it, and the start is at least 0. Times are in seconds since 1970.
func (c *calendar) window(now int64) (start, end int64) {
	zone := c.zone
	if zone == nil {
		zone = time.UTC
	}
	first, next := c.days(time.Unix(now, 0).In(zone).Date())
	if first > 0 {
		start = max(firstShown(zone, 0, first*daySeconds), 0)
	}
	if next > lastSecond/daySeconds-2 {
		return start, lastSecond
	}
	return start, firstShown(zone, now, next*daySeconds)
}

// days returns the day on which the window of a date starts, and that on which the window after it does. Days are
// counted from January 1, 1970. The first day is below 1 if the window starts before that day, or on it.
func (c *calendar) days(year int, month time.Month, day int) (first, next int64) {
	n := c.period.N
	switch c.period.Unit {
	case Day:
		return around(dayNumber(year, month, day), n)
	case Week:
		first, next = around(dayNumber(year, month, day)-firstMonday, 7*n)
		return firstMonday + first, firstMonday + next
	case Month:
		months := int64(year-firstYear)*12 + int64(month-time.January)
		if day < c.anchorIn(year, month) {
			months--
		}
		first, next = around(months, n)
		return c.monthStart(first), c.monthStart(next)
	}
	first, next = around(int64(year-firstYear), n)
	return dayNumber(firstYear+int(first), time.January, 1), dayNumber(firstYear+int(next), time.January, 1)
}

// monthStart returns the day on which a window of months starts. Months are counted from January 1970.
func (c *calendar) monthStart(months int64) int64 {
	year, month := firstYear+int(months/12), time.January+time.Month(months%12)
	if months < 0 {
		return 0
	}
	return dayNumber(year, month, c.anchorIn(year, month))
}

// anchorIn returns the day of a month on which a window of months can start.
func (c *calendar) anchorIn(year int, month time.Month) int {
	if c.anchor <= 28 {
		return max(c.anchor, 1)
	}
	return min(c.anchor, time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day())
}

// around returns the largest multiple of n up to i, and the smallest one above i, for i from -n on.
func around(i, n int64) (first, next int64) {
	if i < 0 {
		return -n, 0
	}
	return i - i%n, i - i%n + n
}

// dayNumber returns the number of days from January 1, 1970 to a date.
func dayNumber(year int, month time.Month, day int) int64 {
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix() / daySeconds
}

// firstShown returns the first time after now at which a clock in a zone shows the given local time or a later one. At
// now it shows an earlier time. All times are in seconds since 1970, in UTC or as the clock shows them.
func firstShown(zone *time.Location, now, local int64) int64 {
	// Clocks are less than two days apart, so the time is not before this one.
	now = max(now, local-2*daySeconds)
	for {
		t := time.Unix(now, 0).In(zone)
		_, offset := t.Zone()
		at := max(local-int64(offset), now) // later than now unless a change of the clock has skipped the local time
		// ZoneBounds returns an end that is not after t on the last day of a leap year without known changes of the
		// clock. There is no change of the clock on that day.
		_, changed := t.ZoneBounds()
		if changed.IsZero() || !changed.After(t) || at < changed.Unix() {
			return at
		}
		now = changed.Unix()
	}
}
