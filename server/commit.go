package server

import (
	"errors"

	"github.com/throttledhq/throttled/limiter"
)

// errLost reports whether err is limiter.ErrNotLeading: the command had no effect because this node does not lead.
func errLost(err error) bool { return errors.Is(err, limiter.ErrNotLeading) }

// hold prevents the transfer of leadership until release, and reports whether this node decides. A standalone server
// always does.
func (s *Server) hold() bool { return s.cluster == nil || s.cluster.Hold() }

func (s *Server) release() {
	if s.cluster != nil {
		s.cluster.Release()
	}
}

// unlessLost returns the error of a write to the keyspace, and nil for limiter.ErrNotLeading. A command that writes
// runs on a node that decides, so the node has lost leadership since the command began, and earlier writes of the
// command may be committed. The reply of the command is discarded, since waiting for it fails: see
// execution.awaitCommit.
func unlessLost(err error) error {
	if errLost(err) {
		return nil
	}
	return err
}

// lostOr returns err if the command writes, and limiter.ErrNotLeading in place of any error if it
// only reads.
func lostOr(err error, wrote bool) error {
	if err != nil && !wrote {
		return limiter.ErrNotLeading
	}
	return err
}

// outcome returns the error of a call whose decisions are made, or nil. lost is the error of WaitCommitted for
// them. If it is limiter.ErrUncertain, a call that charges fails with it, and any other call with
// limiter.ErrNotLeading.
func (c *call) outcome(reqs []limiter.Request, out []limiter.Decision, lost error) error {
	for i := range out {
		if out[i].Err != nil {
			return errUndecided(reqs, out, i)
		}
	}
	switch {
	case lost == nil:
		return nil
	case errors.Is(lost, limiter.ErrUncertain) && charges(reqs, out):
		return limiter.ErrUncertain
	case errLost(lost), errors.Is(lost, limiter.ErrUncertain):
		return limiter.ErrNotLeading
	}
	return lost
}
