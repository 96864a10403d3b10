package rules

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// ZoneLoader returns the time zone of an IANA name, such as Europe/Berlin. The usual loader is time.LoadLocation, which
// reads the files of the system or the package time/tzdata.
type ZoneLoader func(name string) (*time.Location, error)

// During is a part of each week. It is empty (IsZero) or has at least one day.
type During struct {
	From, To int // minutes after midnight, 0 to 1440; the part ends on the next day if To is below From
	Days     []time.Weekday
	Zone     *time.Location // never nil unless the During is empty
}

// minutesPerDay is the largest To of a During.
const minutesPerDay = 24 * 60

// IsZero reports whether the During was not set, so that it restricts nothing.
func (p During) IsZero() bool { return len(p.Days) == 0 }

// duringKeys are the keys of "during".
var duringKeys = keys[During]{
	{name: "between", doc: `two times of day, such as "22:00-06:00"; all day if absent`, value: betweenSchema, example: `"22:00-06:00"`,
		decode: func(d *decoder, v value, p *During) { p.From, p.To = d.between(v) }},
	{name: "zone", doc: "the time zone, such as Europe/Berlin; UTC if absent", value: zoneSchema, example: "Europe/Berlin",
		decode: func(d *decoder, v value, p *During) { p.Zone = d.zone(v) }},
	{name: "days", doc: "the days on which the period begins: mon, tue, wed, thu, fri, sat, sun; all if absent",
		value: oneOrList(choiceSchema(dayNames...)), example: "[sat, sun]",
		decode: func(d *decoder, v value, p *During) { p.Days = d.days(v) }},
}

// during decodes a part of each week.
func (d *decoder) during(v value) During {
	p := During{To: minutesPerDay, Zone: time.UTC}
	if !duringKeys.decode(d, v, &p) {
		return During{}
	}
	if p.Days == nil {
		p.Days = slices.Clone(allDays[:])
	}
	_, between := v.find("between")
	if _, days := v.find("days"); !between && !days {
		d.fail(v, "the schedule has no times and no days", "write between, days or both")
	}
	return p
}

var (
	allDays  = [...]time.Weekday{time.Sunday, time.Monday, time.Tuesday, time.Wednesday, time.Thursday, time.Friday, time.Saturday}
	dayNames = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}
)

// days decodes a list of distinct days.
func (r *report) days(v value) []time.Weekday {
	var days []time.Weekday
	seen := map[time.Weekday]bool{}
	r.list(v, func(item value) {
		day := time.Weekday(r.choose(item, dayNames))
		if seen[day] {
			r.fail(item, fmt.Sprintf("%q is repeated", item.Value), "remove one of them")
		}
		seen[day] = true
		days = append(days, day)
	})
	return days
}

// between decodes two times of day.
func (r *report) between(v value) (from, to int) {
	text, ok := r.text(v)
	if !ok {
		return 0, 0
	}
	first, second, found := strings.Cut(text, "-")
	from, ok1 := parseClock(strings.TrimSpace(first))
	to, ok2 := parseClock(strings.TrimSpace(second))
	switch {
	case !found, !ok1, !ok2, from == minutesPerDay:
		r.fail(v, fmt.Sprintf("%q is not two times of day", clip(text)),
			`write hours and minutes, such as "01:00-06:00"; the last time is 24:00`)
	case from == to:
		r.fail(v, fmt.Sprintf("%q is empty", text), `for the whole day, write "00:00-24:00"`)
	}
	return from, to
}

// parseClock returns the minutes after midnight of a time such as 06:30. The largest time is 24:00.
func parseClock(text string) (minutes int, ok bool) {
	if text == "24:00" {
		return minutesPerDay, true
	}
	t, err := time.Parse("15:04", text)
	return t.Hour()*60 + t.Minute(), err == nil && len(text) == len("15:04")
}

// zone decodes the name of a time zone. "Local" is refused, since its meaning differs between machines.
func (d *decoder) zone(v value) *time.Location {
	text, ok := d.text(v)
	if !ok {
		return time.UTC
	}
	loc, err := d.loadZone(text)
	if err != nil || text == "" || text == "Local" {
		d.fail(v, fmt.Sprintf("%q is not a known time zone", clip(text)),
			"write an IANA name, such as Europe/Berlin, or UTC")
		return time.UTC
	}
	return loc
}

// until decodes a date or a time. The result is the first instant after it: for a date, the midnight at its end in UTC.
func (r *report) until(v value) time.Time {
	text, ok := r.text(v)
	if !ok {
		return time.Time{}
	}
	if date, err := time.Parse(time.DateOnly, text); err == nil {
		return date.AddDate(0, 0, 1)
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		r.fail(v, fmt.Sprintf("%q is not a date or time", clip(text)),
			"write 2027-01-31 (to the end of the day in UTC) or 2027-01-31T18:00:00+01:00")
	}
	return t.UTC()
}

// contains reports whether a time is in the part of the week. Times of day are those that a clock in the zone shows, so a
// part that contains a change of the clock is longer or shorter. A part that ends on the next day belongs to
// the day on which it begins.
func (p During) contains(t time.Time) bool {
	if p.IsZero() {
		return true
	}
	t = t.In(p.Zone)
	minute := t.Hour()*60 + t.Minute()
	yesterday := (t.Weekday() + 6) % 7
	if p.To > p.From {
		return p.From <= minute && minute < p.To && slices.Contains(p.Days, t.Weekday())
	}
	return minute >= p.From && slices.Contains(p.Days, t.Weekday()) || minute < p.To && slices.Contains(p.Days, yesterday)
}
