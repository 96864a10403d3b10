package edge

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// AwaitDrained waits only if there are clients.
func TestAwaitDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{}
		s.places.init(func() int { return 1 })
		for _, c := range []struct{ limit, want time.Duration }{{time.Hour, 0}, {time.Hour, drainTime}, {drainTime / 2, drainTime / 2}} {
			ctx, cancel := context.WithTimeout(t.Context(), c.limit)
			begun := time.Now()
			s.AwaitDrained(ctx)
			cancel()
			if took := time.Since(begun); took != c.want {
				t.Errorf("with %v: returned after %v, want %v", c.limit, took, c.want)
			}
			if c.want == 0 {
				s.places.enter(&conn{places: &s.places})
			}
		}
	})
}
