package server

import (
	"errors"
	"net"
	"strings"

	"github.com/throttledhq/throttled/persistence"
)

// cmdSave keeps only its own connection waiting: a snapshot is written while others are
// served.
func cmdSave(c *client, _ [][]byte) error {
	if err := c.save(); err != nil {
		return saveError(err)
	}
	c.out.OK()
	return nil
}

// save writes a snapshot. The connection does not count as idle meanwhile. What it has been
// told so far is written first: who has gone asks for no more, whatever he sent before.
func (c *client) save() error {
	if !c.flush() {
		c.cut = true
		return net.ErrClosed
	}
	c.show(func(p *profile) { p.saving = true })
	defer c.show(func(p *profile) { p.saving = false })
	return c.srv.snapshots.Save()
}

// cmdBgsave takes SCHEDULE for compatibility: the only thing that it could wait for is
// the rewriting of an append-only file.
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

// saveError says why no snapshot was written. Redis says nothing but ERR where it is not
// that one is being written already.
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

// shutdownQuery is what SHUTDOWN asks for. NOW has no meaning here, as there are no
// replicas to wait for.
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

// cmdShutdown stops the program. Like Redis it does not answer when it succeeds: the
// connection closes.
//
// The state is saved here first, while clients are served: only now can somebody be told
// that it fails. The program saves it again after the last decision.
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
		save = false // what is half loaded must not take the place of the snapshot
	}
	if save {
		if err := c.saveBeforeStop(); err != nil && !q.force {
			return err
		}
	}
	c.srv.log.Info("shutdown asked for by a client", "client", c.id, "addr", c.conn.RemoteAddr())
	c.quit = true
	c.srv.stop(save)
	return nil
}

// saveBeforeStop returns the reply to a client whose SHUTDOWN cannot save. It does not
// wait for a snapshot that is being written: the one at the end comes after it anyway.
func (c *client) saveBeforeStop() error {
	err := c.save()
	switch {
	case err == nil, errors.Is(err, persistence.ErrSaving):
		return nil
	case errors.Is(err, errNoSnapshots):
		return errNoSnapshots
	}
	c.srv.log.Error("the state cannot be saved before the shutdown that a client asks for", "client", c.id, "error", err)
	return errShutdown
}
