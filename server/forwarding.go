package server

import (
	"bytes"
	"strings"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/topology"
)

// How long a client is kept waiting where this node cannot do what it asks for.
const (
	leaderPatience = 400 * time.Millisecond // for a node that leads
	replyPatience  = 2 * time.Second        // for its answer
	retryPause     = 4 * time.Millisecond   // between two attempts while nothing changes: a new leader is not ready at once
)

// errand is a command that this node cannot run, as it does not lead.
type errand struct {
	cmd     *command
	args    [][]byte
	block   *transaction // what EXEC is to run; nil for all other commands
	counted bool         // it has been accounted for

	// What it comes to: a reply, of its length, or an error.
	done  bool
	reply []byte
	err   error
}

// errands are consecutive commands of a pipeline that have yet to run elsewhere. Their
// arguments lie in the read buffer, so they are run before the next read.
type errands struct {
	list     []errand
	args     [][]byte
	replies  []byte          // room for what the leader answers
	hopeless <-chan struct{} // the change that has to come before it is worth trying again
}

func (e *errand) answer(reply []byte) { e.done, e.reply = true, reply }
func (e *errand) fail(err error)      { e.done, e.err = true, err }

// charges reports whether it may matter that the command has run.
func (e *errand) charges() bool {
	if e.block != nil {
		return e.block.writes()
	}
	return e.cmd.is(write | admin)
}

// key returns the first key of a command, or of a transaction, or nil.
func (e *errand) key() []byte {
	if e.block != nil {
		return e.block.key()
	}
	if keys := e.cmd.keysOf(e.args); len(keys) > 0 {
		return keys[0]
	}
	return nil
}

// add adds a command, whose arguments are kept.
func (l *errands) add(cmd *command, args [][]byte, counted bool) {
	from := len(l.args)
	l.args = append(l.args, args...)
	l.list = append(l.list, errand{cmd: cmd, args: l.args[from:len(l.args):len(l.args)], counted: counted})
}

// keepErrands is how many errands a connection keeps room for between reads.
const keepErrands = 16

// empty forgets all but what hope there is.
func (l *errands) empty() {
	clear(l.list)
	clear(l.args)
	l.list, l.args, l.replies = l.list[:0], l.args[:0], l.replies[:0]
	if cap(l.list) > keepErrands {
		l.list, l.args = nil, nil
	}
	if cap(l.replies) > keepOut {
		l.replies = nil
	}
}

// elsewhere reports whether another node leads, or none.
func (c *client) elsewhere() bool {
	return c.refused || c.srv.cluster != nil && !c.srv.cluster.View().Leading
}

// passesOn reports whether the client gets what it asks for although this node does not lead.
func (c *client) passesOn() bool {
	return c.srv.cluster != nil && c.face.elsewhere != refuses && !c.tx.running
}

// pass makes an errand of a command. Those that are answered at length go by themselves, so
// that no more than one such answer is held at a time.
func (c *client) pass(cmd *command, args [][]byte, counted bool) {
	c.decide()
	if c.face.elsewhere == refuses {
		c.refused = true
		c.fail(cmd, limiter.ErrNotLeading)
		return
	}
	if cmd.ownStream {
		c.runErrands()
	}
	c.sent.add(cmd, args, counted)
	if cmd.ownStream || !cmd.is(fast) {
		c.runErrands()
	}
}

// runErrands has the commands that have been collected run elsewhere, and adds their replies.
// The housekeeper lets the client be meanwhile.
func (c *client) runErrands() {
	if len(c.sent.list) == 0 {
		return
	}
	sent := c.sent
	c.sent.list, c.sent.args = nil, nil // what runs meanwhile collects nothing of its own
	list := sent.list
	note(&c.halfSince, 0) // what is incomplete cannot be completed now
	paused := c.pause()
	start := c.srv.uptime()
	c.runElsewhere(list)
	share := (c.srv.uptime() - start) / time.Duration(len(list))
	c.resume(paused)
	c.reportAll(list, share)
	c.sent.list, c.sent.args = sent.list, sent.args
	c.sent.empty()
}

// reportAll answers errands. One that may be answered at length is the last of them: what it has been
// answered counts while it waits to be copied.
func (c *client) reportAll(list []errand, took time.Duration) {
	last := list[len(list)-1]
	if last.cmd.long {
		c.usage.set(&c.usage.replies, int64(c.out.Size()+len(last.reply)))
	}
	_ = c.runLong(last.cmd, func() error { // which fails only for a client that has been hung up on
		for i := range list {
			c.report(&list[i], took)
		}
		return nil
	})
}

