package rules

import (
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/window"
)

// TestCalendar_LimiterTime charges a monthly limit in Berlin around the start of a month, with limiter time behind the wall
// clock, and checks that the count of the old month does not stay used in the new one. A change of the zone keeps it.
func TestCalendar_LimiterTime(t *testing.T) {
	berlin := counter(t, &Limit{Algorithm: Algorithm{Kind: Fixed}, Zone: location(t, "Europe/Berlin")}, "5 per month")
	utc := counter(t, &Limit{Algorithm: Algorithm{Kind: Fixed}}, "5 per month")
	midnight := time.Date(2026, 10, 31, 23, 0, 0, 0, time.UTC) // in Berlin
	for _, lag := range []time.Duration{0, 20 * time.Millisecond, 10 * time.Minute, 40 * 24 * time.Hour} {
		var state limiter.State
		charge := func(c *Counter, wall time.Time, quantity int64) bool {
			l, now := c.LimitAt(wall, false), uint64(wall.Add(-lag).UnixNano())
			ch, d := window.Calendar(&l, state, now, quantity, nil)
			if ch.Set {
				state = limiter.State{Expires: ch.Expires, Data: ch.Tail}
			}
			return !d.Limited
		}
		for i, step := range []struct {
			c        *Counter
			after    time.Duration
			quantity int64
			admitted bool
		}{
			{&berlin, -time.Second, 4, true},
			{&berlin, -time.Second, 2, false},
			{&utc, -time.Second, 2, false}, // the new zone keeps the units
			{&berlin, 0, 2, true},
			{&berlin, time.Second, 4, false},
			{&utc, time.Second, 4, false},
			{&berlin, 29 * 24 * time.Hour, 4, false},
			{&berlin, 30*24*time.Hour - time.Second, 4, false},
			{&berlin, 30 * 24 * time.Hour, 5, true},
		} {
			if got := charge(step.c, midnight.Add(step.after), step.quantity); got != step.admitted {
				t.Errorf("lag %v, step %d: admitted %v, want %v", lag, i, got, step.admitted)
			}
		}
	}
}
