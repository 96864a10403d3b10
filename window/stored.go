package window

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// Contents is the content of a state of Count or Slide.
type Contents struct {
	Width  time.Duration // of a sub-window
	Begin  uint64        // start of the newest sub-window, in nanoseconds
	Counts []uint64      // of the sub-windows, oldest first
	Used   uint64        // units that count at the time of the call
}

// Stored returns the content of a state at time now. The argument sliding is true for a state of Slide. It returns ok false
// if the state has expired or is malformed.
func Stored(old limiter.State, now uint64, sliding bool) (c Contents, ok bool) {
	var s stored
	if !s.parse(&old, now) {
		return c, false
	}
	c.Width, c.Begin = time.Duration(s.width), s.begin
	for i := range s.n {
		c.Counts = append(c.Counts, s.count(i))
	}
	l := limiter.Limit{Max: math.MaxInt64, Interval: c.Width, Amount: int64(s.n)}
	decide := Count
	if sliding {
		decide, l.Amount = Slide, 1
	}
	_, d := decide(&l, old, now, 0, nil)
	c.Used = uint64(d.Limit - d.Remaining)
	return c, true
}

// StoredCalendar returns the units in a state of Calendar. It returns ok false if the state is malformed.
func StoredCalendar(old limiter.State) (used uint64, ok bool) {
	if len(old.Data) != calendarSize && len(old.Data) != openSize {
		return 0, false
	}
	return binary.LittleEndian.Uint64(old.Data), true
}
