package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/options"
	"github.com/throttledhq/throttled/persistence"
	"github.com/throttledhq/throttled/server"
)

// program is the running server and its parts. Its goroutines are: one per listener,
// the sweeper of the table, the pacer of the collector, the one that saves by save points
// and those of its saves, and those of the server (the housekeeper, one per connection,
// one more per MONITOR).
type program struct {
	opts      *options.Store
	log       *slog.Logger
	logFile   io.Closer          // nil for standard error
	store     *persistence.Store // nil: there are no snapshots
	noStore   error              // why
	table     *buckets.Table
	server    *server.Server
	listeners []net.Listener
	stopped   chan bool // gets whether to save when a client asks for SHUTDOWN

	limitMu   sync.Mutex
	maxMemory int64 // what the options say, or are about to say, that the table may take
}

// open builds the parts and binds the addresses, so that what cannot work is said
// before anything runs.
func open(opts *options.Store, stderr io.Writer) (*program, error) {
	o := opts.Get()
	if err := os.Chdir(o.Dir); err != nil {
		return nil, fmt.Errorf("change to dir: %w", err)
	}
	p := &program{opts: opts, stopped: make(chan bool, 1)}
	level := new(slog.LevelVar)
	if err := p.openLog(o, level, stderr); err != nil {
		return nil, err
	}
	if err := p.build(o, level); err != nil {
		return nil, errors.Join(err, p.release())
	}
	return p, nil
}

func (p *program) build(o *options.Options, level *slog.LevelVar) error {
	if err := p.openStore(o); err != nil {
		return err
	}
	if err := p.openTable(o); err != nil {
		return err
	}
	config := server.Config{
		Engine:  p.table,
		Options: p.opts,
		Log:     p.log,
		Version: version,
		Stop:    func(save bool) { p.stopped <- save },
	}
	if p.store != nil {
		config.Snapshots = p.store
	}
	if err := p.listen(o); err != nil {
		return err
	}
	p.server = server.New(config)
	p.opts.OnChange(func(_, changed *options.Options) error {
		return p.follow(changed, level)
	})
	return nil
}

// follow makes the parts do what the options say. It changes nothing if that is impossible.
func (p *program) follow(o *options.Options, level *slog.LevelVar) error {
	if p.store == nil && len(o.Save) > 0 {
		return fmt.Errorf("snapshots cannot be saved: %w", p.noStore)
	}
	level.Set(logLevel(o.LogLevel))
	p.limitMemory(o.MaxMemory)
	p.table.SetEviction(eviction(o))
	if p.store != nil {
		p.store.SetSavePoints(savePoints(o))
	}
	return nil
}

func eviction(o *options.Options) buckets.Eviction {
	if o.MaxMemoryPolicy == "evict-smallest-debt" {
		return buckets.EvictSmallestDebt
	}
	return buckets.NoEviction
}

func (p *program) openLog(o *options.Options, level *slog.LevelVar, stderr io.Writer) error {
	out := stderr
	if o.LogFile != "" {
		f, err := os.OpenFile(o.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return fmt.Errorf("open logfile: %w", err)
		}
		out, p.logFile = f, f
	}
	level.Set(logLevel(o.LogLevel))
	p.log = slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: level}))
	return nil
}

// logLevel maps Redis's levels. Verbose is between debug and info.
func logLevel(name string) slog.Level {
	switch name {
	case "debug":
		return slog.LevelDebug
	case "verbose":
		return slog.LevelInfo - 1
	case "warning":
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// listen binds all addresses. With port 0 the first decides the port of the others.
func (p *program) listen(o *options.Options) error {
	config := net.ListenConfig{KeepAlive: -1} // the server sets it for each connection
	port := o.Port
	for _, host := range o.Bind {
		if host == "*" {
			host = ""
		}
		ln, err := config.Listen(context.Background(), "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			return fmt.Errorf("bind: %w", err)
		}
		p.listeners = append(p.listeners, ln)
		port = ln.Addr().(*net.TCPAddr).Port
	}
	return nil
}

// run serves until ctx ends or a client asks for SHUTDOWN, and then lets connections
// finish and saves. It returns an error when loading, serving or saving fails.
func (p *program) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	running.Go(func() { p.table.RunSweeper(ctx) })
	running.Go(func() {
		paceCollector(ctx, func() (maxMemory, used int64) { return p.opts.Get().MaxMemory, p.table.Usage().Bytes })
	})
	failed := make(chan error, len(p.listeners)+1)
	for _, ln := range p.listeners {
		running.Go(func() { failed <- p.server.Serve(ln) })
	}
	running.Go(func() {
		if err := p.load(ctx); err != nil {
			failed <- err
			return
		}
		p.announce()
		if p.store != nil {
			p.store.Run(ctx)
		}
	})
	save, err := p.wait(ctx, failed)
	err = errors.Join(err, p.shutdown())
	cancel()
	running.Wait()
	if save {
		err = errors.Join(err, p.saveLast())
	}
	if err != nil && p.logFile != nil {
		p.log.Error("stopped", "error", err) // what reads the log may not see standard error
	} else {
		p.log.Info("stopped")
	}
	return errors.Join(err, p.release())
}

// wait waits for a reason to stop, and returns whether the state is to be saved then.
func (p *program) wait(ctx context.Context, failed <-chan error) (save bool, err error) {
	configured := func() bool { return len(p.opts.Get().Save) > 0 }
	select {
	case <-ctx.Done():
		p.log.Info("stopping: asked by a signal")
		return configured(), nil
	case save := <-p.stopped:
		p.log.Info("stopping: asked by a client")
		return save, nil
	case err := <-failed:
		return configured(), err
	}
}

// announce says that the server is ready, and where.
func (p *program) announce() {
	addrs := make([]string, len(p.listeners))
	for i, ln := range p.listeners {
		addrs[i] = ln.Addr().String()
	}
	p.log.Info("ready", "version", version, "addresses", addrs, "pid", os.Getpid())
	if p.store == nil {
		p.log.Info("SAVE is not available", "error", p.noStore)
	}
	if o := p.opts.Get(); o.RequirePass == "" && !o.ProtectedMode {
		p.log.Warn("anybody who reaches this server can use it: no password is set and protected mode is off")
	}
}

// shutdown lets connections finish, and cuts off those that take too long.
func (p *program) shutdown() error {
	ctx, cancel := context.WithTimeout(context.Background(), p.shutdownTime())
	defer cancel()
	err := p.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		p.log.Warn("connections were cut off: they did not finish within shutdown-timeout")
		err = nil
	}
	return err
}

// release gives back what open took.
func (p *program) release() (err error) {
	for _, ln := range p.listeners {
		_ = ln.Close() // closed already where it was served
	}
	if p.store != nil {
		err = p.store.Close()
	}
	if p.logFile != nil {
		err = errors.Join(err, p.logFile.Close())
	}
	return err
}

func (p *program) shutdownTime() time.Duration { return p.opts.Get().ShutdownTimeout }
