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

// end returns the end of the window that contains the given time. It is the last second of limiter time if the window
// ends after it. Times are in seconds since 1970.
func (c *calendar) end(now int64) int64 {
	zone := c.zone
	if zone == nil {
		zone = time.UTC
	}
	t := time.Unix(now, 0).In(zone)
	start := c.nextDay(t.Date())
	if start > lastSecond/daySeconds-2 {
		return lastSecond
	}
	return firstShown(zone, now, start*daySeconds)
}

// nextDay returns the day on which the window after a date starts. Days are counted from January 1, 1970.
func (c *calendar) nextDay(year int, month time.Month, day int) int64 {
	n := c.period.N
	switch c.period.Unit {
	case Day:
		return following(dayNumber(year, month, day), n)
	case Week:
		return firstMonday + following(dayNumber(year, month, day)-firstMonday, 7*n)
	case Month:
		months := int64(year-firstYear)*12 + int64(month-time.January)
		if day < c.anchorIn(year, month) {
			months--
		}
		months = following(months, n)
		year, month = firstYear+int(months/12), time.January+time.Month(months%12) // months is above 0, see end
		return dayNumber(year, month, c.anchorIn(year, month))
	}
	return dayNumber(firstYear+int(following(int64(year-firstYear), n)), time.January, 1)
}

// anchorIn returns the day of a month on which a window of months can start.
func (c *calendar) anchorIn(year int, month time.Month) int {
	if c.anchor <= 28 {
		return max(c.anchor, 1)
	}
	return min(c.anchor, time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day())
}

// following returns the smallest multiple of n above i, for i from -n on.
func following(i, n int64) int64 {
	if i < 0 {
		return 0
	}
	return i - i%n + n
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
