package sidecar

import (
	"context"
	"errors"
	"time"
)

// follower connects a sidecar to the leader of its upstream. Any node forwards commands to the leader, but this takes one
// more round trip, and CPU time of both nodes.
type follower struct {
	failed string    // address of the leader to which a connection has failed, or that has named another leader
	until  time.Time // it is not tried again until then
}

// errNotLeader means that the node that was named as the leader has named another one: the two answers are from different
// times, or one of the nodes is cut off from the others.
var errNotLeader = errors.New("the node names another leader")

// open returns a connection to the leader that a node has named. It returns nil if the node is the leader, or if the leader
// is not reachable at the address that it has announced, or names another leader; the sidecar then continues to use the node.
func (f *follower) open(ctx context.Context, u *Upstream, p *prober) *prober {
	if p.leader == "" || p.leader == p.addr || p.leader == f.failed && time.Now().Before(f.until) {
		return nil
	}
	attempt, cancel := context.WithTimeout(ctx, followTrips*u.config.Timeout)
	defer cancel()
	q, err := openProber(attempt, &u.config.Credentials, p.leader)
	if err == nil && q.leader == "" {
		return q
	}
	if q != nil {
		q.close()
		err = errNotLeader
	}
	f.failed, f.until = p.leader, time.Now().Add(jittered(followBackoff))
	u.config.Log.Debug("cannot connect to the leader of the upstream", "address", p.leader, "error", err)
	return nil
}
