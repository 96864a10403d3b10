package server

import (
	"time"

	"github.com/throttledhq/throttled/resp"
)

// pipeline runs the commands of one client. It owns the commands that are not yet answered, and determines the order of
// the replies.
//
// It is a state machine without a goroutine. The caller calls begin with the commands of one read, and then calls
// advance until advance returns needNothing. All commands are then answered, and the out field contains the replies. If
// advance returns needWrite, the caller writes the replies and calls advance again. If advance returns any other need,
// the caller calls wait, which blocks and stores its result in the pipeline, and then calls advance again. advance never
// blocks, except briefly on mutexes of the server and on the locks of the engine's shards.
//
// Different goroutines may make the calls, but not concurrently: an event loop can call advance and pass each wait to
// another goroutine. A caller that limits concurrent calls of advance with a semaphore must release the semaphore
// during wait, unless the need is needLock: wait then returns with the exec lock held, and a caller that waits for
// the semaphore while it holds the lock can cause a deadlock.
//
// A command runs in one of two ways. Limiter commands that this node decides, and commands for the leader, are
// collected in a batch. The batch is settled (its commands are run and answered) before any other command runs, when
// it is full, and after the last command of a read. Any other command is run by the execution field.
type pipeline struct {
	client  *client // passed to command handlers, and named in logs
	srv     *Server
	session *session
	out     *resp.Reply
	closing *closing

	read      commands
	current   current
	collector collector // collected commands
	execution execution // runs the current command, or a command of the collector
	long      longToken
	unread    unread
	slice     timeSlice
	charged   era  // era of the last charge by the client, for WAIT
	need      need // result of the last advance
	end       endMode
	// neverPaused is set if the commands do not wait for the end of a pause by CLIENT PAUSE.
	neverPaused bool
}

// commands holds the commands of one read.
type commands struct {
	in        *resp.Reader
	ran       bool  // the read contained a complete command
	drained   bool  // all commands of the read have begun
	refused   bool  // a command was refused because this node is not the leader; later commands are refused too, to keep the order
	malformed error // parse error after the last complete command
}

// current is the command in progress.
type current struct {
	stage stage
	cmd   *command
	args  [][]byte
	err   error         // the error reply in stageReject and stageFail
	muted bool          // the reply is dropped
	start time.Duration // time at which the command began to run on this node
}

// stage is the next step of the command in progress. In all stages except stageNone, all earlier commands are answered.
type stage uint8

const (
	stageNone       stage = iota // no command is in progress
	stagePause                   // CLIENT PAUSE: write the replies to earlier commands, and wait until the pause ends
	stageMute                    // CLIENT REPLY turns off the reply: first write the replies to earlier commands
	stageMuted                   // the earlier replies are written: dispatch the command
	stageUnmute                  // the command is complete: drop its reply
	stageCollect                 // add the command to the batch
	stageQueue                   // queue the command for EXEC
	stageReject                  // reply with err: the command did not run
	stageOverloaded              // reply that the server is overloaded: the command did not run
	stageFail                    // reply with err: the command failed
	stageRun                     // run the command
)

// need is the condition that must be met before the next call of advance.
type need uint8

const (
	needNothing need = iota // all commands are answered
	needWrite               // the caller must write the replies
	needLock                // the exec lock is held by another client
	needCommit              // decisions or changes must be committed before they are answered
	needCommand             // a command that is not fast must run; wait runs it
	needMemory              // a long reply needs client memory
	needLeader              // commands are forwarded to the leader
	needPause               // CLIENT PAUSE has paused the command
	needYield               // the client has used up its time slice and has more commands; clients whose commands have arrived run first
	needView                // the cluster has no leader, or the leader refused the commands; wait for a new view
)

// endMode determines whether and when the connection is closed.
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

