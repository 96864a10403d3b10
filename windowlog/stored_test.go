package windowlog

import (
	"slices"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// TestStored checks the contents of a log in which requests expire, and after a refund.
func TestStored(t *testing.T) {
	const second = uint64(time.Second)
	now := uint64(time.Hour)
	l := limiter.Limit{Max: 100, Interval: 10 * time.Second, Amount: 10}
	var state limiter.State
	step := func(at uint64, quantity int64) {
		c, _ := Decide(&l, state, now+at*second, quantity, nil)
		state = limiter.State{Expires: c.Expires, Data: append(slices.Clone(state.Data[:c.Keep]), c.Tail...)}
	}
	wants := func(at uint64, want Contents) {
		t.Helper()
		if got, ok := Stored(state, now+at*second); !ok || got != want {
			t.Errorf("Stored after %d s = %+v, %t; want %+v", at, got, ok, want)
		}
	}
	step(0, 1)
	step(4, 5)
	step(6, 2)
	wants(6, Contents{10 * time.Second, now, now + 6*second, 3, 8})
	wants(10, Contents{10 * time.Second, now + 4*second, now + 6*second, 2, 7})
	step(11, -3) // removes the newest request, and a part of the one before
	wants(11, Contents{10 * time.Second, now + 4*second, now + 4*second, 1, 4})
	if _, ok := Stored(state, state.Expires); ok {
		t.Error("Stored accepts an expired state")
	}
	for _, data := range [][]byte{nil, state.Data[:footerSize-1], make([]byte, footerSize)} {
		if c, ok := Stored(limiter.State{Expires: state.Expires, Data: data}, now); ok {
			t.Errorf("Stored accepts the malformed state %x: %+v", data, c)
		}
	}
}
