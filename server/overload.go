package server

import (
	"sync/atomic"
	"time"
)

// A client that sends faster than the server answers fills the buffers of its socket, and its commands wait longer and
// longer. If the option overload-target is set, limiter commands of such a client are then refused with BUSY until no
// command waits. A client that awaits each reply is never refused.

const (
	// refusedPerDecision bounds the refused commands, as a multiple of those that were decided before. A refusal takes less
	// than a third of the time of a decision, so more than half of the time is left for decisions, whatever clients send.
	refusedPerDecision = 2
	// overloadClients is the number of clients with unread commands at which the server is overloaded. The commands of
	// fewer clients wait mostly for earlier ones of the same client, as those of a bulk load do.
	overloadClients = 8
	// heldReplies is the size in bytes of the replies from which they are written although the next read follows at once.
	heldReplies = flushAt / 2
)

// overload is the state that the clients of a server share.
type overload struct {
	waiting atomic.Int64 // clients with unread commands
}

// unread describes the commands of a client that may wait in its socket, and determines the limiter commands that are
// refused. It belongs to the goroutine that runs the commands of the client.
type unread struct {
	since   time.Duration // uptime since which commands wait, or of the last refusal; 0 if none waits
	decided int64         // limiter commands that were not refused since then
	refuse  int64         // limiter commands that are refused next
	refused bool          // a command of the last read was refused
}

// wait must be called after a read that may leave commands unread. It reports whether the client begins to wait. If the
// client has waited for longer than target and the server is overloaded, its next limiter commands are refused.
func (u *unread) wait(now, target time.Duration, overloaded bool) (begins bool) {
	if u.since == 0 {
		u.since, u.decided = max(now, 1), 0
		return true
	}
	if overloaded && u.refuse == 0 && now-u.since > target {
		u.since, u.refuse, u.decided = now, refusedPerDecision*u.decided, 0
	}
	return false
}

// end must be called after a read that leaves no command unread. It reports whether the client was waiting.
func (u *unread) end() (waited bool) {
	waited = u.since > 0
	*u = unread{}
	return waited
}

// take reports whether a limiter command runs. Otherwise the command must be refused.
func (u *unread) take() bool {
	if u.refuse == 0 {
		u.decided++
		return true
	}
	u.refuse--
	u.refused = true
	return false
}

// hurries reports whether further commands must be refused, before other clients run. It is false after a read of which
// no command was refused, so that other commands do not delay the other clients.
func (u *unread) hurries() bool { return u.refused && u.refuse > 0 }

// wait records that commands may be left in the socket.
func (c *connection) wait() {
	u, o := &c.pipe.unread, &c.srv.overload
	u.refused = false
	target := c.appliedOptions.OverloadTarget
	if target == 0 || c.socket.raw == nil { // without a descriptor, an idle client would seem to wait
		c.endWait()
		return
	}
	if u.wait(c.srv.uptime(), target, o.waiting.Load() >= overloadClients) {
		o.waiting.Add(1)
	}
}

// endWait records that no command is left in the socket.
func (c *connection) endWait() {
	if c.pipe.unread.end() {
		c.srv.overload.waiting.Add(-1)
	}
}

// mayHold reports whether the pending replies need not be written yet, because further commands will be refused.
func (c *connection) mayHold() bool {
	return c.pipe.end == endNot && c.pipe.unread.hurries() && c.output.out.Len() < heldReplies
}

// refuseOverloaded refuses the current command, and those of the same form that follow in the read buffer.
func (p *pipeline) refuseOverloaded() {
	n := 1
	if p.session.replies == replyOn {
		n += p.read.in.Skip(int(p.unread.refuse))
		p.unread.refuse -= int64(n - 1)
	}
	for range n {
		p.out.Raw(overloadedReply)
	}
	p.srv.stats.countOverloaded(p.current.cmd, int64(n))
	p.done()
}
