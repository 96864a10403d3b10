package client

import (
	"errors"
	"math"
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

// TestLimits_Invalid checks that limits are refused which the server would refuse.
func TestLimits_Invalid(t *testing.T) {
	for name, compile := range map[string]func() (Limit, error){
		"burst below 0":      func() (Limit, error) { return Throttle(-1, 1, time.Second) },
		"count of 0":         func() (Limit, error) { return Throttle(1, 0, time.Second) },
		"no period":          func() (Limit, error) { return SlidingWindow(1, 0) },
		"negative period":    func() (Limit, error) { return FixedWindow(1, -time.Second) },
		"half a millisecond": func() (Limit, error) { return WindowLog(1, 500*time.Microsecond) },
		"no units":           func() (Limit, error) { return WindowLog(0, time.Second) },
		"no refill":          func() (Limit, error) { return Bucket(1, 0, time.Second) },
		"a long time":        func() (Limit, error) { return Bucket(math.MaxInt64, 1, time.Hour) },
	} {
		if l, err := compile(); !errors.Is(err, ErrLimit) || l != (Limit{}) {
			t.Errorf("%s: %+v, %v, want ErrLimit", name, l, err)
		}
	}
}
