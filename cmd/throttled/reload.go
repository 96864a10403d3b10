package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// hangups returns a channel that receives SIGHUP, and a function that stops the delivery. Until that function is
// called, SIGHUP does not terminate the process.
func hangups() (<-chan os.Signal, func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP)
	return c, func() { signal.Stop(c) }
}

// reloadOn calls reload for each SIGHUP until ctx is canceled.
func (p *program) reloadOn(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.hangups:
			p.notifyReload(p.reload)
		}
	}
}

// reload reopens the log file, reloads the certificates, requests that the rules file is read again, and applies the
// options that have changed in the configuration file. If a step fails, its previous log file, certificates or options
// remain in use.
func (p *program) reload() {
	if err := p.logs.open(p.opts.Get().LogFile); err != nil {
		p.log.Error("the log file was not reopened, the previous one stays in use: correct its path or permissions, and send SIGHUP again", "error", err)
	}
	if p.replica != nil && p.replica.link != nil {
		if err := p.replica.link.Reload(); err != nil {
			p.log.Error("the certificates were not reloaded, the previous ones stay in use: correct the files, and send SIGHUP again", "error", err)
		}
	}
	if p.tls != nil {
		_ = p.tls.Reload() // it logs its error
	}
	if p.rulesFile != nil {
		p.rulesFile.reload()
	}
	list, err := p.opts.Reload()
	if err != nil {
		p.log.Error("the configuration was not reloaded, the previous values stay in effect: correct the file, and send SIGHUP again", "error", err)
		return
	}
	p.log.Info("reloaded", "file", p.opts.File(), "changed", list.Changed)
	p.reportUnchanged(list.Restart)
}

// reportUnchanged logs the options that have changed in the configuration file but cannot be applied without a restart.
// It reports raft-heartbeat of a cluster separately, since not even a restart changes the heartbeat of a cluster.
func (p *program) reportUnchanged(names []string) {
	const heartbeat = "raft-heartbeat"
	if at := slices.Index(names, heartbeat); at >= 0 && p.opts.Get().ClusterID != "" {
		names = slices.Delete(names, at, at+1)
		p.log.Warn("raft-heartbeat has changed in the configuration file, but it applies to a new cluster only: change the heartbeat of this cluster with CL.CLUSTER SET raft-heartbeat MS")
	}
	if len(names) > 0 {
		p.log.Warn("options that require a restart have changed in the configuration file", "options", names)
	}
}
