package window

import (
	"slices"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// TestStored checks the contents of states of several parts, of one part and of Slide at several times.
func TestStored(t *testing.T) {
	const second = uint64(time.Second)
	now := uint64(time.Hour)
	for _, tt := range []struct {
		name    string
		sliding bool
		parts   int64
		charges []uint64 // seconds after now, 3 units each
		at      uint64
		counts  []uint64
		used    uint64
	}{
		{"buckets", false, 4, []uint64{0, 1, 1, 3}, 3, []uint64{3, 6, 0, 3}, 12},
		{"buckets later", false, 4, []uint64{0, 1, 1, 3}, 5, []uint64{3, 6, 0, 3}, 3},
		{"fixed", false, 1, []uint64{0, 0}, 0, []uint64{6}, 6},
		{"sliding", true, 1, []uint64{0, 1}, 1, []uint64{3, 3}, 6},
		{"sliding later", true, 1, []uint64{0, 1}, 2, []uint64{3, 3}, 3},
	} {
		l := limiter.Limit{Max: 100, Interval: time.Second, Amount: tt.parts}
		var state limiter.State
		for _, at := range tt.charges {
			decide := Count
			if tt.sliding {
				decide = Slide
			}
			c, _ := decide(&l, state, now+at*second, 3, nil)
			state = limiter.State{Expires: c.Expires, Data: append(slices.Clone(state.Data[:c.Keep]), c.Tail...)}
		}
		c, ok := Stored(state, now+tt.at*second, tt.sliding)
		if !ok || c.Width != time.Second || c.Begin != now+tt.charges[len(tt.charges)-1]*second || !slices.Equal(c.Counts, tt.counts) || c.Used != tt.used {
			t.Errorf("%s: Stored = %+v, %t; want the counts %d, of which %d units are in use", tt.name, c, ok, tt.counts, tt.used)
		}
		if _, ok := Stored(state, state.Expires, tt.sliding); ok {
			t.Errorf("%s: Stored accepts an expired state", tt.name)
		}
		if _, ok := Stored(limiter.State{Expires: state.Expires, Data: state.Data[:len(state.Data)-1]}, now, tt.sliding); ok && tt.parts > 1 {
			t.Errorf("%s: Stored accepts a truncated state", tt.name)
		}
	}
}

func TestStoredCalendar(t *testing.T) {
	l, err := NewCalendarLimit(10, 100, 200)
	if err != nil {
		t.Fatal(err)
	}
	for _, now := range []uint64{150, 250} { // in the window, and after it, so that the next window has no known end
		c, _ := Calendar(&l, limiter.State{}, now, 7, nil)
		if used, ok := StoredCalendar(limiter.State{Expires: c.Expires, Data: c.Tail}); !ok || used != 7 {
			t.Errorf("StoredCalendar at %d = %d, %t; want 7", now, used, ok)
		}
	}
	if _, ok := StoredCalendar(limiter.State{Data: make([]byte, calendarSize+1)}); ok {
		t.Error("StoredCalendar accepts a malformed state")
	}
}
