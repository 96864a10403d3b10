package server

import "github.com/throttledhq/throttled/limiter"

// Commands of a transaction run while the exec lock is held, and must not block. The execution waits once for the
// commit of all commands, after the lock is released.

// exec runs a transaction. The handler of EXEC calls it. If this node cannot run the transaction, exec returns
// limiter.ErrNotLeading. There are three such cases: the transaction touches keys and this node is not the leader; the
// leader watches keys for the client; or changes of the watched keys can no longer be detected. After this error, the
// pipeline calls forwardExec if commands of the client are forwarded.
func (e *execution) exec(tx *transaction) error {
	e.tx = tx
	if tx.ownStream != nil || tx.lost || tx.touchesKeys() && !e.client.pipe.leads() {
		return limiter.ErrNotLeading
	}
	return e.runTransaction()
}

// runTransaction runs the transaction on this node.
func (e *execution) runTransaction() error {
	if !e.tx.touchesKeys() {
		e.runExclusively()
		return nil
	}
	e.keys, e.writes = true, e.tx.writes()
	return e.runWithHold()
}

// runExclusively runs the transaction under the exec lock. If a watched key has changed, or if this node cannot detect
// changes of the watched keys, it runs no command, and replies with a null array.
func (e *execution) runExclusively() {
	e.lock.acquire(lockExclusive)
	defer e.lock.release()
	if e.tx.ownStream != nil || e.tx.lost || e.tx.changed(e.client.srv.engine) {
		e.client.out.NullArray()
		return
	}
	e.client.out.Array(len(e.tx.queued))
	e.runAll()
}

// maxExecReply is the maximum size in bytes of the replies of a transaction. Small requests can have large replies, and
// nothing is written before EXEC is done. If a transaction exceeds the limit, its remaining commands do not run, and
// the connection is closed.
const maxExecReply = 16 << 20

// runAll runs the queued commands. Consecutive limiter commands are decided together.
func (e *execution) runAll() {
	c := e.client
	b := newBatch()
	defer b.release()
	b.configure(c)
	c.session.tx.running = true
	for _, q := range e.tx.queued {
		switch {
		case q.denied != nil:
			answerQueued(c, b)
			c.fail(q.cmd, q.denied)
		case q.cmd.parse != nil:
			decideQueued(c, b, q)
		default:
			answerQueued(c, b)
			runQueued(c, q)
		}
		c.conn.usage.set(&c.conn.usage.replies, int64(c.out.Size()))
		if c.out.Len() > maxExecReply {
			c.pipe.abort()
			break
		}
	}
	answerQueued(c, b)
	c.endTransaction()
}

// decideQueued adds a limiter command of a transaction to b. If b is full, its commands are answered first.
func decideQueued(c *client, b *batch, q queuedCommand) {
	if !b.takes(q.cmd, q.args, false) {
		answerQueued(c, b)
	}
	showMonitors(c, q.cmd, q.args)
	c.session.setLastRun(q.cmd)
	err := b.add(q.cmd, q.args, false)
	if err == errBatchFull {
		answerQueued(c, b)
		err = b.add(q.cmd, q.args, false)
	}
	if err != nil {
		answerQueued(c, b)
		c.srv.stats.of(q.cmd).calls.Add(1)
		c.fail(q.cmd, err)
	}
}

// answerQueued passes the limiter commands in b to the engine, and replies to them. The set of rules is kept, so that one
// version of the rules decides all commands of the transaction.
func answerQueued(c *client, b *batch) {
	if len(b.calls) == 0 {
		return
	}
	start := c.srv.uptime()
	c.pipe.charged.recordDecisions(b, b.decide(c.srv))
	b.setOutcomes(false)
	accountBatch(c, b, c.srv.uptime()-start)
	for i := range b.calls {
		c.pipe.collector.answerCall(b, &b.calls[i])
	}
	rule := &b.rule
	set, version, counts, now := rule.set, rule.version, rule.counts, rule.now
	b.reset()
	rule.set, rule.version, rule.counts, rule.now = set, version, counts, now
}

// runQueued runs a command of a transaction that is not a limiter command.
func runQueued(c *client, q queuedCommand) {
	c.session.setLastRun(q.cmd)
	start := c.srv.uptime()
	if err := q.cmd.run(c, q.args); err != nil {
		c.fail(q.cmd, err)
	}
	record(c, q.cmd, q.args, start)
	if q.cmd.is(readonly) && c.session.tracking.on {
		c.invalidate(q.cmd.keysOf(q.args))
	}
}

// endTransaction appends the invalidations and pushed messages of a transaction to the reply to EXEC. They were held
// back, because they must not be sent within that reply.
func (c *client) endTransaction() {
	tx := &c.session.tx
	tx.running = false
	c.invalidate(tx.toInvalidate)
	c.out.Raw(tx.pushed)
	tx.toInvalidate, tx.pushed = nil, nil
}

// forwardExec forwards the transaction of the current command. The leader runs the commands that only the leader can
// run, as one transaction. This node runs the other commands. If the transaction cannot be forwarded, the watched keys
// count as changed, and EXEC replies with a null array.
func (p *pipeline) forwardExec(tx *transaction) {
	cur := &p.current
	if !tx.forwardable(p.out.Protocol()) {
		p.out.NullArray()
		record(p.client, cur.cmd, cur.args, cur.start)
		p.done()
		tx.close()
		return
	}
	b := p.collector.open()
	b.addForLeader(call{cmd: cur.cmd, tx: tx}, cur.args)
	b.complete = true
	p.done()
}
