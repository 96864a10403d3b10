package edge

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// AwaitDrained waits only if there are clients that have sent a request in the last second.
func TestAwaitDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{created: time.Now()}
		s.places.init(func() int { return 1 })
		for _, c := range []struct{ idle, limit, want time.Duration }{
			{0, time.Hour, 0}, // without clients
			{0, time.Hour, drainTime},
			{0, drainTime / 2, drainTime / 2},
			{quietTime / 4, time.Hour, quietTime * 3 / 4},
			{quietTime, time.Hour, 0},
			{time.Hour, time.Hour, 0},
		} {
			s.lastRequest.Store(int64(time.Since(s.created) - c.idle))
			ctx, cancel := context.WithTimeout(t.Context(), c.limit)
			begun := time.Now()
			s.AwaitDrained(ctx)
			cancel()
			if took := time.Since(begun); took != c.want {
				t.Errorf("idle for %v, with a limit of %v: returned after %v, want %v", c.idle, c.limit, took, c.want)
			}
			if s.places.taken == 0 {
				s.places.enter(&conn{places: &s.places})
			}
		}
	})
}
