package server

import (
	"errors"

	"github.com/throttledhq/throttled/limiter"
)

// isNotLeading reports whether err is limiter.ErrNotLeading: the command had no effect because this node is not the
// leader.
func isNotLeading(err error) bool { return errors.Is(err, limiter.ErrNotLeading) }

// hold prevents a transfer of leadership until release is called, and reports whether this node may decide. On a
// standalone server, hold always returns true.
func (s *Server) hold() bool { return s.cluster == nil || s.cluster.Hold() }

func (s *Server) release() {
	if s.cluster != nil {
		s.cluster.Release()
	}
}

// ignoreNotLeading returns nil if err is limiter.ErrNotLeading, and otherwise err. err is the error of a write to the
// keyspace by a command that began while this node was the leader. ErrNotLeading thus means that leadership was lost
// during the command. Earlier writes of the command may be committed, so the command must not return ErrNotLeading,
// which would make it run again on the new leader. The command continues instead. Its reply is discarded later, because
// waiting for the commit fails: see execution.awaitCommit.
func ignoreNotLeading(err error) error {
	if isNotLeading(err) {
		return nil
	}
	return err
}

// unacknowledgedError returns the error of a command that cannot be acknowledged because of err. wrote reports whether
// the command writes. If so, unacknowledgedError returns err. A command that only reads has changed nothing, so its
// error is limiter.ErrNotLeading. If err is nil, unacknowledgedError returns nil.
func unacknowledgedError(err error, wrote bool) error {
	if err != nil && !wrote {
		return limiter.ErrNotLeading
	}
	return err
}

// outcome returns the error of a decided call, or nil. An error in the decisions takes precedence. lost is the error
// of WaitCommitted for the decisions. If lost is limiter.ErrUncertain, a call that charges fails with
// limiter.ErrUncertain, and any other call fails with limiter.ErrNotLeading. With any other error in lost, the call
// fails with that error.
func (c *call) outcome(reqs []limiter.Request, out []limiter.Decision, lost error) error {
	for i := range out[:len(out)-c.shadows] {
		if out[i].Err != nil {
			return c.interrupted(reqs, out, i)
		}
	}
	switch {
	case lost == nil:
		return nil
	case errors.Is(lost, limiter.ErrUncertain) && charges(reqs, out):
		return limiter.ErrUncertain
	case isNotLeading(lost), errors.Is(lost, limiter.ErrUncertain):
		return limiter.ErrNotLeading
	}
	return lost
}

// interrupted returns the error of a call whose decision with the index at is the first one with an error. If leadership was lost
// between requests that are charged each on its own, earlier ones may be committed, so the call must not run again.
func (c *call) interrupted(reqs []limiter.Request, out []limiter.Decision, at int) error {
	err, live := c.decisionError(reqs, out, at), len(out)-c.shadows
	if isNotLeading(err) && charges(reqs[:live], out[:live]) {
		return limiter.ErrUncertain
	}
	return err
}
