package main

import (
	"context"
	"os"
	"sync"

	"github.com/throttledhq/throttled/internal/sdnotify"
)

// supervisor reports the state of the program to systemd. The zero value reports nothing.
type supervisor struct {
	notifier sdnotify.Notifier

	mu    sync.Mutex // held while Ready of the start or Reloading is sent
	ready bool       // systemd has been notified that the program is ready
}

// supervise makes the program report its state to systemd, if the environment requests it. It must be called before run.
func (p *program) supervise(lookupEnv func(string) (string, bool)) {
	var err error
	if p.supervisor.notifier, err = sdnotify.New(lookupEnv, os.Getpid()); err != nil {
		p.log.Warn("the state of the server is not reported to systemd", "error", err)
	}
}

func (p *program) notify(s sdnotify.State) {
	if err := p.supervisor.notifier.Send(s); err != nil {
		p.log.Warn("the state of the server was not reported to systemd", "error", err)
	}
}

// notifyReady waits until requests can be decided, and then notifies systemd.
func (p *program) notifyReady(ctx context.Context) {
	if !p.awaitReady(ctx) {
		return
	}
	p.supervisor.mu.Lock()
	defer p.supervisor.mu.Unlock()
	p.notify(sdnotify.Ready)
	p.supervisor.ready = true
}

// notifyReload calls reload, and notifies systemd of its begin and end. A program that is not ready yet reports nothing,
// because the end of a reload is reported as ready.
func (p *program) notifyReload(reload func()) {
	notified := p.notifyReloading()
	reload()
	if notified {
		p.notify(sdnotify.Ready)
	}
}

// notifyReloading notifies systemd of a reload, and reports whether it has: it does not before the program is ready.
func (p *program) notifyReloading() bool {
	p.supervisor.mu.Lock()
	defer p.supervisor.mu.Unlock()
	if p.supervisor.ready {
		p.notify(sdnotify.Reloading)
	}
	return p.supervisor.ready
}

// startWatchdog starts the checks of the watchdog of systemd. The returned function stops them: they use the server, so
// they must be stopped before the server is. It waits for a check that runs, at most for shutdown-timeout.
func (p *program) startWatchdog(ctx context.Context) (stop func()) {
	checking, cancel := context.WithCancel(ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		p.runWatchdog(checking)
	}()
	return func() {
		cancel()
		within, release := context.WithTimeout(context.Background(), p.shutdownTime())
		defer release()
		select {
		case <-stopped:
		case <-within.Done():
			p.log.Warn("a check of the watchdog did not return within shutdown-timeout")
		}
	}
}

// runWatchdog runs the checks of the watchdog until ctx is done. A check takes the locks on the path of a request: it
// acquires a turn, runs a command, and locks each shard of the table. It does not depend on other nodes, since a
// restart of this node would not help if these are down.
func (p *program) runWatchdog(ctx context.Context) {
	caller := p.server.NewCaller()
	defer caller.Close()
	ping := []byte("*1\r\n$4\r\nPING\r\n")
	p.supervisor.notifier.RunWatchdog(ctx, func() error {
		if _, err := caller.Run(ping, nil); err != nil {
			return err
		}
		p.table.Usage()
		return nil
	})
}
