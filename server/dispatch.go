package server

import (
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// replyMode is the mode set by CLIENT REPLY.
type replyMode uint8

const (
	replyOn replyMode = iota
	replyOff
	replySkip     // the reply to the next command is dropped
	replySkipping // the reply to the current command is dropped
)

// start begins a command.
func (p *pipeline) start(args [][]byte) {
	p.current.cmd, p.current.args = p.client.commands.find(args, p.session.lastRun.Load()), args
	if p.mustPause() {
		p.current.stage = stagePause
		return
	}
	p.resume()
}

// resume continues with a command that is not paused.
func (p *pipeline) resume() {
	if p.session.replies != replyOn {
		p.current.stage = stageMute
		return
	}
	p.dispatch()
}

// done completes the current command. If the reply to the command must be dropped, stageUnmute follows.
func (p *pipeline) done() {
	if p.current.muted {
		p.current.stage = stageUnmute
		return
	}
	p.current.stage = stageNone
}

// dispatch checks whether the current command may run, and then queues the command for EXEC, adds it to a batch, or
// runs it.
func (p *pipeline) dispatch() {
	cur := &p.current
	cur.err = p.client.gate(cur.cmd, cur.args)
	switch {
	case cur.err != nil:
		p.current.stage = stageReject
	case p.session.tx.queueing && !runsInMulti[cur.cmd.name]:
		p.current.stage = stageQueue
	case cur.cmd.mayBeRefused() && !p.unread.take():
		p.current.stage = stageOverloaded
	case cur.cmd.parse != nil || p.mustForward(cur.cmd):
		p.collect()
	default:
		p.current.stage = stageRun
	}
}

// advanceCommand runs one stage of the current command. All earlier commands must already be answered.
func (p *pipeline) advanceCommand() need {
	cur := &p.current
	switch cur.stage {
	case stagePause:
		return p.pauseCurrent()
	case stageMute:
		cur.stage = stageMuted
		return needWrite // the write empties the buffer, so that only the reply to drop is in the buffer later
	case stageMuted:
		if p.session.replies == replySkip {
			p.session.replies = replySkipping
		}
		cur.muted = true
		p.dispatch()
	case stageUnmute:
		p.unmute()
	case stageCollect:
		p.collect()
	case stageQueue:
		p.client.queue(cur.cmd, cur.args)
		p.done()
	case stageReject:
		p.client.reject(cur.cmd, cur.err)
		p.done()
	case stageOverloaded:
		p.refuseOverloaded()
	case stageFail:
		p.client.fail(cur.cmd, cur.err)
		p.done()
	case stageRun:
		return p.runCurrent()
	}
	return needNothing
}

// pauseCurrent waits until the current command is not paused, after the replies to earlier commands were written.
func (p *pipeline) pauseCurrent() need {
	switch {
	case p.closing.hungUp.Load():
		p.abort() // the command must not run
		p.current.stage = stageNone
	case !p.mustPause():
		p.resume()
	case p.out.Len() > 0:
		return needWrite
	default:
		return needPause
	}
	return needNothing
}

// unmute drops the reply to the current command.
func (p *pipeline) unmute() {
	if p.session.replies != replyOn { // if the command was CLIENT REPLY ON, its reply is sent
		p.out.Truncate(0, keepOut)
	}
	if p.session.replies == replySkipping {
		p.session.replies = replyOn
	}
	p.current.stage, p.current.muted = stageNone, false
}

// leads reports whether this node is standalone or the leader of its cluster. If a command was refused because this
// node was not the leader, leads returns false for the remaining commands of the same read, so that they are refused
// too.
func (p *pipeline) leads() bool {
	return !p.read.refused && (p.srv.cluster == nil || p.srv.cluster.View().Leading)
}

// forwardsCommands reports whether commands of the client are forwarded or redirected if this node is not the leader.
func (c *client) forwardsCommands() bool {
	return c.srv.cluster != nil && c.listener.onFollower != refuses
}

// mustForward reports whether a command must be sent to the leader: the command needs the leader, it is not queued for
// EXEC, and this node is not the leader.
func (p *pipeline) mustForward(cmd *command) bool {
	return cmd.needsLeader() && !p.session.tx.queueing && !p.leads() && !p.runsLeaderless(cmd) && !p.decidesFirst(cmd)
}

// decidesFirst reports whether the engine of a sidecar is asked before a command is forwarded. A command that uses the rules
// is forwarded unless the newest rules of the upstream are known.
func (p *pipeline) decidesFirst(cmd *command) bool {
	return p.srv.isSidecar() && cmd.parse != nil && !cmd.report && p.srv.sidecar.Decides() && (!cmd.rules || p.srv.rules.known() && p.srv.sidecar.RulesKnown())
}

// runsLeaderless reports whether this node runs a command itself because the cluster has no leader. A command from another
// node is refused instead, because that node has a leader.
func (p *pipeline) runsLeaderless(cmd *command) bool {
	return cmd.leaderless && p.srv.clustered() && p.client.forwardsCommands() && p.srv.cluster.View().Leader == ""
}

// collect adds the current command to the batch. The batch is settled first in three cases: it is full, its commands
// run on a different node than the current command, or the current command must be forwarded over its own stream.
func (p *pipeline) collect() {
	cur := &p.current
	forLeader := p.mustForward(cur.cmd)
	if !forLeader && cur.cmd.parse == nil { // this node has become the leader since dispatch
		p.current.stage = stageRun
		return
	}
	if !p.collector.takes(cur.cmd, cur.args, forLeader) {
		p.current.stage = stageCollect
		return
	}
	if forLeader {
		p.beginCollected()
		p.collectForLeader(false)
		return
	}
	cur.err = p.collector.open().add(cur.cmd, cur.args, p.srv.cluster != nil)
	if cur.err == errBatchFull {
		p.current.stage = stageCollect
		return
	}
	if cur.err != nil && p.srv.isSidecar() && cur.cmd.rules { // the upstream may have newer rules
		p.collectInvalid()
		return
	}
	p.beginCollected()
	if cur.err != nil {
		p.srv.stats.of(cur.cmd).calls.Add(1)
		p.current.stage = stageFail
		return
	}
	p.done()
}

// collectInvalid collects a command that the present rules do not permit, to be forwarded.
func (p *pipeline) collectInvalid() {
	cur := &p.current
	if !p.collector.takes(cur.cmd, cur.args, true) {
		p.current.stage = stageCollect
		return
	}
	p.beginCollected()
	p.collectForLeader(false)
}

// beginCollected shows the current command to clients in MONITOR mode, and in CLIENT LIST.
func (p *pipeline) beginCollected() {
	showMonitors(p.client, p.current.cmd, p.current.args)
	p.session.setLastRun(p.current.cmd)
}

// collectForLeader adds the current command to the batch that is forwarded to the leader. The argument accounted is
// true if the command is already counted in the statistics. A command that is not fast is the last in its batch, so
// that at most one long reply is buffered. A command that needs its own stream is also the last in its batch.
func (p *pipeline) collectForLeader(accounted bool) {
	cur := &p.current
	if !p.client.forwardsCommands() {
		p.read.refused = true
		cur.err = limiter.ErrNotLeading
		p.current.stage = stageFail
		return
	}
	b := p.collector.open()
	b.addForLeader(call{cmd: cur.cmd, accounted: accounted}, p.client.argsForLeader(cur.cmd, cur.args))
	b.complete = cur.cmd.ownStream || !cur.cmd.is(fast)
	p.done()
}

// runCurrent runs the current command on this node.
func (p *pipeline) runCurrent() need {
	cur, e := &p.current, &p.execution
	if e.stage == runIdle {
		if cur.cmd.afterReplies && p.out.Len() > 0 {
			return needWrite
		}
		p.session.setLastRun(cur.cmd)
		cur.start = p.srv.uptime()
		e.begin(cur.cmd, cur.args, nil)
	}
	if n := e.advance(); n != needNothing {
		return n
	}
	tx := e.tx
	err := e.finish()
	switch {
	case err == nil:
		p.finishCurrent(nil)
		tx.close()
	case tx != nil && isNotLeading(err) && p.client.forwardsCommands():
		p.forwardExec(tx)
	case tx == nil && isNotLeading(err) && cur.cmd.needsLeader() && p.client.forwardsCommands():
		record(p.client, cur.cmd, cur.args, cur.start)
		p.collectForLeader(true)
	default:
		p.finishCurrent(err)
		tx.close()
	}
	return needNothing
}

// finishCurrent replies with err unless it is nil, and accounts for the current command.
func (p *pipeline) finishCurrent(err error) {
	cur := &p.current
	if err != nil {
		p.client.fail(cur.cmd, err)
	}
	record(p.client, cur.cmd, cur.args, cur.start)
	if cur.cmd.is(readonly) && p.session.tracking.on {
		p.client.invalidate(cur.cmd.keysOf(cur.args))
	}
	p.done()
}

// record adds a command to the statistics, and sends it to the clients in MONITOR mode. The argument start is the time
// at which the command began. record is called after the command has run, so MONITOR shows EXEC after the commands of
// its transaction.
func record(c *client, cmd *command, args [][]byte, start time.Duration) {
	account(c, cmd, c.srv.uptime()-start, args)
	showMonitors(c, cmd, args)
}
