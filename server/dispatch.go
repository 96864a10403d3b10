package server

import (
	"strings"
	"time"
)

// replyMode is the mode set by CLIENT REPLY.
type replyMode uint8

const (
	replyOn replyMode = iota
	replyOff
	replySkip     // the reply to the next command is dropped
	replySkipping // the reply to the current command is dropped
)

// dispatch handles one command: it looks up its row in the command table, checks the gates, and
// then queues it for EXEC, adds it to a batch, or runs it.
func (c *client) dispatch(args [][]byte) {
	if c.replies != replyOn {
		c.dispatchMuted(args)
		return
	}
	c.dispatchHeard(args)
}

// dispatchMuted handles a command and drops its reply, for CLIENT REPLY OFF and SKIP.
func (c *client) dispatchMuted(args [][]byte) {
	c.settle()
	if !c.flush() { // afterwards the buffer contains only the reply to drop, even if the command flushes
		c.cut = true
		return
	}
	if c.replies == replySkip {
		c.replies = replySkipping
	}
	c.dispatchHeard(args)
	c.settle()
	if c.replies != replyOn { // CLIENT REPLY ON itself is answered
		c.out.Truncate(0, keepOut)
	}
	if c.replies == replySkipping {
		c.replies = replyOn
	}
}

func (c *client) dispatchHeard(args [][]byte) {
	cmd := c.commands.find(args)
	err := c.gate(cmd, args)
	queued := err == nil && c.tx.queueing && !runsInMulti[cmd.name]
	if err == nil && !queued {
		c.execute(cmd, args)
		return
	}
	c.settle()
	if queued {
		c.queue(cmd, args)
	} else {
		c.reject(cmd, err)
	}
}

// gate returns the error that prevents a command from running, or nil. The checks are made in the
// order of Redis.
func (c *client) gate(cmd *command, args [][]byte) error {
	switch {
	case cmd == nil:
		return c.unknown(args)
	case c.listener.trusted && !cmd.isForwarded():
		return errNotForwarded(cmd.name)
	case !cmd.arityFits(len(args)):
		return errArity(cmd.name)
	case !c.authenticated && !cmd.is(noAuth):
		return errNoAuth
	case c.channels.any() && c.out.Protocol() == 2 && !worksSubscribed[cmd.name]:
		return errSubscribed(cmd.name)
	case cmd.refusal != "":
		return cmd.refusal
	case c.tx.queueing && cmd.is(noMulti):
		return errNotInMulti
	case !cmd.is(loading) && c.srv.snapshots.Loading():
		return errLoading
	case c.tx.queueing && c.listener.onFollower == redirects && cmd.keys.first > 0 && !c.leads():
		return c.redirected(cmd, args)
	}
	return nil
}

// unknown returns the error for an unknown command. The first words of an HTTP request indicate a
// cross-protocol attack through a browser or a proxy: the connection is closed.
func (c *client) unknown(args [][]byte) error {
	name := string(args[0])
	if strings.EqualFold(name, "post") || strings.EqualFold(name, "host:") {
		c.srv.warn("http", "an HTTP request came in on the Redis port; connection closed", "addr", c.conn.RemoteAddr())
		c.cut = true
	}
	if cmd := c.commands.named(name); cmd != nil && len(args) > 1 && !strings.Contains(name, "|") {
		return errUnknownSubcommand(args[0], args[1])
	}
	return errUnknownCommand(args)
}

// reject replies with an error to a command that does not run. Within a transaction it makes EXEC
// fail; a rejected EXEC discards the transaction.
func (c *client) reject(cmd *command, err error) {
	if c.tx.queueing {
		c.tx.spoiled = true
	}
	if cmd != nil && cmd.name == "exec" {
		c.discard()
		err = errExecRefused(err)
	}
	if cmd != nil {
		c.srv.stats.of(cmd).rejected.Add(1)
	}
	c.fail(nil, err)
}

