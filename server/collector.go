package server

import (
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/resp"
)

// collector owns the commands of a pipeline that are collected in a batch and not yet answered. The batch contains
// either limiter commands that this node decides together, or commands that the leader runs. Settling the batch takes
// several steps: the commands are decided or forwarded, and then answered in order.
type collector struct {
	client     *client
	srv        *Server
	session    *session
	out        *resp.Reply
	execution  *execution // runs a forwarded call if this node becomes the leader
	long       *longToken
	charged    *era   // era of the last charge
	batch      *batch // nil if no commands were collected since the last read
	forwarding forwarding
}

func (l *collector) init(c *client) {
	l.client, l.srv, l.session, l.out = c, c.srv, &c.session, &c.out
	l.execution, l.long, l.charged = &c.pipe.execution, &c.pipe.long, &c.pipe.charged
	l.forwarding.init(c)
}

// takes reports whether a command can be added to the commands that are already collected. If not, the collected
// commands must be settled first. forLeader reports whether the leader must run the command.
func (l *collector) takes(cmd *command, args [][]byte, forLeader bool) bool {
	return l.batch == nil || l.batch.takes(cmd, args, forLeader)
}

// open returns the batch to which the next command is added.
func (l *collector) open() *batch {
	if l.batch == nil {
		l.batch = newBatch()
	}
	if len(l.batch.calls) == 0 {
		l.batch.configure(l.client)
	}
	return l.batch
}

// idle releases the batch, which must be empty.
func (l *collector) idle() {
	if l.batch != nil {
		l.batch.release()
		l.batch = nil
	}
}

// close drops the collected commands.
func (l *collector) close() {
	if l.batch == nil {
		return
	}
	for i := range l.batch.calls {
		l.batch.calls[i].tx.close()
	}
	l.idle()
}

// settling reports whether settle was called and some commands are not yet answered.
func (l *collector) settling() bool { return l.batch != nil && l.batch.stage != batchCollecting }

// collected reports whether there are collected commands.
func (l *collector) collected() bool { return l.batch != nil && len(l.batch.calls) > 0 }

// settle starts to run the collected commands, of which there must be at least one. The caller must call advance until
// settling returns false, before it runs any other command.
func (l *collector) settle() {
	b := l.batch
	b.stage = batchDecide
	if b.forLeader {
		l.beginForward(b)
	} else {
		b.started = l.srv.uptime()
	}
}

// advance runs steps of the batch until all its calls are answered or the batch must wait.
func (l *collector) advance() need {
	b := l.batch
	for b.stage != batchCollecting {
		n := needNothing
		switch b.stage {
		case batchDecide:
			n = l.decide(b)
		case batchCommit:
			l.finishDecisions(b)
		case batchForward:
			n = l.forward(b)
		case batchAnswer:
			n = l.answer(b)
		}
		if n != needNothing {
			return n
		}
	}
	return needNothing
}

// decide passes a batch to the engine. Meanwhile it holds the exec lock, so that no transaction runs at the same
// time.
func (l *collector) decide(b *batch) need {
	if !l.execution.lock.try(lockShared) {
		return needLock
	}
	b.stage, b.token = batchCommit, l.decideLocked(b)
	if b.token != (limiter.CommitToken{}) {
		return needCommit
	}
	l.awaitCommit() // returns immediately for a zero token
	return needNothing
}

// decideLocked passes a batch to the engine, and then releases the exec lock.
func (l *collector) decideLocked(b *batch) limiter.CommitToken {
	defer l.execution.lock.release()
	t := b.decide(l.srv)
	l.charged.recordDecisions(b, t)
	return t
}

// finishDecisions sets the outcomes of the calls in a decided batch. If calls failed because this node is not the
// leader, finishDecisions starts to forward them, unless the follower policy of the listener profile is to refuse them.
func (l *collector) finishDecisions(b *batch) {
	took := l.srv.uptime() - b.started
	undone := b.setOutcomes(l.client.forwardsCommands())
	accountBatch(l.client, b, took)
	b.stage = batchAnswer
	if undone > 0 {
		l.beginForward(b)
	}
}

// beginForward starts to forward the calls without an outcome.
func (l *collector) beginForward(b *batch) {
	b.stage, b.started = batchForward, l.srv.uptime()
	l.forwarding.begin(b)
}

// forward sends the calls without an outcome to the leader.
func (l *collector) forward(b *batch) need {
	n := l.forwarding.advance(b)
	if n == needNothing {
		b.stage = batchAnswer
	}
	return n
}

// answer appends the replies to the calls of a batch, in order. If a call still has no outcome, this node has become
// the leader, and answer runs the call on this node. If this node loses leadership before the call runs, the call is
// forwarded again.
func (l *collector) answer(b *batch) need {
	for ; b.answered < len(b.calls); b.answered++ {
		call := &b.calls[b.answered]
		if !call.done {
			if n := l.runCall(call); n != needNothing {
				return n
			}
			if !call.done {
				b.stage = batchForward
				return needNothing
			}
		}
		if call.cmd.long && !call.replied && !l.long.held {
			return needMemory
		}
		l.finishCall(b, call)
	}
	b.reset()
	return needNothing
}

// runCall runs a call on this node and appends its reply. If this node is not the leader, the call gets no outcome.
func (l *collector) runCall(call *call) need {
	e := l.execution
	if e.stage == runIdle {
		e.begin(call.cmd, call.args, call.tx)
	}
	if n := e.advance(); n != needNothing {
		return n
	}
	switch err := e.finish(); {
	case err == nil:
		call.done, call.replied = true, true
	case !isNotLeading(err):
		call.fail(err)
	}
	return needNothing
}

// finishCall replies to a call that has an outcome, and adds the call to the statistics.
func (l *collector) finishCall(b *batch, call *call) {
	l.answerCall(b, call)
	if l.long.held {
		l.long.release()
		l.long.usage.set(&l.long.usage.replies, int64(l.out.Size()))
	}
	if !call.accounted {
		account(l.client, call.cmd, b.share(l.srv.uptime()), call.args)
	}
	if call.tx != nil {
		call.tx.close()
		showMonitors(l.client, call.cmd, call.args)
	}
	if call.cmd.is(readonly) && l.session.tracking.on {
		l.client.invalidate(call.cmd.keysOf(call.args))
	}
}

// awaitCommit waits until the decisions are committed.
func (l *collector) awaitCommit() { l.batch.lost = l.batch.awaitCommit(l.srv, l.batch.token) }

// exchange sends the calls without an outcome to the leader and waits for the replies.
func (l *collector) exchange() { l.forwarding.exchange(l.batch) }

// awaitMemory waits until a long reply from another node may be copied. The reply counts as client memory until it is
// copied.
func (l *collector) awaitMemory() {
	call := &l.batch.calls[l.batch.answered]
	l.long.usage.set(&l.long.usage.replies, int64(l.out.Size()+len(call.reply)))
	if !l.long.acquire() {
		call.replied = true
		l.client.pipe.abort()
	}
}
