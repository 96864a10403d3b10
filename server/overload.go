package server

import (
	"sync/atomic"
	"time"
)

// A client that sends faster than the server answers fills the buffers of its socket, and its commands wait longer and
// longer. If the option overload-target is set, limiter commands of such a client are then refused with BUSY until no
// command waits. A client that awaits each reply is never refused.

const (
	// decisionsPerRefusal bounds the refused commands: one for this number of commands that were decided before. The time of
	// the refusals is lost for decisions, and clients that do not back off would otherwise use all of it.
	decisionsPerRefusal = 2
	// overloadClients is the number of clients with unread commands at which the server is overloaded. The commands of
	// fewer clients wait mostly for earlier ones of the same client, as those of a bulk load do.
	overloadClients = 8
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
}

// wait must be called after a read that may leave commands unread. It reports whether the client begins to wait. If the
// client has waited for longer than target and the server is overloaded, its next limiter commands are refused.
func (u *unread) wait(now, target time.Duration, overloaded bool) (begins bool) {
	if u.since == 0 {
		u.since, u.decided = max(now, 1), 0
		return true
	}
	if overloaded && u.refuse == 0 && now-u.since > target {
		u.since, u.refuse, u.decided = now, u.decided/decisionsPerRefusal, 0
	}
	return false
}

// end must be called after a read that leaves no command unread. It reports whether the client was waiting.
func (u *unread) end() (waited bool) {
	waited = u.since > 0
	*u = unread{}
	return waited
}

// mayBeRefused reports whether the command is refused in an overload. A command with a failure policy is decided instead: an
// error would contradict the policy, and a reply by the policy takes about the time of a decision, and admits requests that
// the limits refuse.
func (cmd *command) mayBeRefused() bool { return cmd.parse != nil && !cmd.hasPolicy() }

// take reports whether a limiter command runs. Otherwise the command must be refused.
func (u *unread) take() bool {
	if u.refuse == 0 {
		u.decided++
		return true
	}
	u.refuse--
	return false
}

// wait records that commands may be left in the socket.
func (c *connection) wait() {
	u, o := &c.pipe.unread, &c.srv.overload
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