// execute collects or runs a command that has passed all gates.
func (c *client) execute(cmd *command, args [][]byte) {
	if c.collects(cmd) {
		c.collect(cmd, args)
		return
	}
	c.settle()
	c.noteRun(cmd)
	c.executeHere(cmd, args)
}

// executeHere runs a command that is not decided in a batch. If this node does not lead, the command
// is collected for forwarding.
func (c *client) executeHere(cmd *command, args [][]byte) {
	start := c.srv.uptime()
	err := c.runAwaited(cmd, args)
	elsewhere := errLost(err) && cmd.needsLeader() && c.passesOn()
	if err != nil && !elsewhere {
		c.fail(cmd, err)
	}
	c.account(cmd, c.srv.uptime()-start, func() [][]byte { return args })
	c.showMonitors(cmd, args)
	switch {
	case elsewhere:
		c.collectAway(cmd, args, true)
	case cmd.is(readonly) && c.tracking.on:
		c.invalidate(cmd.keysOf(args))
	}
}

// showMonitors sends a command to the clients in MONITOR mode. EXEC is shown after the commands
// that it runs.
func (c *client) showMonitors(cmd *command, args [][]byte) {
	if c.srv.monitors.active() && !cmd.is(admin|skipMonitor) {
		c.srv.monitors.show(c, cmd, args)
	}
}

// noteRun records the last command, which CLIENT LIST shows.
func (c *client) noteRun(cmd *command) {
	if c.lastRun.Load() != cmd {
		c.lastRun.Store(cmd)
	}
}

// runLocked runs a command under the exec lock if it touches keys. A command that deletes several
// keys, or all of them, holds the lock exclusively, so that no CL.ALL is charged between two
// deletions.
func (c *client) runLocked(cmd *command, args [][]byte) error {
	if !cmd.is(fast) && !c.tx.running && c.giveTurn() {
		defer c.takeTurn() // runs after the unlock: a holder of the lock never waits for a turn
	}
	several := len(args) > 2 || cmd.keys.first == 0
	switch {
	case c.tx.running:
		// EXEC already holds the lock.
	case cmd.is(write) && several:
		c.srv.exec.Lock()
		defer c.srv.exec.Unlock()
	case cmd.is(write) || cmd.keys.first > 0:
		c.srv.exec.RLock()
		defer c.srv.exec.RUnlock()
	}
	return cmd.run(c, args)
}

// account adds one run of a command to the statistics, the slow log and the latency monitor. took
// is its duration.
func (c *client) account(cmd *command, took time.Duration, args func() [][]byte) {
	c.srv.stats.of(cmd).add(1, took)
	c.noteSlow(cmd, took, args)
}

// noteSlow adds a run to the slow log and the latency monitor if it exceeds their thresholds. args
// is called only for an entry of the slow log.
func (c *client) noteSlow(cmd *command, took time.Duration, args func() [][]byte) {
	o := c.srv.opts.Get()
	if o.SlowlogLogSlowerThan >= 0 && took >= o.SlowlogLogSlowerThan && !cmd.is(skipSlowlog) {
		c.srv.slowlog.add(c, o.SlowlogMaxLen, took, redact(cmd, args()))
	}
	if o.LatencyMonitorThreshold > 0 && took >= o.LatencyMonitorThreshold {
		c.srv.latency.add("command", took)
	}
}

// fail replies with an error. cmd is the command that failed, or nil if none ran.
func (c *client) fail(cmd *command, err error) {
	reply, known := asReply(err)
	if !known {
		c.srv.log.Error("a command failed", "command", c.lastCommand(), "error", err)
	}
	if errLost(err) {
		reply = c.listener.notLeading
	}
	if cmd != nil {
		c.srv.stats.of(cmd).failed.Add(1)
	}
	c.srv.stats.countError(reply.code())
	c.out.Error(string(reply))
}
