package server

import (
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/resp"
	"github.com/throttledhq/throttled/server/forward"
	"github.com/throttledhq/throttled/topology"
)

// Times that a client waits if this node cannot run its command.
const (
	leaderPatience = 400 * time.Millisecond // maximum, for a leader
	retryPause     = 4 * time.Millisecond   // between attempts in the same view: a new leader is not ready immediately
)

// leads reports whether this node leads its cluster, or is standalone. It is false after the node has refused a command
// of this read, so that later commands are refused too.
func (c *client) leads() bool {
	return !c.refused && (c.srv.cluster == nil || c.srv.cluster.View().Leading)
}

// passesOn reports whether commands of the client are forwarded or redirected while this node does not lead.
func (c *client) passesOn() bool {
	return c.srv.cluster != nil && c.listener.onFollower != refuses && !c.tx.running
}

// forwardAll forwards the calls of a batch that are not done, until each is done, and returns the elapsed time divided
// by the number of calls. Timeouts are suspended meanwhile.
func (c *client) forwardAll(b *batch) (share time.Duration) {
	note(&c.halfSince, 0) // an incomplete command cannot be completed now
	defer c.resume(c.pause())
	start := c.srv.uptime()
	c.forwardUntilDone(b)
	return (c.srv.uptime() - start) / time.Duration(len(b.calls))
}

// forwardUntilDone retries until all calls are done or the deadline passes. After a failure, later commands of the same
// read do not wait again unless the view changes.
func (c *client) forwardUntilDone(b *batch) {
	deadline := time.Now().Add(c.srv.leaderPatience)
	for {
		view := c.srv.cluster.View()
		hopeless := c.hopeless != nil && c.hopeless == view.Changed
		if !hopeless {
			c.try(view, b, deadline)
		}
		left := undone(b.calls)
		if left == 0 {
			return
		}
		if hopeless || !c.awaitChange(view, deadline) {
			c.hopeless = view.Changed
			giveUp(b.calls, limiter.ErrNotLeading)
			c.srv.forward.Errors.Add(int64(left))
			return
		}
		c.srv.forward.Retries.Add(int64(left))
	}
}

func undone(list []call) (n int) {
	for i := range list {
		n += countTrue(!list[i].done)
	}
	return n
}

func giveUp(list []call, err error) {
	for i := range list {
		if !list[i].done {
			list[i].fail(err)
		}
	}
}

// awaitChange waits for a change of the view, for at most retryPause, and reports whether another attempt is allowed.
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

// try makes one attempt to run, redirect or forward the calls that are not done. If the view has no leader, it does
// nothing.
func (c *client) try(view *topology.View, b *batch, deadline time.Time) {
	list := b.calls
	switch {
	case view.Leading:
		c.runHere(list)
		return
	case view.Leader == "" || view.Leader == view.Self:
		return // this node is elected, but does not decide yet
	case c.listener.onFollower == redirects:
		redirect(view.Find(view.Leader), list)
	}
	switch {
	case undone(list) == 0:
	case list[0].cmd.ownStream || list[0].block != nil && list[0].block.own != nil:
		c.forwardOwn(view, b, deadline)
	default:
		err := c.srv.forward.Forward(view.Leader, c.out.Protocol(), deadline, b.toForward())
		c.takeOutcomes(view, b, err)
	}
}

// toForward returns the calls that are not done.
func (b *batch) toForward() *forward.Batch {
	fb := &b.forwarded
	fb.Calls = fb.Calls[:0]
	for i := range b.calls {
		f := &b.calls[i]
		if f.done {
			continue
		}
		call := forward.Call{Args: f.args, Writes: f.writes(), ChangesLeader: f.cmd.is(admin), Wait: waitTime(f.cmd, f.args)}
		if f.block != nil {
			call.Block = [][][]byte{} // not nil even if empty: keys may be watched
			for _, q := range f.block.afar() {
				call.Block = append(call.Block, q.args)
			}
		}
		fb.Calls = append(fb.Calls, call)
	}
	return fb
}

// takeOutcomes sets the outcomes of forwarded calls. Refused calls remain undone, except after forward.ErrBusy, when
// they fail.
func (c *client) takeOutcomes(view *topology.View, b *batch, err error) {
	list, calls := b.calls, b.forwarded.Calls
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
		c.hopeless = view.Changed
		fallthrough
	default:
		c.srv.debug("forward", "cannot forward commands", "node", view.Leader, "error", err)
	}
}

// waitTime returns the timeout of WAIT, or 0 for any other command, for no timeout, and for one of an hour or more.
func waitTime(cmd *command, args [][]byte) time.Duration {
	if cmd.name == "wait" {
		if ms, ok := resp.ParseInt(args[2]); ok && ms > 0 && ms < int64(time.Hour/time.Millisecond) {
			return time.Duration(ms) * time.Millisecond
		}
	}
	return 0
}