// begin passes the commands of a read to the pipeline. Their arguments must stay valid until advance returns
// needNothing.
func (p *pipeline) begin(in *resp.Reader) {
	p.read = commands{in: in}
	p.collector.forwarding.failedView = nil
}

// advance runs commands until all are answered or the pipeline must wait.
func (p *pipeline) advance() need {
	for {
		switch {
		case p.collector.settling():
			p.need = p.collector.advance()
		case p.mustSettle():
			p.collector.settle()
			p.need = needNothing
		case p.current.stage != stageNone:
			p.need = p.advanceCommand()
		case p.end == endNot && p.out.Len() >= p.flushSize():
			p.need = needWrite
		case !p.read.drained && p.mustYield():
			p.need = needYield
		case !p.read.drained:
			p.next()
			p.need = needNothing
		default:
			p.finish()
			p.need = needNothing
			return needNothing
		}
		if p.need != needNothing {
			return p.need
		}
	}
}

// flushSize returns the number of bytes of pending replies that are written before the next command runs.
func (p *pipeline) flushSize() int {
	if p.session.authenticated {
		return flushAt
	}
	return unauthenticatedReplies
}

// mustSettle reports whether the collected commands must be answered now: the current command must run after them, the
// batch is complete, or all commands of the read have begun.
func (p *pipeline) mustSettle() bool {
	return p.collector.collected() && (p.current.stage != stageNone || p.collector.batch.complete || p.read.drained)
}

// mustYield reports whether the client has used up its time slice and has more commands. After the last command, it does
// not yield, since its replies are not written yet.
func (p *pipeline) mustYield() bool {
	return p.slice.due() && p.read.in.Pending() > 0 && p.slice.over(p.srv.uptime())
}

// wait waits for the need that the last advance returned.
func (p *pipeline) wait() {
	if p.need != needYield {
		p.slice.end(&p.srv.polls)
	}
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
	case needPause:
		p.awaitPause()
	case needYield:
		p.slice.yield(&p.srv.polls)
		p.slice.restart(p.srv.uptime())
	case needView:
		p.collector.forwarding.awaitView()
	}
}

// suspendsTimeouts reports whether the next wait depends on other nodes or on the end of a pause. The timeouts of the
// client are suspended during such a wait.
func (p *pipeline) suspendsTimeouts() bool {
	switch p.need {
	case needPause, needCommit, needLeader, needView:
		return true
	case needCommand:
		return p.execution.cmd.leader
	}
	return false
}

// next begins the next command. If there is none, or the connection is being closed, it marks the read as drained.
func (p *pipeline) next() {
	if p.end != endNot || p.closing.hungUp.Load() {
		p.read.drained = true
		return
	}
	args, err := p.read.in.Next()
	if args == nil || err != nil {
		p.read.drained, p.read.malformed = true, err
		return
	}
	p.read.ran = true
	p.start(args)
}

// finish completes a read whose commands are all answered.
func (p *pipeline) finish() {
	if err := p.read.malformed; err != nil {
		p.srv.stats.protocolErrors.Add(1)
		p.srv.debug("protocol", "protocol error", "client", p.client.id, "addr", p.client.addr(), "error", err)
		p.client.fail(nil, replyError("ERR "+err.Error()))
		p.quit() // the bytes that follow cannot be parsed
	}
}

// idle releases the memory that is needed only while commands run. It may only be called after advance has returned
// needNothing.
func (p *pipeline) idle() {
	p.collector.idle()
	p.execution.idle()
	p.current, p.read.in = current{}, nil // both refer to the read buffer
}

// quit closes the connection after the replies are written.
func (p *pipeline) quit() { p.end = max(p.end, endAfterReplies) }

// abort closes the connection and drops unwritten replies.
func (p *pipeline) abort() { p.end = endNow }

// close releases the resources of the pipeline, which must not be advanced again.
func (p *pipeline) close() {
	p.slice.end(&p.srv.polls)
	p.execution.close()
	p.long.release()
	p.collector.close()
}
