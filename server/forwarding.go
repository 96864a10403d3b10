package server

import (
	"errors"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/resp"
	"github.com/throttledhq/throttled/server/forward"
	"github.com/throttledhq/throttled/topology"
)

// Wait times of a client whose command this node cannot run. The option leader-wait is the maximum wait for a leader.
const (
	policyPatience = 400 * time.Millisecond // maximum wait of requests that have a failure policy
	streamPatience = 400 * time.Millisecond // maximum wait for a stream to the leader
	retryPause     = 4 * time.Millisecond   // pause between attempts in the same view: a new leader is not ready immediately
	// openTrips is the number of timeouts for which a sidecar continues to open a stream: a connection with TLS and a password
	// takes several round trips.
	openTrips = 4
	// A sidecar sends further commands although earlier ones are not answered, if the round trip takes longer than sendAhead: the
	// upstream can be far away.
	sendAhead = 10 * time.Millisecond
)

// forwarding sends the calls of a batch to the leader. It makes attempts, in steps, until each call is done or the
// deadline passes. It is part of a pipeline.
type forwarding struct {
	client   *client
	closing  *closing
	charged  *era
	stage    forwardStage
	deadline time.Time      // for sending
	until    time.Time      // for the replies, on a sidecar; otherwise zero
	hasty    bool           // calls are given up without an attempt, unless this node is the leader
	view     *topology.View // view of the current attempt
	// failedView is the View.Changed channel of the view in which forwarding failed. Until the channel is closed, later
	// commands of the same read fail without an attempt. It is nil if forwarding has not failed.
	failedView <-chan struct{}

	// Result of an exchange with the leader.
	err      error
	watch    *forward.Watch // the stream that was used, if keys are watched
	reusable bool           // the stream can be used again
}

// forwardStage is the next step of forwarding.
type forwardStage uint8

const (
	forwardAttempt forwardStage = iota // begin an attempt
	forwardSent                        // process the result of the exchange
	forwardPause                       // wait for a newer view, if calls are not done and the deadline has not passed
	forwardRetry                       // count a retry and begin the next attempt
)

func (f *forwarding) init(c *client) {
	f.client, f.closing, f.charged = c, &c.conn.closing, &c.pipe.charged
}

// begin starts to forward the calls of a batch that are not done.
func (f *forwarding) begin(b *batch) {
	srv := f.client.srv
	wait := srv.leaderWait()
	if b.onlyChecks() && !srv.isSidecar() {
		wait = min(wait, policyPatience)
	}
	now := time.Now()
	f.stage, f.deadline, f.until = forwardAttempt, now.Add(wait), time.Time{}
	if srv.isSidecar() {
		f.until = now.Add(srv.upstreamTimeout)
	}
	f.hasty = srv.skipsWait(b)
}

// advance runs steps until it must wait, or until no call of the batch needs another node: either all calls are done,
// or this node is the leader. If this node is the leader, the caller runs the calls that are not done, and calls
// advance again if leadership is lost.
func (f *forwarding) advance(b *batch) need {
	stats := &f.client.srv.forward.Stats
	for {
		switch f.stage {
		case forwardAttempt:
			f.view = f.client.srv.cluster.View()
			f.stage = forwardPause
			switch {
			case f.failedView != nil && f.failedView == f.view.Changed:
				f.giveUp(b)
				return needNothing
			case f.view.Leading:
				return needNothing
			case f.hasty:
				f.giveUp(b)
				return needNothing
			case f.prepare(b):
				f.stage = forwardSent
				return needLeader
			}
		case forwardSent:
			f.takeResult(b)
			f.stage = forwardPause
		case forwardPause:
			if b.undone() == 0 {
				return needNothing
			}
			if time.Until(f.deadline) <= 0 || f.closing.hungUp.Load() {
				if !f.closing.hungUp.Load() {
					f.client.srv.outage.begin(f.view, f.client.srv.uptime())
					f.suspect()
				}
				f.giveUp(b)
				return needNothing
			}
			f.stage = forwardRetry
			return needView
		case forwardRetry:
			stats.Retries.Add(int64(b.undone()))
			f.stage = forwardAttempt
		}
	}
}

