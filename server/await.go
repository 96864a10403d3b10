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

// awaitTicket waits until everything that t covers is committed, so that the reply may be sent. Timeouts are suspended
// meanwhile.
func (c *client) awaitTicket(t limiter.Ticket) error {
	if t == (limiter.Ticket{}) {
		return c.srv.engine.Await(t) // returns immediately
	}
	defer c.resume(c.pause())
	return c.srv.engine.Await(t)
}

// unlessLost returns the error of a write to the keyspace, and nil for limiter.ErrNotLeading. A command that writes
// runs on a node that decides, so the node has lost leadership since the command began, and earlier writes of the
// command may be committed. The reply of the command is discarded, since waiting for it fails: see awaitBetween.
func unlessLost(err error) error {
	if errLost(err) {
		return nil
	}
	return err
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

// markHeld runs a command while leadership is held, and returns the marks of the engine before and after it.
func (c *client) markHeld(run func() error) (before, after limiter.Ticket, err error) {
	if !c.srv.hold() {
		return before, after, limiter.ErrNotLeading
	}
	defer c.srv.release()
	before = c.srv.engine.Mark()
	err = run()
	return before, c.srv.engine.Mark(), err
}

// awaitBetween waits until everything that was written or read between two marks is committed, so
// that the reply may be sent. The error is limiter.ErrNotLeading if the command only reads, or if this
// node did not decide at either mark, and limiter.ErrUncertain if a write may or may not be committed.
func (c *client) awaitBetween(before, after limiter.Ticket, wrote bool) error {
	if after.Term != before.Term { // the engine has started a new term in between
		return lostOr(limiter.ErrUncertain, wrote)
	}
	err := c.awaitTicket(after)
	if errLost(err) && !errLost(c.srv.engine.Await(before)) {
		err = limiter.ErrUncertain // this node decided at the first mark, but not at the second
	}
	return lostOr(err, wrote)
}

// lostOr returns err if the command writes, and limiter.ErrNotLeading in place of any error if it
// only reads.
func lostOr(err error, wrote bool) error {
	if err != nil && !wrote {
		return limiter.ErrNotLeading
	}
	return err
}

// runAwaited runs a command, and waits until its reply may be sent if it touches keys. Within EXEC it
// does not wait: EXEC waits once for all commands.
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

// outcome returns the error of a call whose decisions are made, or nil. lost is the error of Await for
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
