package server

import (
	"context"
	"time"
)

// stepDownPatience is the maximum time for which clients of leader-port stay connected after this node has stopped
// being the leader, while no new leader is known. Their commands are forwarded as soon as there is a leader.
const stepDownPatience = time.Second

// watchLeader passes changes of the leader to the forwarder and to subscribers, until ctx is done. When this node
// stops being the leader, watchLeader disconnects the clients of leader-port, so that they query a Sentinel again. The
// message that is published about the new leader is not sufficient, because many client libraries do not react to it.
// Other clients stay connected, and their commands are forwarded or redirected.
func (s *Server) watchLeader(ctx context.Context) {
	led, due := false, time.Time{} // due is the deadline for disconnecting clients; zero means none
	for {
		view := s.cluster.View()
		s.forward.SetLeader(view.Leader)
		s.broker.announceLeader(view, s.opts.Get().SentinelMaster)
		switch {
		case view.Leading:
			due = time.Time{}
		case led && !view.Leading:
			due = time.Now().Add(stepDownPatience)
		}
		led = view.Leading
		if !due.IsZero() && (view.Leader != "" && view.Leader != view.Self || !time.Now().Before(due)) {
			due = time.Time{}
			s.closeLeaderClients()
		}
		if !awaitView(ctx, view.Changed, due) {
			return
		}
	}
}

// awaitView waits for a newer view, or until due if due is not zero. It returns false if ctx is done.
func awaitView(ctx context.Context, changed <-chan struct{}, due time.Time) bool {
	var expired <-chan time.Time
	if !due.IsZero() {
		timer := time.NewTimer(time.Until(due))
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-changed:
	case <-expired:
	}
	return true
}

// closeLeaderClients closes the connections of the clients of leader-port, after the commands that have been read from
// them are answered. Subscribers and clients in MONITOR mode stay connected.
func (s *Server) closeLeaderClients() {
	n := 0
	for _, c := range s.sortedClients() {
		if info := c.session.currentInfo(); c.listener.closesOnStepDown && info.kind(c.listener) == kindNormal {
			c.conn.closeAfterReplies()
			n++
		}
	}
	s.log.Info("this node is no longer the leader; closing connections to leader-port", "clients", n)
}
