package server

import (
	"bytes"
	"strings"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/resp"
	"github.com/throttledhq/throttled/server/forward"
	"github.com/throttledhq/throttled/topology"
)

// How long a client waits if this node cannot run its command.
const (
	leaderPatience = 400 * time.Millisecond // for a leader
	retryPause     = 4 * time.Millisecond   // between two attempts while the view stays: a new leader is not ready immediately
)

// forwardedCall is a command that this node cannot run, because it does not lead.
type forwardedCall struct {
	cmd       *command
	args      [][]byte
	block     *transaction // to be run by EXEC; nil for other commands
	accounted bool         // it counts in the statistics already

	// The outcome: a reply or an error.
	done     bool
	reply    []byte
	elements [][]byte // of the reply to EXEC by the leader
	err      error
}

// forwardedCalls are consecutive commands of a pipeline that are still to be forwarded. Their arguments lie in the read
// buffer, so they are forwarded before the next read.
type forwardedCalls struct {
	list  []forwardedCall
	args  [][]byte
	batch forward.Batch
	// hopeless is closed by the change of the view without which further attempts are useless; nil if they are not.
	hopeless <-chan struct{}
}

func (f *forwardedCall) answer(reply []byte) { f.done, f.reply = true, reply }
func (f *forwardedCall) fail(err error)      { f.done, f.err = true, err }

// writes reports whether it matters if the command is run twice.
func (f *forwardedCall) writes() bool {
	if f.block != nil {
		return f.block.writes()
	}
	return f.cmd.is(write | admin)
}

// key returns the first key of a command, or of a transaction, or nil.
func (f *forwardedCall) key() []byte {
	if f.block != nil {
		return f.block.key()
	}
	if keys := f.cmd.keysOf(f.args); len(keys) > 0 {
		return keys[0]
	}
	return nil
}

// add adds a command, and keeps its arguments.
func (l *forwardedCalls) add(cmd *command, args [][]byte, accounted bool) {
	from := len(l.args)
	l.args = append(l.args, args...)
	l.list = append(l.list, forwardedCall{cmd: cmd, args: l.args[from:len(l.args):len(l.args)], accounted: accounted})
}

// keepForwarded is the number of calls that a connection keeps room for between reads.
const keepForwarded = 16

// reset forgets the calls, but not whether attempts are hopeless.
func (l *forwardedCalls) reset() {
	clear(l.list)
	clear(l.args)
	l.list, l.args = l.list[:0], l.args[:0]
	if cap(l.list) > keepForwarded {
		l.list, l.args = nil, nil
	}
	l.batch.Reset()
}

// elsewhere reports whether another node leads, or none.
func (c *client) elsewhere() bool {
	return c.refused || c.srv.cluster != nil && !c.srv.cluster.View().Leading
}

// passesOn reports whether the client gets what it asks for although this node does not lead.
func (c *client) passesOn() bool {
	return c.srv.cluster != nil && c.face.elsewhere != refuses && !c.tx.running
}

// pass collects a command to be forwarded. Commands with a long reply, and those on a stream of their own, are
// forwarded alone, so that no more than one such reply is held.
func (c *client) pass(cmd *command, args [][]byte, accounted bool) {
	c.decide()
	if c.face.elsewhere == refuses {
		c.refused = true
		c.fail(cmd, limiter.ErrNotLeading)
		return
	}
	if cmd.ownStream {
		c.forwardAll()
	}
	c.sent.add(cmd, args, accounted)
	if cmd.ownStream || !cmd.is(fast) {
		c.forwardAll()
	}
}

// forwardAll forwards the commands that have been collected, and adds their replies. Idle timeouts are suspended
// meanwhile.
func (c *client) forwardAll() {
	if len(c.sent.list) == 0 {
		return
	}
	sent := c.sent
	c.sent.list, c.sent.args = nil, nil // a command that runs here meanwhile collects nothing
	list := sent.list
	note(&c.halfSince, 0) // an incomplete command cannot be completed now
	paused := c.pause()
	start := c.srv.uptime()
	c.forwardUntilDone(list)
	share := (c.srv.uptime() - start) / time.Duration(len(list))
	c.resume(paused)
	c.reportAll(list, share)
	c.sent.list, c.sent.args = sent.list, sent.args
	c.sent.reset()
}

// reportAll answers forwarded calls. A long reply is that of the last one: it counts as memory of the client until it
// is copied.
func (c *client) reportAll(list []forwardedCall, took time.Duration) {
	last := list[len(list)-1]
	if last.cmd.long {
		c.usage.set(&c.usage.replies, int64(c.out.Size()+len(last.reply)))
	}
	_ = c.runLong(last.cmd, func() error { // fails only if the connection has been closed
		for i := range list {
			c.report(&list[i], took)
		}
		return nil
	})
}

