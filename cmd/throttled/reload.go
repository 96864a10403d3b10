package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// hangups returns a channel that gets SIGHUP from now on, in place of it ending the process, and a
// function that stops that.
func hangups() (<-chan os.Signal, func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP)
	return c, func() { signal.Stop(c) }
}

// reloadOn reloads at each signal until ctx ends.
func (p *program) reloadOn(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.hangups:
			p.reload()
		}
	}
}

// reload opens the log file anew, reads the certificates, and puts into force those options that have
// changed in the configuration file. Each of the three keeps what it has if that fails.
func (p *program) reload() {
	if err := p.logs.open(p.opts.Get().LogFile); err != nil {
		p.log.Error("the log file was not reopened, the old one stays in use: correct its path or permissions, and send SIGHUP again", "error", err)
	}
	if p.replica != nil && p.replica.link != nil {
		if err := p.replica.link.Reload(); err != nil {
			p.log.Error("the certificates were not reloaded, the old ones stay in use: correct the files, and send SIGHUP again", "error", err)
		}
	}
	list, err := p.opts.Reload()
	if err != nil {
		p.log.Error("the configuration was not reloaded, the old values stay in force: correct the file, and send SIGHUP again", "error", err)
		return
	}
	p.log.Info("reloaded", "file", p.opts.File(), "changed", list.Changed)
	p.reportUnchanged(list.Restart)
}

// reportUnchanged logs options that have changed in the configuration file and that the server cannot change. The
// heartbeat of a cluster does not change by a restart either.
func (p *program) reportUnchanged(names []string) {
	const heartbeat = "raft-heartbeat"
	if at := slices.Index(names, heartbeat); at >= 0 && p.opts.Get().ClusterID != "" {
		names = slices.Delete(names, at, at+1)
		p.log.Warn("raft-heartbeat has changed in the configuration file, the cluster's value stays in force: change it by CL.CLUSTER SET raft-heartbeat MS")
	}
	if len(names) > 0 {
		p.log.Warn("some options have changed in the configuration file that only a restart puts into force", "options", names)
	}
}
