package server

import (
	"errors"
	"strings"

	"github.com/throttledhq/throttled/persistence"
)

// cmdSave writes a snapshot. It blocks only the connection of the client.
func cmdSave(c *client, _ [][]byte) error {
	if err := c.save(); err != nil {
		return saveError(err)
	}
	c.out.OK()
	return nil
}

// save writes a snapshot. The connection does not count as idle during the save.
func (c *client) save() error {
	c.session.setInfo(func(i *clientInfo) { i.saving = true })
	defer c.session.setInfo(func(i *clientInfo) { i.saving = false })
	return c.srv.snapshots.Save()
}

// cmdBgsave starts a save in the background. The argument SCHEDULE is accepted for compatibility, but has no effect.
// In Redis, it delays the save until an append-only file has been rewritten. This server has no such file.
func cmdBgsave(c *client, args [][]byte) error {
	if len(args) > 2 || len(args) == 2 && !isOneOf(args[1], "schedule") {
		return errSyntax
	}
	if err := c.srv.snapshots.SaveInBackground(); err != nil {
		return saveError(err)
	}
	c.out.Status("Background saving started")
	return nil
}

// saveError returns the error reply of SAVE or BGSAVE. Unlike in Redis, it includes the reason.
func saveError(err error) error {
	if errors.Is(err, persistence.ErrSaving) {
		return errSaving
	}
	if reply, known := asReply(err); known {
		return reply
	}
	return replyError("ERR " + err.Error())
}

func cmdLastSave(c *client, _ [][]byte) error {
	c.out.Int(c.srv.snapshots.Status().LastSave.Unix())
	return nil
}

// shutdownQuery holds the arguments of SHUTDOWN. NOW has no effect: in Redis, NOW skips the wait for replicas, but this
// server never waits for replicas.
type shutdownQuery struct{ abort, save, nosave, now, force bool }

func parseShutdown(args [][]byte) (q shutdownQuery, err error) {
	for _, arg := range args[1:] {
		switch strings.ToLower(string(arg)) {
		case "abort":
			q.abort = true
		case "save":
			q.save = true
		case "nosave":
			q.nosave = true
		case "now":
			q.now = true
		case "force":
			q.force = true
		default:
			return q, errSyntax
		}
	}
	if q.abort && q != (shutdownQuery{abort: true}) || q.save && q.nosave {
		return q, errSyntax
	}
	return q, nil
}

// cmdShutdown stops the program. As in Redis, there is no reply on success: the connection is closed.
//
// Unless the arguments or the options exclude a save, the state is saved twice. The first save runs while clients are
// still served, so that an error can be reported to the client. The program saves the state again after the last
// decision.
func cmdShutdown(c *client, args [][]byte) error {
	q, err := parseShutdown(args)
	if err != nil {
		return err
	}
	if q.abort {
		return errNoShutdown
	}
	save := q.save || !q.nosave && len(c.srv.opts.Get().Save) > 0
	if c.srv.snapshots.Loading() {
		save = false // a partially loaded state must not replace the snapshot
	}
	if save {
		if err := c.saveBeforeStop(); err != nil && !q.force {
			return err
		}
	}
	c.srv.log.Info("shutdown requested by a client", "client", c.id, "addr", c.addr())
	c.pipe.quit()
	c.srv.stop(save)
	return nil
}

// saveBeforeStop saves the state for SHUTDOWN, and returns the error reply if the save fails. If another save is
// running, saveBeforeStop neither waits for it nor fails, because the program writes a final snapshot afterward.
func (c *client) saveBeforeStop() error {
	err := c.save()
	switch {
	case err == nil, errors.Is(err, persistence.ErrSaving):
		return nil
	case errors.Is(err, errNoSnapshots):
		return errNoSnapshots
	}
	c.srv.log.Error("cannot save the state before the shutdown requested by a client", "client", c.id, "error", err)
	return errShutdown
}
