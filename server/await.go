package server

import (
	"errors"

	"github.com/throttledhq/throttled/limiter"
)

// errLost is errors.Is(err, limiter.ErrNotLeading): this node did not do what it was asked for.
func errLost(err error) bool { return errors.Is(err, limiter.ErrNotLeading) }

// hold keeps this node deciding until release, and reports whether it decides. A server by itself always does.
func (s *Server) hold() bool { return s.cluster == nil || s.cluster.Hold() }

func (s *Server) release() {
	if s.cluster != nil {
		s.cluster.Release()
	}
}

// awaitTicket waits for what a client is to be told of. The housekeeper lets it be meanwhile.
func (c *client) awaitTicket(t limiter.Ticket) error {
	if t == (limiter.Ticket{}) {
		return c.srv.engine.Await(t) // which does not last
	}
	defer c.resume(c.pause())
	return c.srv.engine.Await(t)
}

// runHeld runs a command that touches keys, or a transaction, on a node that decides from its beginning to its end, and
// waits until the client can be told. The error is limiter.ErrNotLeading if this node does not decide.
func (c *client) runHeld(writes bool, run func() error) error {
	before, after, err := c.markHeld(run)
	if err != nil {
		return err
	}
	return c.awaitBetween(before, after, writes)
}

// markHeld runs a command while this node is kept deciding, and marks what was done before and after it.
func (c *client) markHeld(run func() error) (before, after limiter.Ticket, err error) {
	if !c.srv.hold() {
		return before, after, limiter.ErrNotLeading
	}
	defer c.srv.release()
	before = c.srv.engine.Mark()
	err = run()
	return before, c.srv.engine.Mark(), err
}

// awaitBetween waits for all that has been done and seen between two Tickets, so that a
// client can be told. The error is limiter.ErrNotLeading if that may be out of date and nothing
// was written, and limiter.ErrUncertain if something may have been.
func (c *client) awaitBetween(before, after limiter.Ticket, wrote bool) error {
	if after.Term != before.Term { // the engine has begun anew in between
		return lostOr(limiter.ErrUncertain, wrote)
	}
	err := c.awaitTicket(after)
	if errLost(err) && !errLost(c.srv.engine.Await(before)) {
		err = limiter.ErrUncertain // it has decided at first, and then not any more
	}
	return lostOr(err, wrote)
}

// lostOr returns the error for what may be lost, if something was written that it concerns.
func lostOr(err error, wrote bool) error {
	if err != nil && !wrote {
		return limiter.ErrNotLeading
	}
	return err
}

// runAwaited runs a command that may touch keys, and waits until its client can be told. A
// transaction waits for its commands at its end.
func (c *client) runAwaited(cmd *command, args [][]byte) error {
	run := func() error { return c.runLocked(cmd, args) }
	if c.tx.running || !cmd.touchesKeys() {
		return c.runLong(cmd, run)
	}
	at := c.out.Len()
	var before, after limiter.Ticket
	err := c.runLong(cmd, func() (err error) {
		before, after, err = c.markHeld(run)
		return err
	})
	if err == nil {
		err = c.awaitBetween(before, after, cmd.is(write))
	}
	if err != nil {
		c.out.Truncate(at, keepOut)
	}
	return err
}

// outcome returns the error of a call whose decisions are made, or nil. lost is what Await has
// returned for them: who may have been charged is told so, and all others that they were not.
func (b *call) outcome(reqs []limiter.Request, out []limiter.Decision, lost error) error {
	for i := range out {
		if out[i].Err != nil {
			return out[i].Err
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
