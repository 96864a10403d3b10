package main

import (
	"context"
	"time"

	"github.com/throttledhq/throttled/tests/chaos/check"
)

// instant is the same moment on two clocks. The zero value means unknown.
type instant struct {
	real int64  // on the clock of the clients
	log  uint64 // log time of the cluster
}

// instant reads the log time. It charges a key and returns the time of the leader's newest entry.
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

// awaitInstant waits for a leader and returns instant. The result is zero if there is no
// leader within startWithin.
func (c *cluster) awaitInstant(ctx context.Context) (i instant) {
	_ = await(ctx, startWithin, func() (bool, error) { // a missing leader is reported by other checks
		var err error
		i, err = c.instant()
		return err == nil, err
	})
	return i
}

// noticeable is the shortest gap between decisions that counts as silence. Shorter gaps occur
// between any two requests.
const noticeable = 50 * time.Millisecond

// passage compares the clocks since the load began. It returns false if either moment is unknown.
func (t *trial) passage(now instant, silence time.Duration) (check.Passage, bool) {
	return check.Passage{
		Real: time.Duration(now.real - t.begun.real), Log: time.Duration(now.log - t.begun.log),
		Silence: silence, Terms: t.watch.span(),
	}, t.begun.log != 0 && now.log != 0
}
