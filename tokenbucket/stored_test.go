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

// TestHold checks the refills of a held bucket: those before the hold count with the refills of the state, and the next one
// is not early.
func TestHold(t *testing.T) {
	start := uint64(time.Hour)
	at := func(d time.Duration) uint64 { return start + uint64(d) }
	l := limiter.Limit{Max: 10, Interval: time.Second, Amount: 2}
	for _, tt := range []struct {
		kind   limiter.Kind
		decide func(*limiter.Limit, limiter.State, uint64, int64, []byte) (limiter.Change, limiter.Decision)
	}{{limiter.TokenBucket, Decide}, {limiter.ScaledBucket, DecideScaled}} {
		c, _ := tt.decide(&l, limiter.State{}, start, 9, nil)
		old := limiter.State{Expires: c.Expires, Data: c.Tail}
		for _, h := range []struct {
			old              limiter.State
			used, until      uint64
			want, late, full int64 // remaining units at 2.5 s and at 3.2 s, and the seconds until full after 2.5 s in tenths
		}{
			{old, 0, at(2600 * time.Millisecond), 5, 7, 25},
			{old, 0, at(3500 * time.Millisecond), 5, 5, 30},
			{old, 8, at(0), 2, 4, 35},
			{limiter.State{}, 4, at(4 * time.Second), 6, 6, 25},
		} {
			s := Hold(tt.kind, &l, h.old, at(2500*time.Millisecond), h.used, h.until)
			_, d := tt.decide(&l, s, at(2500*time.Millisecond), 0, nil)
			_, late := tt.decide(&l, s, at(3200*time.Millisecond), 0, nil)
			if d.Remaining != h.want || late.Remaining != h.late || d.ResetAfter != time.Duration(h.full)*100*time.Millisecond || s.Expires != at(2500*time.Millisecond)+uint64(d.ResetAfter) {
				t.Errorf("kind %v, hold %d until %d: %d remain, and later %d; full in %v, expires at %d", tt.kind, h.used, h.until, d.Remaining, late.Remaining, d.ResetAfter, s.Expires)
			}
		}
	}
	c, _ := DecideScaled(&l, limiter.State{}, start, 9, nil)
	faster := limiter.Limit{Max: 10, Interval: 100 * time.Millisecond, Amount: 1}
	s := Hold(limiter.ScaledBucket, &faster, limiter.State{Expires: c.Expires, Data: c.Tail}, at(1500*time.Millisecond), 0, at(2*time.Second))
	for d, want := range map[time.Duration]int64{1999 * time.Millisecond: 3, 2 * time.Second: 4, 2100 * time.Millisecond: 5} {
		if _, d := DecideScaled(&faster, s, at(d), 0, nil); d.Remaining != want {
			t.Errorf("with changed refills, %d remain, want %d", d.Remaining, want)
		}
	}
}
