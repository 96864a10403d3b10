package lessee

import (
	"testing"
	"time"
)

// TestClock checks that the clock follows the one that includes suspensions after the wall clock has moved relative to the
// monotonic clock, and does not read it otherwise.
func TestClock(t *testing.T) {
	reads, lead := 0, int64(1000)
	start := time.Now()
	c := clock{start: start, lead: func() int64 { reads++; return lead }}
	at := func(mono, moved time.Duration) int64 {
		c.start = start.Add(-moved) // moves the monotonic time and the wall time apart
		now := start.Add(mono - moved)
		return c.read(now)
	}
	if got := at(time.Second, 0); got != int64(time.Second)+1000 || reads != 1 {
		t.Errorf("the first time is %d after %d readings, want %d after 1", got, reads, int64(time.Second)+1000)
	}
	if got := at(2*time.Second, 0); got != int64(2*time.Second)+1000 || reads != 1 {
		t.Errorf("the time is %d after %d readings, want %d after 1", got, reads, int64(2*time.Second)+1000)
	}
	if at(3*time.Second, time.Minute); reads != 2 {
		t.Errorf("%d readings after the wall clock has moved, want 2", reads)
	}
	for _, tt := range []struct{ measured, want int64 }{{400, 1000}, {1001, 1001}, {1000, 1001}} {
		lead = tt.measured
		c.setting.Load().wall += int64(time.Second)
		if got := at(4*time.Second, 0) - int64(4*time.Second); got != tt.want {
			t.Errorf("a lead of %d was measured, and the clock has %d, want %d: the lead never decreases", tt.measured, got, tt.want)
		}
	}
}

// TestNow checks that the clock of the system agrees with the one that includes suspensions, and does not decrease.
func TestNow(t *testing.T) {
	last := Now()
	for range 10_000 {
		now := Now()
		if now < last {
			t.Fatalf("the time decreased from %d to %d", last, now)
		}
		last = now
	}
	if off := time.Duration(bootTime() - Now()).Abs(); off > time.Second {
		t.Errorf("the clock differs by %v from the one of the system", off)
	}
}