// skipsWait reports whether the calls of a batch are given up without an attempt.
func (s *Server) skipsWait(b *batch) bool {
	if s.isSidecar() {
		return s.sidecar.Silent()
	}
	return b.onlyChecks() && s.outage.skipWait(s.cluster.View(), s.uptime())
}

// prepare redirects clients of Redis Cluster to the leader: calls that have a key fail with MOVED. It then copies the
// calls that are still not done to b.forwarded, and reports whether there are such calls. If no other node is the
// leader, prepare does nothing and returns false.
func (f *forwarding) prepare(b *batch) bool {
	v := f.view
	if v.Leader == "" || v.Leader == v.Self { // there is no leader, or this node was elected but is not ready
		return false
	}
	if f.client.listener.onFollower == redirects {
		redirect(v.Find(v.Leader), b.calls, f.client.session.secure)
	}
	b.collectUndone()
	return len(b.forwarded.Calls) > 0
}

// giveUp fails the calls that are not done, and makes later calls in the same view fail without an attempt.
func (f *forwarding) giveUp(b *batch) {
	f.failedView = f.view.Changed
	f.client.srv.forward.Errors.Add(int64(b.undone()))
	b.giveUp(limiter.ErrNotLeading)
}

// leaderWait returns the time that commands wait for a leader, or on a sidecar for the upstream.
func (s *Server) leaderWait() time.Duration {
	if s.isSidecar() {
		return s.upstreamTimeout
	}
	return s.opts.Get().LeaderWait
}

// awaitView waits for a newer view, for at most retryPause.
func (f *forwarding) awaitView() {
	timer := time.NewTimer(min(time.Until(f.deadline), retryPause))
	defer timer.Stop()
	select {
	case <-f.view.Changed:
	case <-timer.C:
	}
}

// exchange sends the collected calls to the leader and waits for the replies.
func (f *forwarding) exchange(b *batch) {
	f.watch, f.reusable = nil, false
	deadline := time.Now().Add(min(time.Until(f.deadline), streamPatience))
	b.forwarded.Until = f.until
	if b.calls[0].ownStream() {
		f.exchangeWatched(b, deadline)
		return
	}
	f.err = f.client.srv.forward.Forward(f.view.Leader, f.client.out.Protocol(), deadline, &b.forwarded)
}

// exchangeWatched forwards the only call of a batch over the stream on which the leader watches keys for the client.
// The first WATCH opens the stream, until the deadline.
func (f *forwarding) exchangeWatched(b *batch, deadline time.Time) {
	w := f.watchOf(&b.calls[0])
	if w == nil {
		if w, f.err = f.client.srv.forward.Watch(f.view.Leader, f.client.out.Protocol(), deadline); f.err != nil {
			return
		}
	}
	f.watch = w
	f.reusable, f.err = w.Forward(&b.forwarded)
}

// watchOf returns the stream on which the leader watches keys for the client of a call, or nil before the first WATCH.
func (f *forwarding) watchOf(call *call) *forward.Watch {
	if call.tx != nil {
		return call.tx.ownStream
	}
	return f.client.session.tx.ownStream
}

// takeResult sets the outcomes of forwarded calls. Calls that were refused remain undone, so that they can be sent
// again. If the error is forward.ErrBusy, these calls fail instead.
func (f *forwarding) takeResult(b *batch) {
	f.takeOutcomes(b)
	switch f.err {
	case nil:
		if b.undone() == 0 {
			f.client.srv.outage.end()
		}
	case forward.ErrBusy:
		f.client.srv.forward.Errors.Add(int64(b.undone()))
		b.giveUp(errBusy)
	case forward.ErrSilent:
		f.failedView = f.view.Changed
		f.client.srv.outage.begin(f.view, f.client.srv.uptime())
		f.suspect()
		fallthrough
	default:
		if refused := new(topology.ConnRefusedError); f.client.srv.isSidecar() && errors.As(f.err, &refused) {
			f.failedView = f.view.Changed
		}
		f.client.srv.debug("forward", "cannot forward commands", "node", f.view.Leader, "error", f.err)
	}
	if f.watch != nil {
		f.takeWatch(&b.calls[0])
	}
}

