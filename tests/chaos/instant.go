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

// instant returns the current moment on both clocks. It charges a key, so that the leader's newest
// entry carries the current log time, and reads the log time of that entry.
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

// awaitInstant calls the instant method until a call succeeds, and returns its result. It returns
// the zero instant if no call succeeds within startWithin.
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

// passage compares log time with the clock of the clients. It measures the time from t.begun, the
// start of the load, to the given instant. It returns false if one of these instants is unknown.
func (t *trial) passage(now instant, silence time.Duration) (check.Passage, bool) {
	return check.Passage{
		Real: time.Duration(now.real - t.begun.real), Log: time.Duration(now.log - t.begun.log),
		Silence: silence, Terms: t.watch.span(),
	}, t.begun.log != 0 && now.log != 0
}
