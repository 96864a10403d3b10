package window

import (
	"encoding/binary"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

const (
	// calendarSize is the length in bytes of the Data of a calendar state: the count.
	calendarSize = 8
	// openSize is the length if the end of the window is unknown: the count, and the start of the window.
	openSize = 16
)

// NewCalendarLimit returns a limit for Calendar: at most limit units in the window from the limiter time start to end.
//
// The error is limiter.ErrRange if limit is not positive, or if start and end are not ascending times of the clock.
func NewCalendarLimit(limit int64, start, end uint64) (limiter.Limit, error) {
	if limit < 1 || start >= end || end > endOfTime {
		return limiter.Limit{}, limiter.ErrRange
	}
	return limiter.Limit{Max: limit, Interval: time.Duration(end - start), Amount: int64(end)}, nil
}

// Calendar decides a request for quantity units at time now on a key in state old, with one window whose start and end
// are in the limit. See Calendar windows in the package comment. Everything else is as in Count. Calendar does not
// allocate if room has a capacity of 16 bytes. It accepts a limit l whose Max is 0: it refuses each charge.
func Calendar(l *limiter.Limit, old limiter.State, now uint64, quantity int64, room []byte) (ch limiter.Change, d limiter.Decision) {
	c := readCalendar(l, &old, now)
	d.Limit, d.RetryAfter = l.Max, limiter.NoRetry
	switch {
	case quantity < 0:
		// Negating the quantity as a uint64 gives the correct magnitude of the smallest int64 too.
		ch.Set = c.used > 0
		c.used -= min(c.used, -uint64(quantity))
	case quantity > l.Max:
		d.Limited = true
	case c.used > uint64(l.Max-quantity):
		d.Limited, d.RetryAfter = true, wait(now, c.empty)
	case quantity > 0:
		ch.Set = true
		c.charge(l, now, uint64(quantity))
	}
	if c.used == 0 {
		c.empty = now
	}
	if ch.Set {
		ch.Expires, ch.Tail = c.empty, c.appendTo(room[:0])
	}
	d.Remaining = l.Max - int64(min(c.used, uint64(l.Max)))
	d.ResetAfter = wait(now, c.empty)
	return ch, d
}

// calendarCount is the state of Calendar.
type calendarCount struct {
	used  uint64
	empty uint64 // the end of the window, or an upper bound if open is true
	open  bool   // the end of the window is unknown
	start uint64 // of the window, if open is true
}

// readCalendar reads a state. The count of a window that has ended is 0, by limiter time or by the time for which the
// limit was made.
func readCalendar(l *limiter.Limit, old *limiter.State, now uint64) (c calendarCount) {
	if old.Expires <= now {
		return c
	}
	end := uint64(l.Amount)
	start := end - min(end, uint64(l.Interval))
	switch {
	case len(old.Data) == calendarSize && old.Expires > start:
	case len(old.Data) == openSize && binary.LittleEndian.Uint64(old.Data[calendarSize:]) >= start:
		c.open, c.start = true, binary.LittleEndian.Uint64(old.Data[calendarSize:])
	default:
		return c
	}
	c.used, c.empty = binary.LittleEndian.Uint64(old.Data), old.Expires
	return c
}

// charge adds units to the present window.
func (c *calendarCount) charge(l *limiter.Limit, now, quantity uint64) {
	end := uint64(l.Amount)
	switch {
	case end > now && c.open:
		c.open, c.empty = false, end
	case end > now:
		c.empty = max(c.empty, end)
	case c.used == 0:
		// The window of the limit has ended, and the length of the next one is unknown. The bound is above it for all
		// windows of the calendar: the longest month is 31/28 of the shortest one.
		length := uint64(l.Interval)
		c.open, c.start, c.empty = true, end, end+length+length/8
		if c.empty <= now {
			c.empty = now + length
		}
	}
	c.used += quantity
}

// appendTo appends the Data of the state.
func (c *calendarCount) appendTo(data []byte) []byte {
	data = binary.LittleEndian.AppendUint64(data, c.used)
	if c.open {
		data = binary.LittleEndian.AppendUint64(data, c.start)
	}
	return data
}
