package gcra

import (
	"math"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// TestStored checks the contents of a state that DecideScaled has made, and of malformed states.
func TestStored(t *testing.T) {
	l := limiter.Limit{Max: 10, Interval: time.Second}
	now := uint64(time.Hour)
	c, _ := DecideScaled(&l, limiter.State{}, now, 4, nil)
	state := limiter.State{Expires: c.Expires, Data: c.Tail}
	for _, tt := range []struct {
		after time.Duration
		used  uint64
	}{{0, 4}, {1, 4}, {time.Second, 3}, {4*time.Second - 1, 1}, {4 * time.Second, 0}, {time.Hour, 0}} {
		interval, used, ok := Stored(state, now+uint64(tt.after))
		if !ok || interval != time.Second || used != tt.used {
			t.Errorf("after %v: interval %v, used %d, ok %t; want %v, %d and true", tt.after, interval, used, ok, time.Second, tt.used)
		}
	}
	for _, data := range [][]byte{nil, make([]byte, 7), make([]byte, 8), make([]byte, 9), {0, 0, 0, 0, 0, 0, 0, 0x80}} {
		if _, _, ok := Stored(limiter.State{Expires: math.MaxUint64, Data: data}, 0); ok {
			t.Errorf("the data %x is accepted", data)
		}
	}
}
