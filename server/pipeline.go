package server

import (
	"bytes"
	"strings"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// away reports whether a command must run on the leader, and this node is not the leader.
func (c *client) away(cmd *command) bool {
	return cmd.needsLeader() && !c.tx.running && !c.tx.queueing && !c.leads()
}

// collects reports whether a command is added to the batch, which settle runs. All other commands run immediately,
// after settle.
func (c *client) collects(cmd *command) bool { return cmd.parse != nil || c.away(cmd) }

// collect adds a command to the batch. It first settles the batch if that is full, or if its commands run on another
// node than cmd.
func (c *client) collect(cmd *command, args [][]byte) {
	away := c.away(cmd)
	if b := c.batch; b != nil && !b.takes(cmd, args, away) {
		c.settle()
	}
	c.showMonitors(cmd, args)
	c.noteRun(cmd)
	if away {
		c.collectAway(cmd, args, false)
		return
	}
	if err := c.useBatch().add(cmd, args, c.srv.cluster != nil); err != nil {
		c.settle()
		c.srv.stats.of(cmd).calls.Add(1)
		c.fail(cmd, err)
	}
}

// collectAway adds a command that the leader must run. accounted reports whether the command is already counted in the
// statistics. A command that is not fast, or that needs its own stream, is the last of its batch, so that at most one
// long reply is buffered.
func (c *client) collectAway(cmd *command, args [][]byte, accounted bool) {
	if c.listener.onFollower == refuses {
		c.settle()
		c.refused = true
		c.fail(cmd, limiter.ErrNotLeading)
		return
	}
	c.useBatch().addAway(call{cmd: cmd, accounted: accounted}, args)
	if cmd.ownStream || !cmd.is(fast) {
		c.settle()
	}
}

// useBatch returns the batch of the client, which it takes from the pool if necessary.
func (c *client) useBatch() *batch {
	if c.batch == nil {
		c.batch = batches.Get().(*batch)
	}
	c.batch.logEntries = int64(c.srv.opts.Get().WindowLogMaxEntries)
	return c.batch
}

// dropBatch discards the commands of the batch and returns it to the pool.
func (c *client) dropBatch() {
	if c.batch != nil {
		c.batch.reset()
		batches.Put(c.batch)
		c.batch = nil
	}
}

// settle runs the collected commands and appends their replies. It forwards commands that this node cannot run, also
// if it has just lost leadership.
func (c *client) settle() {
	b := c.batch
	if b == nil || len(b.calls) == 0 {
		return
	}
	c.batch = nil // commands that run meanwhile, such as those of EXEC, use another batch
	if !b.away {
		c.decide(b)
	}
	var share time.Duration
	if undone(b.calls) > 0 {
		share = c.forwardAll(b)
	}
	c.answerAll(b, share)
	c.dropBatch()
	b.reset()
	c.batch = b
}

// decide has the engine decide a batch, and sets the outcome of its calls. If this node does not lead any more and
// commands can be forwarded, the affected calls remain undone.
func (c *client) decide(b *batch) {
	start := c.srv.uptime()
	lost := c.ask(b)
	took := c.srv.uptime() - start
	passesOn := c.passesOn()
	reqs, out := b.reqs[:b.n], b.out[:b.n]
	for i := range b.calls {
		call := &b.calls[i]
		err := call.outcome(reqs[:call.n], out[:call.n], lost)
		if !passesOn || !errLost(err) {
			call.done, call.err = true, err
		}
		reqs, out = reqs[call.n:], out[call.n:]
	}
	c.accountBatch(b, took)
}

// answerAll appends the replies to a batch. Only the last call can have a long reply, which counts as client memory
// until it is copied.
func (c *client) answerAll(b *batch, took time.Duration) {
	last := &b.calls[len(b.calls)-1]
	if !last.cmd.long {
		c.answerEach(b, took)
		return
	}
	c.usage.set(&c.usage.replies, int64(c.out.Size()+len(last.reply)))
	_ = c.runLong(last.cmd, func() error { // returns an error only if the connection has been closed
		c.answerEach(b, took)
		return nil
	})
}

func (c *client) answerEach(b *batch, took time.Duration) {
	reqs, out := b.reqs[:b.n], b.out[:b.n]
	for i := range b.calls {
		call := &b.calls[i]
		c.answer(call, reqs[:call.n], out[:call.n])
		if !call.accounted {
			c.account(call.cmd, took, func() [][]byte { return call.args })
		}
		if call.cmd.is(readonly) && c.tracking.on {
			c.invalidate(call.cmd.keysOf(call.args))
		}
		reqs, out = reqs[call.n:], out[call.n:]
	}
}

// answer appends the reply to a call that is done.
func (c *client) answer(call *call, reqs []limiter.Request, out []limiter.Decision) {
	switch {
	case call.err != nil:
		c.fail(call.cmd, call.err)
	case call.reply == nil:
		c.replyCall(call, reqs, out)
	case call.block != nil:
		c.replyBlock(call)
	case call.cmd.name == "wait":
		c.relayWait(call)
	default:
		c.relay(call)
	}
}

// relay appends the reply of another node.
func (c *client) relay(call *call) {
	if len(call.reply) > 0 && call.reply[0] == '-' {
		line := strings.TrimRight(string(call.reply[1:min(len(call.reply), 1+maxEcho)]), "\r\n")
		c.srv.stats.of(call.cmd).failed.Add(1)
		c.srv.stats.countError(replyError(line).code())
	}
	c.out.Raw(call.reply)
}

// runHere runs the remaining calls of a batch on this node, which has become the leader. It takes a turn, since many
// clients may have waited for that.
func (c *client) runHere(list []call) {
	c.takeTurn()
	defer c.giveTurn()
	for i := range list {
		if !list[i].done {
			c.runOneHere(&list[i])
		}
	}
}

func (c *client) runOneHere(f *call) {
	at := c.out.Len()
	err := c.runNow(f)
	switch {
	case err == nil:
		f.answer(bytes.Clone(c.out.Bytes()[at:]))
	case !errLost(err):
		f.fail(err)
	}
	c.out.Truncate(at, keepOut)
}

// runNow runs a call on this node and appends its reply.
func (c *client) runNow(f *call) error {
	switch {
	case f.block != nil:
		return c.execHere(f.block)
	case f.cmd.parse == nil:
		return c.runAwaited(f.cmd, f.args)
	}
	b := c.useBatch()
	defer b.reset()
	if err := b.add(f.cmd, f.args, false); err != nil {
		return err
	}
	call := &b.calls[0]
	if err := call.outcome(b.reqs[:b.n], b.out[:b.n], c.ask(b)); err != nil {
		return err
	}
	c.replyCall(call, b.reqs[:b.n], b.out[:b.n])
	return nil
}
