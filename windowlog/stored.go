package windowlog

import (
	"math"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// Contents is the content of a state.
type Contents struct {
	Window      time.Duration // the period of the limit that the last change was made with
	First, Last uint64        // times of the oldest and the newest request in the window, in nanoseconds
	Requests    int           // number of requests in the window
	Used        uint64        // their units
}

// Stored returns the content of a state at time now. It returns ok false if the state has expired or is malformed.
func Stored(old limiter.State, now uint64) (c Contents, ok bool) {
	var g log
	if !g.readFooter(old.Data) || g.last >= old.Expires || old.Expires-g.last > math.MaxInt64 {
		return c, false
	}
	c.Window = time.Duration(old.Expires - g.last)
	g.open(old, uint64(c.Window), now)
	c.First, c.Last, c.Requests, c.Used = g.base, g.last, g.count, g.sum
	return c, g.count > 0
}
