package server

import "strings"

// answerCall appends the reply to a call that is done.
func (l *collector) answerCall(b *batch, call *call) {
	switch {
	case call.replied, l.answerByPolicy(b, call), l.answerAway(b, call):
	case call.err != nil:
		l.client.fail(call.cmd, call.err)
	case call.reply == nil:
		b.replyDecided(l.out, call, l.session.marksCharges, &l.srv.stats)
	case call.tx != nil:
		l.answerExec(call)
	case call.cmd.name == "wait" && call.reply[0] == ':' && !l.charged.holds(l.srv, l.client.pipe.leads()):
		l.out.Int(0) // WAIT must not confirm the client's last charge, which may have been rolled back
	default:
		l.client.relay(call.cmd, call.reply)
	}
}

// answerExec replies to a forwarded EXEC. The queued commands that need the leader were forwarded: answerExec relays
// their replies. It runs the other queued commands on this node.
func (l *collector) answerExec(call *call) {
	tx, elements := call.tx, call.elements
	if elements == nil {
		l.client.relay(call.cmd, call.reply) // an error, or a null array
		return
	}
	l.out.Array(len(tx.queued))
	l.session.tx.running = true
	for _, q := range tx.queued {
		if q.denied != nil {
			l.client.fail(q.cmd, q.denied)
			continue
		}
		if !q.cmd.needsLeader() {
			runQueued(l.client, q)
			continue
		}
		l.client.relay(q.cmd, elements[0])
		l.srv.stats.of(q.cmd).calls.Add(1)
		if q.cmd.is(readonly) && l.session.tracking.on {
			l.client.invalidate(q.cmd.keysOf(q.args))
		}
		elements = elements[1:]
	}
	l.client.endTransaction()
}

// relay appends a reply from another node.
func (c *client) relay(cmd *command, reply []byte) {
	if len(reply) > 0 && reply[0] == '-' {
		line := strings.TrimRight(string(reply[1:min(len(reply), 1+maxEcho)]), "\r\n")
		c.srv.stats.of(cmd).failed.Add(1)
		c.srv.stats.countError(replyError(line).code())
	}
	c.out.Raw(reply)
}

// fail appends an error reply. cmd is the command that failed, or nil if the error does not belong to a command.
func (c *client) fail(cmd *command, err error) {
	reply, known := asReply(err)
	if !known {
		c.srv.log.Error("a command failed", "command", c.session.lastCommand(), "error", err)
	}
	if isNotLeading(err) {
		reply = c.listener.notLeading
	}
	reply = c.srv.upstreamError(err, reply)
	reply = cmd.errorOf(reply)
	if cmd != nil {
		c.srv.stats.of(cmd).failed.Add(1)
	}
	c.srv.stats.countError(reply.code())
	c.out.Error(string(reply))
}
