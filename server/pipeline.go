package server

import (
	"time"

	"github.com/throttledhq/throttled/resp"
)

// pipeline runs the commands of one client. It is the only owner of the commands that are collected, forwarded and not
// yet answered, and it alone determines the order of the replies.
//
// It is a state machine without a goroutine. The caller passes it the commands of a read with begin, and then calls
// advance until it returns needNothing: all commands are answered, and the replies are in out. If advance returns
// needWrite, the caller writes the replies and calls advance again. If it returns any other need, the caller calls
// wait, which blocks and stores its result in the pipeline, and then advance again. advance itself never blocks, except
// briefly on mutexes of the server and on the shards of the engine.
//
// The calls may be made by different goroutines, one after the other: an event loop can call advance and hand over each
// wait to another goroutine. A caller that bounds the number of concurrent calls of advance must not hold its permission
// during wait, except for needLock.
//
// A command runs in one of two ways. Limiter commands of this node, and commands for the leader, are collected, and
// settled together: before any other command runs, when the batch is full, and after the last command of a read. Any
// other command is run by execution.
type pipeline struct {
	client  *client // passed to command handlers, and named in logs
	srv     *Server
	session *session
	out     *resp.Reply
	closing *closing

	read      commands
	current   current
	collector collector // earlier commands
	execution execution // runs the current command, or one of the collector
	long      longToken
	charged   era  // era of the last charge
	need      need // result of the last advance
	end       endMode
}

// commands are the commands of one read.
type commands struct {
	in        *resp.Reader
	ran       bool  // there was a complete command
	drained   bool  // there are no more
	refused   bool  // a command was refused because this node does not lead: later ones are refused too, to keep their order
	malformed error // error of the command after the last
}

// current is the command in progress.
type current struct {
	stage stage
	cmd   *command
	args  [][]byte
	err   error         // reply, in stageReject and stageFail
	muted bool          // the reply is dropped
	start time.Duration // time at which the command began to run here
}

// stage is the next step of the command in progress. In all stages but stageNone earlier commands are answered.
type stage uint8

const (
	stageNone    stage = iota // no command is in progress
	stageMute                 // CLIENT REPLY: write the replies to earlier commands
	stageMuted                // they are written: dispatch the command
	stageUnmute               // drop the reply
	stageCollect              // add the command to the batch
	stageQueue                // queue the command for EXEC
	stageReject               // reply with err: the command did not run
	stageFail                 // reply with err: the command failed
	stageRun                  // run the command
)

// need is the condition on which advance waits.
type need uint8

const (
	needNothing need = iota // all commands are answered
	needWrite               // the replies in out must be written; the caller does that
	needLock                // another client runs a transaction
	needCommit              // decisions or changes must be committed before they are acknowledged
	needCommand             // a command that is not fast must run
	needMemory              // a long reply needs client memory
	needLeader              // commands are forwarded to the leader
	needView                // there is no leader, or it refused
)

// endMode is how a command ends the connection.
type endMode uint8

const (
	endNot          endMode = iota
	endAfterReplies         // close after the replies are written
	endNow                  // close immediately and drop unwritten replies
)

func (p *pipeline) init(c *client) {
	p.client, p.srv, p.session, p.out, p.closing = c, c.srv, &c.session, &c.out, &c.conn.closing
	p.long = longToken{srv: c.srv, usage: &c.conn.usage, closing: p.closing}
	p.execution.init(c)
	p.collector.init(c)
}

// begin passes the commands of a read. Their arguments must stay valid until advance returns needNothing.
func (p *pipeline) begin(in *resp.Reader) {
	p.read = commands{in: in}
	p.collector.forwarding.failed = nil
}

// advance runs commands until all are answered or a wait is due.
func (p *pipeline) advance() need {
	for {
		switch {
		case p.collector.settling():
			p.need = p.collector.advance()
		case p.current.stage != stageNone:
			p.need = p.advanceCommand()
		case p.end == endNot && p.out.Len() >= flushAt:
			p.need = needWrite
		case !p.next() && !p.collector.settle():
			p.finish()
			p.need = needNothing
			return needNothing
		default:
			p.need = needNothing
		}
		if p.need != needNothing {
			return p.need
		}
	}
}

// wait performs the wait on which the last advance has returned.
func (p *pipeline) wait() {
	switch p.need {
	case needLock:
		p.execution.lock.wait()
	case needCommand:
		p.execution.runSlow()
	case needCommit:
		if p.execution.stage == runCommit {
			p.execution.awaitCommit()
		} else {
			p.collector.awaitCommit()
		}
	case needMemory:
		p.collector.awaitMemory()
	case needLeader:
		p.collector.exchange()
	case needView:
		p.collector.forwarding.awaitView()
	}
}

// awaitsCluster reports whether the wait that is due depends on other nodes, so that timeouts are suspended.
func (p *pipeline) awaitsCluster() bool {
	switch p.need {
	case needCommit, needLeader, needView:
		return true
	case needCommand:
		return p.execution.cmd.leader
	}
	return false
}

// next begins the next command, and reports whether there was one.
func (p *pipeline) next() bool {
	if p.read.drained || p.end != endNot || p.closing.hungUp.Load() {
		return false
	}
	args, err := p.read.in.Next()
	if args == nil || err != nil {
		p.read.drained, p.read.malformed = true, err
		return false
	}
	p.read.ran = true
	p.start(args)
	return true
}

// finish completes a read. All its commands are answered.
func (p *pipeline) finish() {
	if err := p.read.malformed; err != nil {
		p.srv.stats.protocolErrors.Add(1)
		p.srv.debug("protocol", "protocol error", "client", p.client.id, "addr", p.client.addr(), "error", err)
		p.client.fail(nil, replyError("ERR "+err.Error()))
		p.quit() // the bytes that follow cannot be parsed
	}
}

// idle releases the memory that is needed only while commands run. Call it after advance has returned needNothing.
func (p *pipeline) idle() {
	p.collector.idle()
	p.execution.idle()
	p.current, p.read.in = current{}, nil // they refer to the read buffer
}

// quit closes the connection after the replies.
func (p *pipeline) quit() { p.end = max(p.end, endAfterReplies) }

// abort closes the connection and drops unwritten replies.
func (p *pipeline) abort() { p.end = endNow }

// close releases the resources of a pipeline that is not advanced any more.
func (p *pipeline) close() {
	p.execution.close()
	p.long.release()
	p.collector.close()
}
