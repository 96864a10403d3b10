package server

import "strings"

// gate returns the error that prevents a command from running, or nil. The checks are made in the same order as in
// Redis.
func (c *client) gate(cmd *command, args [][]byte) error {
	s, l := &c.session, c.listener
	if set := c.srv.users.Get(); set != s.users {
		s.follow(set)
	}
	switch {
	case cmd == nil:
		return c.unknown(args)
	case l.trusted && !cmd.isForwarded():
		return errNotForwarded(cmd.name)
	case !cmd.arityFits(len(args)):
		return cmd.errArguments(args)
	case !s.authenticated && !cmd.is(noAuth):
		return errNoAuth
	case s.tx.queueing && cmd.is(noMulti):
		return errNotInMulti
	}
	if err := c.permit(cmd, args); err != nil {
		return err
	}
	switch {
	case s.subscriptions.any() && c.out.Protocol() == 2 && !worksSubscribed[cmd.name]:
		return errSubscribed(cmd.name)
	case cmd.refusal != "":
		return cmd.refusal
	case c.srv.refusal(cmd) != nil:
		return c.srv.refusal(cmd)
	case !cmd.is(loading) && c.srv.snapshots.Loading():
		return errLoading
	case s.tx.queueing && l.onFollower == redirects && cmd.keys.first > 0 && !c.pipe.leads():
		return redirected(c.srv.cluster.View(), cmd, args, c.session.secure)
	}
	return nil
}

// unknown returns the error for an unknown command. If the name of the command is POST or "Host:", the input is
// probably an HTTP request that an attacker sends through a browser or a proxy, so the connection is closed.
func (c *client) unknown(args [][]byte) error {
	name := string(args[0])
	if strings.EqualFold(name, "post") || strings.EqualFold(name, "host:") {
		c.srv.warn("http", "HTTP request on a Redis port; connection closed", "addr", c.addr())
		c.pipe.abort()
	}
	if cmd := c.commands.named(name); cmd != nil && len(args) > 1 && !strings.Contains(name, "|") {
		return errUnknownSubcommand(args[0], args[1])
	}
	return errUnknownCommand(args)
}

// queue queues a command for EXEC.
func (c *client) queue(cmd *command, args [][]byte) {
	if !c.session.tx.reserve(args, c.srv.opts.Get()) {
		c.reject(cmd, errQueueTooLong)
		return
	}
	queued := c.session.tx.queue(cmd, args)
	c.session.setInfo(func(i *clientInfo) { i.multi = queued })
	c.out.Status("QUEUED")
}

// reject replies with an error to a command that is not run. Within a transaction, a rejected command makes EXEC fail.
// A rejected EXEC discards the transaction.
func (c *client) reject(cmd *command, err error) {
	if c.session.tx.queueing {
		c.session.tx.aborted = true
	}
	if cmd != nil && cmd.name == "exec" {
		c.session.discard()
		err = errExecRefused(err)
	}
	if cmd != nil {
		c.srv.stats.of(cmd).rejected.Add(1)
	}
	c.fail(nil, err)
}
