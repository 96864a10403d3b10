package server

import (
	"errors"

	"github.com/throttledhq/throttled/limiter"
)

// errLost is errors.Is(err, limiter.ErrNotLeading): this node did not do what it was asked for.
func errLost(err error) bool { return errors.Is(err, limiter.ErrNotLeading) }

// awaitTicket waits for what a client is to be told of. The housekeeper lets it be meanwhile.
func (c *client) awaitTicket(t limiter.Ticket) error {
	if t == (limiter.Ticket{}) {
		return c.srv.engine.Await(t) // which does not last
	}
	defer c.awaiting.Store(c.awaiting.Swap(true))
	return c.srv.engine.Await(t)
}

// awaitSince waits for all that has been done and seen since a Ticket was marked, so that a
// client can be told. The error is limiter.ErrNotLeading if that may be out of date and nothing
// was written, and limiter.ErrUncertain if something may have been.
func (c *client) awaitSince(before limiter.Ticket, wrote bool) error {
	after := c.srv.engine.Mark()
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
	if c.tx.running || !cmd.touchesKeys() {
		return c.runLocked(cmd, args)
	}
	at, before := c.out.Len(), c.srv.engine.Mark()
	err := c.runLocked(cmd, args)
	if err == nil {
		err = c.awaitSince(before, cmd.is(write))
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