// suspect reports on a sidecar that the upstream in use has not answered in time, so that later commands do not wait for it until
// it answers a probe. The upstream of an earlier view may no longer be in use.
func (f *forwarding) suspect() {
	srv := f.client.srv
	if srv.isSidecar() && f.view.Leader != "" && f.view.Changed == srv.cluster.View().Changed {
		srv.sidecar.Suspect()
	}
}

func (f *forwarding) takeOutcomes(b *batch) {
	calls := b.forwarded.Calls
	for i := range b.calls {
		call := &b.calls[i]
		if call.done {
			continue
		}
		switch sent := &calls[0]; sent.Outcome {
		case forward.Answered:
			call.answer(f.client.srv.withUpstreamUser(sent.Reply))
			call.elements = sent.Elements
			f.charged.recordForwarded(sent, f.view.Term)
		case forward.Uncertain:
			call.fail(limiter.ErrUncertain)
		}
		calls = calls[1:]
	}
}

// takeWatch keeps or closes the stream on which the leader watches keys, after a call that used the stream. If the call
// was the first WATCH, the stream is kept if the exchange succeeded, and closed otherwise. If a later call was not run,
// because the stream has failed or its node is no longer the leader, the watched keys count as changed.
func (f *forwarding) takeWatch(call *call) {
	tx, first := &f.client.session.tx, f.watchOf(call) == nil
	switch {
	case first && (!f.reusable || !call.done):
		f.watch.Close()
	case first:
		tx.ownStream = f.watch
	case call.done:
	case call.tx != nil:
		call.answer(nullArray(f.client.out.Protocol()))
	default:
		tx.lost = true
		call.answer([]byte("+OK\r\n"))
	}
}

// nullArray returns the reply to EXEC when a watched key has changed.
func nullArray(protocol int) []byte {
	var out resp.Reply
	out.SetProtocol(protocol)
	out.NullArray()
	return out.Bytes()
}

// collectUndone copies the calls that are not done to b.forwarded.
func (b *batch) collectUndone() {
	fb := &b.forwarded
	fb.Calls, fb.Shared = fb.Calls[:0], true
	for i := range b.calls {
		c := &b.calls[i]
		if c.done {
			continue
		}
		call := forward.Call{Args: c.args, Writes: c.writes(), ChangesLeader: c.cmd.is(admin), Wait: waitTime(c.cmd, c.args)}
		if c.tx != nil {
			call.Block = [][][]byte{} // not nil even if no command needs the leader: EXEC must still check watched keys
			for _, q := range c.tx.forLeader() {
				call.Block = append(call.Block, q.args)
			}
		}
		fb.Calls = append(fb.Calls, call)
		fb.Shared = fb.Shared && c.sharesStream()
	}
}

// sharesStream reports whether a call may be forwarded over a stream that carries the calls of other clients: its reply
// is short, and it neither blocks the calls behind it nor changes the leader.
func (c *call) sharesStream() bool {
	return c.tx == nil && c.cmd.is(fast) && !c.cmd.is(admin) && !c.cmd.ownStream && !c.cmd.long
}

// waitTime returns the timeout of a WAIT, and of a command that changes the rules. It returns 0 for any other command, and
// for a WAIT without a timeout or with a timeout of an hour or more.
func waitTime(cmd *command, args [][]byte) time.Duration {
	switch {
	case cmd.changesRules():
		return rulesTimeout
	case cmd.name == "wait":
		if ms, ok := resp.ParseInt(args[2]); ok && ms > 0 && ms < int64(time.Hour/time.Millisecond) {
			return time.Duration(ms) * time.Millisecond
		}
	}
	return 0
}
