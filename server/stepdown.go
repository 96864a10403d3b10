package server

import (
	"context"
	"time"
)

// stepDownPatience is how long clients that a Sentinel has sent here are kept, on a node that has stopped leading,
// while no leader is known: what they ask for is passed on once there is one.
const stepDownPatience = time.Second

// followLeader announces new leaders to what depends on them, until ctx ends. When this node has stopped leading,
// it closes the clients that a Sentinel has sent to the leader: they ask again, as many
// libraries do not even if they have been told. All others stay: their commands are forwarded, or redirected.
func (s *Server) followLeader(ctx context.Context) {
	led, due := false, time.Time{} // when clients are to be closed at the latest; zero: they are not
	for {
		view := s.cluster.View()
		s.forward.Follow(view.Leader)
		s.news.follow(view, s.opts.Get().SentinelMaster)
		switch {
		case view.Leading:
			due = time.Time{}
		case led && !view.Leading:
			due = time.Now().Add(stepDownPatience)
		}
		led = view.Leading
		if !due.IsZero() && (view.Leader != "" && view.Leader != view.Self || !time.Now().Before(due)) {
			due = time.Time{}
			s.closeYielding()
		}
		if !awaitView(ctx, view.Changed, due) {
			return
		}
	}
}

// awaitView waits for a newer view, or for a moment unless it is zero, and reports false if ctx has ended.
func awaitView(ctx context.Context, changed <-chan struct{}, due time.Time) bool {
	var moment <-chan time.Time
	if !due.IsZero() {
		timer := time.NewTimer(time.Until(due))
		defer timer.Stop()
		moment = timer.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-changed:
	case <-moment:
	}
	return true
}

// closeYielding closes the clients of the port for the leader, each behind the replies to
// what has been read from it.
func (s *Server) closeYielding() {
	n := 0
	for _, c := range s.snapshot() {
		if c.face.yields && c.kind() == kindNormal {
			c.leaving.Store(true)
			c.conn.stopReading()
			n++
		}
	}
	s.log.Info("this node has stopped leading; clients of leader-port are closed", "clients", n)
}
