package limiter

import (
	"math"
	"testing"
	"time"
)

// TestShare checks the units and the rate of parts of limits.
func TestShare(t *testing.T) {
	for _, c := range []struct {
		name  string
		kind  Kind
		limit Limit
		part  float64
		want  Limit
	}{
		{"throttle", Throttle, Limit{Max: 100, Interval: 100 * time.Millisecond}, 0.25, Limit{Max: 25, Interval: 400 * time.Millisecond}},
		{"throttle, one unit", Throttle, Limit{Max: 1, Interval: 100 * time.Millisecond}, 0.5, Limit{Max: 1, Interval: 200 * time.Millisecond}},
		{"throttle, no unit", Throttle, Limit{Interval: 100 * time.Millisecond}, 0.5, Limit{Interval: 200 * time.Millisecond}},
		{"throttle, rounded up", ScaledThrottle, Limit{Max: 10, Interval: 1}, 0.7, Limit{Max: 7, Interval: 2}},
		{"leaky", LeakyBucket, Limit{Max: 8, Interval: time.Second}, 0.25, Limit{Max: 2, Interval: 4 * time.Second}},
		{"fixed", FixedWindow, Limit{Max: 100, Interval: time.Minute, Amount: 1}, 0.5, Limit{Max: 50, Interval: time.Minute, Amount: 1}},
		{"calendar", Calendar, Limit{Max: 100, Interval: time.Hour, Amount: 1e18}, 0.1, Limit{Max: 10, Interval: time.Hour, Amount: 1e18}},
		{"log", WindowLog, Limit{Max: 10, Interval: time.Minute, Amount: 10}, 0.01, Limit{Max: 1, Interval: time.Minute, Amount: 10}},
		{"bucket", TokenBucket, Limit{Max: 100, Interval: time.Second, Amount: 10}, 0.5, Limit{Max: 50, Interval: time.Second, Amount: 5}},
		{"bucket, slow", ScaledBucket, Limit{Max: 100, Interval: time.Second, Amount: 1}, 0.25, Limit{Max: 25, Interval: 4 * time.Second, Amount: 1}},
		{"whole", Throttle, Limit{Max: math.MaxInt64, Interval: 1}, 1, Limit{Max: math.MaxInt64, Interval: 1}},
	} {
		if got := c.limit.Share(c.kind, c.part); got != c.want {
			t.Errorf("%s: %g of the limit is %+v, want %+v", c.name, c.part, got, c.want)
		}
	}
	vast := Limit{Max: math.MaxInt64, Interval: 1}
	if s := vast.Share(Throttle, 1e-9); s.Interval < 1 || s.Max > math.MaxInt64/int64(s.Interval) {
		t.Errorf("the share of the vast limit overflows: %+v", s)
	}
}

// TestRefused checks that a refusal has a retry time unless the quantity exceeds the limit.
func TestRefused(t *testing.T) {
	l := Limit{Max: 10}
	for quantity, want := range map[int64]time.Duration{1: time.Second, 10: time.Second, 11: NoRetry} {
		if d := l.Refused(quantity, time.Second); !d.Limited || d.Limit != 10 || d.RetryAfter != want || d.ResetAfter != time.Second || d.Wait != NoRetry {
			t.Errorf("quantity %d: %+v, want a refusal with the retry time %v", quantity, d, want)
		}
	}
}

// TestRetryWhole checks that only a refusal without a retry time gets one, and only if the quantity is within the whole limit.
func TestRetryWhole(t *testing.T) {
	for _, tt := range []struct {
		d        Decision
		quantity int64
		want     time.Duration
	}{
		{Decision{RetryAfter: NoRetry}, 7, NoRetry}, // admitted
		{Decision{Limited: true, RetryAfter: 3}, 7, 3},
		{Decision{Limited: true, RetryAfter: NoRetry}, 11, NoRetry},
		{Decision{Limited: true, RetryAfter: NoRetry}, 10, time.Second},
	} {
		d := tt.d
		d.RetryWhole(tt.quantity, 10, time.Second)
		if d.RetryAfter != tt.want || d.Limited != tt.d.Limited {
			t.Errorf("%+v, quantity %d: got %+v, want the retry time %v", tt.d, tt.quantity, d, tt.want)
		}
	}
}
