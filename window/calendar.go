package window

import (
	"encoding/binary"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// calendarSize is the length in bytes of the Data of a calendar state: the count.
const calendarSize = 8

// NewCalendarLimit returns a limit for Calendar: at most limit units in the window that ends at the limiter time end.
// The argument next is the end of the window after it.
//
// The error is limiter.ErrRange if limit is not positive, or if end and next are not ascending times of the clock above
// 0.
func NewCalendarLimit(limit int64, end, next uint64) (limiter.Limit, error) {
	if limit < 1 || end == 0 || end >= next || next > endOfTime {
		return limiter.Limit{}, limiter.ErrRange
	}
	return limiter.Limit{Max: limit, Interval: time.Duration(next - end), Amount: int64(end)}, nil
}

// Calendar decides a request for quantity units at time now on a key in state old, with one window whose end is in the
// limit. See Calendar windows in the package comment. Everything else is as in Count. Calendar does not allocate if
// room has a capacity of 8 bytes. It accepts a limit l whose Max is 0: it refuses each charge.
func Calendar(l *limiter.Limit, old limiter.State, now uint64, quantity int64, room []byte) (ch limiter.Change, d limiter.Decision) {
	var used, empty uint64
	if old.Expires > now && len(old.Data) == calendarSize {
		used, empty = binary.LittleEndian.Uint64(old.Data), old.Expires
	}
	d.Limit, d.RetryAfter = l.Max, limiter.NoRetry
	switch {
	case quantity < 0:
		// Negating the quantity as a uint64 gives the correct magnitude of the smallest int64 too.
		ch.Set = used > 0
		used -= min(used, -uint64(quantity))
	case quantity > l.Max:
		d.Limited = true
	case used > uint64(l.Max-quantity):
		d.Limited, d.RetryAfter = true, wait(now, empty)
	case quantity > 0:
		ch.Set = true
		used += uint64(quantity)
		empty = max(empty, endAfter(l, now))
	}
	if used == 0 {
		empty = now
	}
	if ch.Set {
		ch.Expires, ch.Tail = empty, binary.LittleEndian.AppendUint64(room[:0], used)
	}
	d.Remaining = l.Max - int64(min(used, uint64(l.Max)))
	d.ResetAfter = wait(now, empty)
	return ch, d
}

// endAfter returns the end of the present window, or of the next one if the present window has ended since the limit
// was made.
func endAfter(l *limiter.Limit, now uint64) uint64 {
	end := uint64(l.Amount)
	if end <= now {
		end += uint64(l.Interval)
	}
	if end <= now {
		end = now + uint64(l.Interval)
	}
	return end
}
