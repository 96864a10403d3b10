package cluster

import (
	"context"
	"testing"
	"time"

	"github.com/throttledhq/throttled/topology"
)

// TestChangeInTime checks that a change that is not committed returns when its context is done, and does not block
// later changes.
func TestChangeInTime(t *testing.T) {
	const patience = 10 * time.Millisecond // shorter than the lease, so the leader does not step down meanwhile
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		leader := s.leader()
		s.await("all are announced", 5*time.Second, func() bool {
			for _, m := range leader.View().Members {
				if m.Host == "" {
					return false
				}
			}
			return true
		})
		other := s.followers(leader)[0].node.id
		moved := leader.announcement(other).Incarnation
		s.isolate(leader.node.id)
		for _, test := range []struct {
			name   string
			change func(ctx context.Context) error
		}{
			{"add", func(ctx context.Context) error { return leader.Add(ctx, "n4", "n4") }},
			{"remove", func(ctx context.Context) error { return leader.Remove(ctx, other) }},
			{"announce", func(ctx context.Context) error {
				return leader.members.announce(ctx, &Announcement{ID: other, Incarnation: moved, Port: 2})
			}},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			begun := time.Now()
			err := test.change(ctx)
			if took := time.Since(begun); err == nil || err == topology.ErrChanging || took != patience {
				t.Errorf("%s: error %v after %v, want an error other than ErrChanging after 10ms", test.name, err, took)
			}
			begun = time.Now()
			if err := test.change(ctx); err == nil || time.Since(begun) > 0 {
				t.Errorf("%s after the deadline: error %v after %v, want an error without a delay", test.name, err, time.Since(begun))
			}
			cancel()
		}
		if leader.leaderships.current() == nil {
			t.Error("the leader has stepped down, so nothing was tested")
		}
	})
}