// runElsewhere tries until all errands are done. Where it has been in vain once, the rest of
// what was read is not kept waiting for the same.
func (c *client) runElsewhere(list []errand) {
	deadline := time.Now().Add(c.srv.forward.timeout.leader)
	for {
		view := c.srv.cluster.View()
		hopeless := c.sent.hopeless != nil && c.sent.hopeless == view.Changed
		if !hopeless {
			c.try(view, list, deadline)
		}
		left := undone(list)
		if left == 0 {
			return
		}
		if hopeless || !c.awaitChange(view, deadline) {
			c.sent.hopeless = view.Changed
			giveUp(list, limiter.ErrNotLeading)
			c.srv.forward.errors.Add(int64(left))
			return
		}
		c.srv.forward.retries.Add(int64(left))
	}
}

func undone(list []errand) (n int) {
	for i := range list {
		n += countTrue(!list[i].done)
	}
	return n
}

func giveUp(list []errand, err error) {
	for i := range list {
		if !list[i].done {
			list[i].fail(err)
		}
	}
}

// awaitChange waits until it may be worth trying again, and reports whether it is.
func (c *client) awaitChange(view *topology.View, deadline time.Time) bool {
	left := time.Until(deadline)
	if left <= 0 || c.hungUp.Load() {
		return false
	}
	timer := time.NewTimer(min(left, retryPause))
	defer timer.Stop()
	select {
	case <-view.Changed:
	case <-timer.C:
	}
	return true
}

// try does what errands it can, where the view says that they can be done.
func (c *client) try(view *topology.View, list []errand, deadline time.Time) {
	switch {
	case view.Leading:
		c.runHere(list)
		return
	case view.Leader == "" || view.Leader == view.Self:
		return // it does not decide yet
	case c.face.elsewhere == redirects:
		redirect(view.Find(view.Leader), list)
	}
	switch {
	case undone(list) == 0:
	case list[0].cmd.ownStream || list[0].block != nil && list[0].block.own != nil:
		c.carryOwn(view, list, deadline)
	default:
		c.carry(view, list, deadline)
	}
}

// runHere runs errands on this node, which leads by now. Many clients may have waited for that, so each takes a turn.
func (c *client) runHere(list []errand) {
	c.takeTurn()
	defer c.giveTurn()
	batch := c.batch // it may be about to be answered
	c.batch = nil
	for i := range list {
		if e := &list[i]; !e.done {
			c.runOneHere(e)
		}
	}
	c.dropBatch()
	c.batch = batch
}

func (c *client) runOneHere(e *errand) {
	at := c.out.Len()
	err := c.runNow(e)
	switch {
	case err == nil:
		e.answer(bytes.Clone(c.out.Bytes()[at:]))
	case !errLost(err):
		e.fail(err)
	}
	c.out.Truncate(at, keepOut)
}

// runNow runs an errand on this node.
func (c *client) runNow(e *errand) error {
	switch {
	case e.block != nil:
		return c.execHere(e.block)
	case e.cmd.parse == nil:
		return c.runAwaited(e.cmd, e.args)
	}
	if err := c.enqueue(e.cmd, e.args); err != nil {
		return err
	}
	b := c.batch
	defer b.empty()
	if err := b.calls[0].outcome(b.reqs[:b.n], b.out[:b.n], c.ask(b)); err != nil {
		return err
	}
	e.cmd.reply(c, b.calls[0].unit, b.reqs[:b.n], b.out[:b.n])
	return nil
}

// report answers a command that has been run elsewhere.
func (c *client) report(e *errand, took time.Duration) {
	switch {
	case e.err != nil:
		c.fail(e.cmd, e.err)
	case e.block != nil:
		c.replyBlock(e)
	case e.cmd.name == "wait":
		c.relayWait(e)
	default:
		c.relay(e)
	}
	if !e.counted {
		c.account(e.cmd, took, func() [][]byte { return e.args })
	}
	if e.cmd.is(readonly) && c.tracking.on {
		c.invalidate(e.cmd.keysOf(e.args))
	}
}

// relay passes a reply on as it is.
func (c *client) relay(e *errand) {
	if len(e.reply) > 0 && e.reply[0] == '-' {
		line := strings.TrimRight(string(e.reply[1:min(len(e.reply), 1+maxEcho)]), "\r\n")
		c.srv.stats.of(e.cmd).failed.Add(1)
		c.srv.stats.countError(replyError(line).code())
	}
	c.out.Raw(e.reply)
}
