package client

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"

	"github.com/throttledhq/throttled/client/internal/testserver"
)

// TestLimits checks that the server accepts the command of each limit, with the compiled number of units.
func TestLimits(t *testing.T) {
	rdb := dial(t, testserver.Start(t, "0").Addr)
	for name, c := range map[string]struct {
		limit Limit
		kind  limiter.Kind
		max   int64
	}{
		"throttle": {must(Throttle(4, 10, time.Minute)), limiter.Throttle, 5},
		"sliding":  {must(SlidingWindow(7, time.Minute)), limiter.SlidingWindow, 7},
		"fixed":    {must(FixedWindow(8, 1500*time.Millisecond)), limiter.FixedWindow, 8},
		"log":      {must(WindowLog(9, time.Hour)), limiter.WindowLog, 9},
		"bucket":   {must(Bucket(6, 2, time.Second)), limiter.TokenBucket, 6},
	} {
		reply, err := rdb.Do(t.Context(), c.limit.command(name, 2)...).Result()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		d, err := parse(reply)
		if err != nil || !d.Admitted || d.Limit != c.max || d.Remaining != c.max-2 || c.limit.limit.Max != c.max || c.limit.kind != c.kind {
			t.Errorf("%s: the decision is %+v, %v for the limit %+v, want %d units", name, d, err, c.limit, c.max)
		}
	}
}

// TestLimits_Invalid checks that limits are refused which the server would refuse, and that the error names the argument.
func TestLimits_Invalid(t *testing.T) {
	for want, compile := range map[string]func() (Limit, error){
		"maxBurst must be at least 0, not -1":                         func() (Limit, error) { return Throttle(-1, 1, time.Second) },
		"count must be at least 1, not 0":                             func() (Limit, error) { return Throttle(1, 0, time.Second) },
		"(maxBurst + 1) * period / count must be":                     func() (Limit, error) { return Throttle(math.MaxInt64-1, 1, time.Hour) },
		"period must be a positive number of milliseconds, not 0s":    func() (Limit, error) { return SlidingWindow(1, 0) },
		"period must be a positive number of milliseconds, not -1s":   func() (Limit, error) { return FixedWindow(1, -time.Second) },
		"period must be a positive number of milliseconds, not 500µs": func() (Limit, error) { return WindowLog(1, 500*time.Microsecond) },
		"period must be at most 146 years": func() (Limit, error) {
			return SlidingWindow(1, time.Duration(math.MaxInt64).Truncate(time.Millisecond))
		},
		"limit must be at least 1, not 0":                             func() (Limit, error) { return WindowLog(0, time.Second) },
		"capacity must be at least 1, not 0":                          func() (Limit, error) { return Bucket(0, 1, time.Second) },
		"refill must be at least 1, not 0":                            func() (Limit, error) { return Bucket(1, 0, time.Second) },
		"interval must be a positive number of milliseconds, not 1ns": func() (Limit, error) { return Bucket(1, 1, 1) },
		"interval * (capacity / refill":                               func() (Limit, error) { return Bucket(math.MaxInt64, 1, time.Hour) },
	} {
		if l, err := compile(); !errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), want) || l != (Limit{}) {
			t.Errorf("got %+v, %v, want ErrLimit with %q", l, err, want)
		}
	}
}
