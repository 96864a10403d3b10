package server

import (
	"strings"
	"time"
)

// replyMode is what CLIENT REPLY has chosen.
type replyMode uint8

const (
	replyOn replyMode = iota
	replyOff
	replySkip     // the next command is not answered
	replySkipping // this command is not answered
)

// dispatch runs one command: it finds the row of the command table, lets the gates
// decide, and then queues, batches or runs it.
func (c *client) dispatch(args [][]byte) {
	if c.replies != replyOn {
		c.dispatchMuted(args)
		return
	}
	c.dispatchHeard(args)
}

// dispatchMuted runs a command and drops its reply, as CLIENT REPLY OFF and SKIP ask for.
func (c *client) dispatchMuted(args [][]byte) {
	c.settle()
	if !c.flush() { // so that what there is to drop is all there is, even if the command flushes
		c.cut = true
		return
	}
	if c.replies == replySkip {
		c.replies = replySkipping
	}
	c.dispatchHeard(args)
	c.settle()
	if c.replies != replyOn { // what has switched replies on is answered itself
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

// gate says why a command is not to run, or returns nil. The order of the reasons is Redis's.
func (c *client) gate(cmd *command, args [][]byte) error {
	switch {
	case cmd == nil:
		return c.unknown(args)
	case c.face.trusted && !cmd.isForwarded():
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
	case c.tx.queueing && c.face.elsewhere == redirects && cmd.keys.first > 0 && c.elsewhere():
		return c.redirected(cmd, args)
	}
	return nil
}

// unknown says that there is no such command. The beginnings of an HTTP request mean
// that a browser or a proxy is being used to reach this server: nothing more of it runs.
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

// reject answers a command that does not run. It spoils the transaction it was meant
// for; an EXEC that does not run ends it.
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

// execute collects or runs a command that has passed the gates.
func (c *client) execute(cmd *command, args [][]byte) {
	if c.collects(cmd) {
		c.collect(cmd, args)
		return
	}
	c.settle()
	c.noteRun(cmd)
	c.executeHere(cmd, args)
}

// executeHere runs a command other than those that are decided in batches.
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

// showMonitors shows a command to those who asked for it with MONITOR. One that runs
// others, as EXEC does, comes behind them.
func (c *client) showMonitors(cmd *command, args [][]byte) {
	if c.srv.monitors.active() && !cmd.is(admin|skipMonitor) {
		c.srv.monitors.show(c, cmd, args)
	}
}

// noteRun remembers what CLIENT LIST shows as the last command.
func (c *client) noteRun(cmd *command) {
	if c.lastRun.Load() != cmd {
		c.lastRun.Store(cmd)
	}
}

// runLocked keeps a command that changes or reads keys out of other clients' transactions.
// One that changes several keys, or all of them, is alone: no CL.ALL is charged between two of
// them.
func (c *client) runLocked(cmd *command, args [][]byte) error {
	if !cmd.is(fast) && !c.tx.running && c.giveTurn() {
		defer c.takeTurn() // after the lock is released: its holder never waits for a turn
	}
	several := len(args) > 2 || cmd.keys.first == 0
	switch {
	case c.tx.running:
		// EXEC holds the lock.
	case cmd.is(write) && several:
		c.srv.exec.Lock()
		defer c.srv.exec.Unlock()
	case cmd.is(write) || cmd.keys.first > 0:
		c.srv.exec.RLock()
		defer c.srv.exec.RUnlock()
	}
	return cmd.run(c, args)
}

// account adds a run of a command, which took the given time, to what the server knows of
// itself.
func (c *client) account(cmd *command, took time.Duration, args func() [][]byte) {
	c.srv.stats.of(cmd).add(1, took)
	c.noteSlow(cmd, took, args)
}

// noteSlow remembers what took long. The slow log asks for the arguments only if it wants
// them.
func (c *client) noteSlow(cmd *command, took time.Duration, args func() [][]byte) {
	o := c.srv.opts.Get()
	if o.SlowlogLogSlowerThan >= 0 && took >= o.SlowlogLogSlowerThan && !cmd.is(skipSlowlog) {
		c.srv.slowlog.add(c, o.SlowlogMaxLen, took, redact(cmd, args()))
	}
	if o.LatencyMonitorThreshold > 0 && took >= o.LatencyMonitorThreshold {
		c.srv.latency.add("command", took)
	}
}

// fail answers with an error. cmd is the command that ran into it, or nil.
func (c *client) fail(cmd *command, err error) {
	reply, known := asReply(err)
	if !known {
		c.srv.log.Error("a command failed", "command", c.lastCommand(), "error", err)
	}
	if errLost(err) {
		reply = c.face.notLeading
	}
	if cmd != nil {
		c.srv.stats.of(cmd).failed.Add(1)
	}
	c.srv.stats.countError(reply.code())
	c.out.Error(string(reply))
}
