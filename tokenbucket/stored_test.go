package tokenbucket

import (
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// TestStored checks the contents of states that Decide and DecideScaled have made, and of malformed states.
func TestStored(t *testing.T) {
	l := limiter.Limit{Max: 10, Interval: time.Second, Amount: 2}
	now := uint64(time.Hour)
	c, _ := Decide(&l, limiter.State{}, now, 7, nil)
	if got, ok := Stored(limiter.State{Expires: c.Expires, Data: c.Tail}); !ok || got != (Contents{7, now}) {
		t.Errorf("Stored = %+v, %t; want 7 tokens in use since the charge", got, ok)
	}
	c, _ = DecideScaled(&l, limiter.State{}, now, 7, nil)
	scaled := limiter.State{Expires: c.Expires, Data: c.Tail}
	got, refills, ok := StoredScaled(scaled, now+uint64(2500*time.Millisecond))
	if want := (Contents{3, now + uint64(2*time.Second)}); !ok || got != want || refills.Interval != l.Interval || refills.Amount != l.Amount {
		t.Errorf("StoredScaled after two refills = %+v, %+v, %t; want %+v and the refills of the limit", got, refills, ok, want)
	}
	if got, _, _ := StoredScaled(scaled, c.Expires); got.Used != 0 {
		t.Errorf("StoredScaled of an expired state has %d tokens in use, want 0", got.Used)
	}
	for _, n := range []int{0, dataSize - 1, dataSize + 1, dataSize + rateSize} {
		data := make([]byte, n)
		if _, ok := Stored(limiter.State{Data: data}); ok {
			t.Errorf("Stored accepts %d bytes", n)
		}
		if _, _, ok := StoredScaled(limiter.State{Data: data}, 0); ok {
			t.Errorf("StoredScaled accepts %d zeros", n)
		}
	}
}
