package server

import (
	"sync/atomic"

	"github.com/throttledhq/throttled/acl"
)

// channelUse is the way in which the arguments of a command name channels.
type channelUse uint8

const (
	noChannels  channelUse = iota
	oneChannel             // the first argument is a channel
	allChannels            // all arguments are channels
	allPatterns            // all arguments are patterns of channels
)

// denial is the reason why a user may not run a command. The zero denial means that the command is permitted.
type denial struct {
	kind   denialKind
	object string // the command, key, channel or domain that is not permitted
	err    error  // of arguments that cannot be parsed, if kind is deniedArguments
}

type denialKind uint8

const (
	permitted denialKind = iota
	deniedCommand
	deniedKey
	deniedChannel
	deniedDomain
	deniedArguments // the keys are unknown, since the arguments are wrong
	deniedLogin     // only in the log: a wrong user or password
)

// denials lists the kinds of denials: the reason in ACL LOG, the counter in INFO, and the texts of replies, with those of
// Redis. The texts end in the object.
var denials = [...]struct {
	reason    string
	counter   string // field of INFO; "" if it is shown elsewhere
	refusal   string // after "NOPERM this user has no permissions to "
	rechecked string // reason of a NOPERM of EXEC
	dryRun    string // after "This user has no permissions to "
}{
	deniedCommand: {"command", "acl_access_denied_cmd", "run the '%s' command", "no permission to execute the command or subcommand", "run the '%s' command"},
	deniedKey:     {"key", "acl_access_denied_key", "access one of the keys used as arguments", "no permission to touch the specified keys", "access the '%s' key"},
	deniedChannel: {"channel", "acl_access_denied_channel", "access one of the channels used as arguments", "no permission to access one of the channels used as arguments to the command", "access the '%s' channel"},
	deniedDomain:  {"domain", "acl_access_denied_domain", "use this domain of the rules", "no permission to use the domain of the rules", "use the '%s' domain of the rules"},
	deniedLogin:   {reason: "auth"},
}

// denialCounts counts denials by kind.
type denialCounts [len(denials)]atomic.Int64

func (d *denialCounts) reset() {
	for i := range d {
		d[i].Store(0)
	}
}

// examine returns the reason why a user may not run a command. The caller has checked the arity. It allocates no memory
// if the command is permitted.
func (s *Server) examine(u *acl.User, cmd *command, args [][]byte) denial {
	switch {
	case u.Unrestricted():
		return denial{}
	case !u.MayRun(cmd.id):
		return denial{kind: deniedCommand, object: cmd.name}
	case cmd.refunds(args) && !u.MayRun(s.users.refund):
		return denial{kind: deniedCommand, object: refundName}
	case cmd.rules && !u.MayUseDomain(args[1]):
		return denial{kind: deniedDomain, object: string(args[1])}
	case cmd.is(movableKeys):
		return s.examineMoved(u, cmd, args)
	}
	for i, last := cmd.keys.bounds(args); i > 0 && i <= last; i += cmd.keys.step {
		if !u.MayAccess(args[i], cmd.keys.needs) {
			return denial{kind: deniedKey, object: string(args[i])}
		}
	}
	return examineChannels(u, cmd.channels, args)
}

// examineMoved examines the keys of a command with movable keys. Such a command is parsed. If it cannot be parsed, it is
// refused, so that no key is unchecked.
func (s *Server) examineMoved(u *acl.User, cmd *command, args [][]byte) denial {
	b := newBatch()
	defer b.release()
	b.configureServer(s)
	if err := cmd.parse(&b.parsing, args); err != nil {
		return denial{kind: deniedArguments, err: err}
	}
	for i := range b.reqs {
		if key := b.reqs[i].Key; !u.MayAccess(key, cmd.keys.needs) {
			return denial{kind: deniedKey, object: string(key)}
		}
	}
	return denial{}
}

func examineChannels(u *acl.User, use channelUse, args [][]byte) denial {
	switch use {
	case noChannels:
		return denial{}
	case oneChannel:
		args = args[:2]
	}
	for _, name := range args[1:] {
		if use == allPatterns && !u.MayUsePattern(name) || use != allPatterns && !u.MayUseChannel(name) {
			return denial{kind: deniedChannel, object: string(name)}
		}
	}
	return denial{}
}

// refunds reports whether a limiter command may have a negative quantity or cost. Other arguments that begin with a hyphen
// count too, unless they are keys or attributes; they are errors.
func (cmd *command) refunds(args [][]byte) bool {
	switch {
	case cmd.parse == nil || cmd.leases: // draws and returns of leases need a positive quantity
		return false
	case cmd.rules:
		o := newCheckOptions()
		allowed := uint8(optionsCheck)
		if cmd.report {
			allowed = optionsReport
		}
		_, _ = o.read(args[2:], allowed) // an error is reported when the command runs
		return o.cost < 0
	case cmd.is(movableKeys):
		return isNegative(args[1])
	}
	for _, arg := range args[2:] {
		if isNegative(arg) {
			return true
		}
	}
	return false
}

func isNegative(arg []byte) bool { return len(arg) > 0 && arg[0] == '-' }

// permit returns the error of a command that the user of the client may not run, and records it.
func (c *client) permit(cmd *command, args [][]byte) error {
	if c.session.user.Unrestricted() || c.listener.trusted {
		return nil
	}
	d := c.srv.examine(c.session.user, cmd, args)
	switch d.kind {
	case permitted:
		return nil
	case deniedArguments:
		return d.err
	}
	context := inToplevel
	if c.session.tx.queueing {
		context = inMulti
	}
	c.session.setLastRun(cmd) // the entry shows it: the object is a key, a channel or a domain
	c.recordDenial(d, context, c.session.user.Name())
	return d.refusal()
}

// permitQueued examines the queued commands again, since the permissions may have changed since they were queued. The
// commands that are not permitted any more get an error.
func (c *client) permitQueued(tx *transaction) {
	if c.session.user.Unrestricted() || c.listener.trusted {
		return
	}
	for i := range tx.queued {
		q := &tx.queued[i]
		if d := c.srv.examine(c.session.user, q.cmd, q.args); d.kind == deniedArguments {
			q.denied = d.err
		} else if d.kind != permitted {
			c.recordDenial(d, inMulti, c.session.user.Name())
			q.denied = d.queuedRefusal()
		}
	}
}