// forwardUntilDone retries until all calls are done or the time is up. After one vain attempt the rest of a pipeline
// does not wait for the same again.
func (c *client) forwardUntilDone(list []forwardedCall) {
	deadline := time.Now().Add(c.srv.leaderPatience)
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
			c.srv.forward.Errors.Add(int64(left))
			return
		}
		c.srv.forward.Retries.Add(int64(left))
	}
}

func undone(list []forwardedCall) (n int) {
	for i := range list {
		n += countTrue(!list[i].done)
	}
	return n
}

func giveUp(list []forwardedCall, err error) {
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

// try makes one attempt at the calls that are not done, as far as the view permits.
func (c *client) try(view *topology.View, list []forwardedCall, deadline time.Time) {
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
		c.forwardOwn(view, &list[0], deadline)
	default:
		b := c.forwardBatch(list)
		err := c.srv.forward.Forward(view.Leader, c.out.Protocol(), deadline, b)
		c.takeOutcomes(view, list, err)
	}
}

// forwardBatch returns a batch of the calls that are not done.
func (c *client) forwardBatch(list []forwardedCall) *forward.Batch {
	b := &c.sent.batch
	b.Calls = b.Calls[:0]
	for i := range list {
		f := &list[i]
		if f.done {
			continue
		}
		call := forward.Call{Args: f.args, Writes: f.writes(), ChangesLeader: f.cmd.is(admin), Wait: waitTime(f.cmd, f.args)}
		if f.block != nil {
			for _, q := range f.block.afar() {
				call.Block = append(call.Block, q.args)
			}
		}
		b.Calls = append(b.Calls, call)
	}
	return b
}

// takeOutcomes marks the calls that the batch has done. With forward.ErrBusy all others fail.
func (c *client) takeOutcomes(view *topology.View, list []forwardedCall, err error) {
	calls := c.sent.batch.Calls
	for i := range list {
		f := &list[i]
		if f.done {
			continue
		}
		switch call := &calls[0]; call.Outcome {
		case forward.Answered:
			f.answer(call.Reply)
			f.elements = call.Elements
			c.noteForwarded(call, view.Term)
		case forward.Uncertain:
			f.fail(limiter.ErrUncertain)
		}
		calls = calls[1:]
	}
	switch err {
	case nil:
	case forward.ErrBusy:
		c.srv.forward.Errors.Add(int64(undone(list)))
		giveUp(list, errBusy)
	case forward.ErrSilent:
		c.sent.hopeless = view.Changed
		fallthrough
	default:
		c.srv.debug("forward", "cannot forward commands", "node", view.Leader, "error", err)
	}
}

// waitTime returns how long a command itself waits: WAIT.
func waitTime(cmd *command, args [][]byte) time.Duration {
	if cmd.name == "wait" {
		if ms, ok := resp.ParseInt(args[2]); ok && ms > 0 && ms < int64(time.Hour/time.Millisecond) {
			return time.Duration(ms) * time.Millisecond
		}
	}
	return 0
}

// runHere runs calls on this node, which leads by now. Many clients may have waited for that, so each takes a turn.
func (c *client) runHere(list []forwardedCall) {
	c.takeTurn()
	defer c.giveTurn()
	batch := c.batch // its replies may be in progress
	c.batch = nil
	for i := range list {
		if e := &list[i]; !e.done {
			c.runOneHere(e)
		}
	}
	c.dropBatch()
	c.batch = batch
}

func (c *client) runOneHere(e *forwardedCall) {
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

// runNow runs a call on this node.
func (c *client) runNow(e *forwardedCall) error {
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
	c.replyCall(&b.calls[0], b.reqs[:b.n], b.out[:b.n])
	return nil
}

// report answers a call that is done.
func (c *client) report(e *forwardedCall, took time.Duration) {
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
	if !e.accounted {
		c.account(e.cmd, took, func() [][]byte { return e.args })
	}
	if e.cmd.is(readonly) && c.tracking.on {
		c.invalidate(e.cmd.keysOf(e.args))
	}
}

// relay passes a reply on as it is.
func (c *client) relay(e *forwardedCall) {
	if len(e.reply) > 0 && e.reply[0] == '-' {
		line := strings.TrimRight(string(e.reply[1:min(len(e.reply), 1+maxEcho)]), "\r\n")
		c.srv.stats.of(e.cmd).failed.Add(1)
		c.srv.stats.countError(replyError(line).code())
	}
	c.out.Raw(e.reply)
}
