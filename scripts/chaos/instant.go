package main

import (
	"context"
	"time"

	"github.com/throttledhq/throttled/scripts/chaos/check"
)

// instant is a moment on two clocks. The zero instant is none that is known.
type instant struct {
	real int64  // by that of the clients
	log  uint64 // by that of the cluster
}

// instant reads the clock of the cluster, by charging something and asking the leader for the time of
// its newest entry.
func (c *cluster) instant() (i instant, err error) {
	leader, err := c.leader()
	if err != nil {
		return i, err
	}
	if _, err := askOnce(leader.addr(), patience, "CL.THROTTLE", "instant", "1000000", "1000000", "1"); err != nil {
		return i, err
	}
	f, err := leader.fingerprint()
	return instant{c.clock.now(), f.LogTime}, err
}

// awaitInstant is instant once there is a leader; none if there will be none for long.
func (c *cluster) awaitInstant(ctx context.Context) (i instant) {
	_ = await(ctx, startWithin, func() (bool, error) { // others notice that nobody leads
		var err error
		i, err = c.instant()
		return err == nil, err
	})
	return i
}

// noticeable is how long nobody must have decided so that it counts: less is between two requests.
const noticeable = 50 * time.Millisecond

// passage compares the clocks since the load began. It is false if either moment is not known.
func (t *trial) passage(now instant, silence time.Duration) (check.Passage, bool) {
	return check.Passage{
		Real: time.Duration(now.real - t.begun.real), Log: time.Duration(now.log - t.begun.log),
		Silence: silence, Terms: t.watch.span(),
	}, t.begun.log != 0 && now.log != 0
}
