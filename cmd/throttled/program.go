package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/options"
	"github.com/throttledhq/throttled/server"
)

// program is the running server and its parts. Its goroutines are: one per listener,
// the sweeper of the table, and those of the server (the housekeeper, one per
// connection, one more per MONITOR).
type program struct {
	opts      *options.Store
	log       *slog.Logger
	logFile   io.Closer // nil for standard error
	table     *buckets.Table
	server    *server.Server
	listeners []net.Listener
	stopped   chan struct{} // closed when a client asks for SHUTDOWN
}

// open builds the parts and binds the addresses, so that what cannot work is said
// before anything runs.
func open(opts *options.Store, stderr io.Writer) (*program, error) {
	o := opts.Get()
	if err := os.Chdir(o.Dir); err != nil {
		return nil, fmt.Errorf("change to dir: %w", err)
	}
	p := &program{opts: opts, stopped: make(chan struct{})}
	level := new(slog.LevelVar)
	if err := p.openLog(o, level, stderr); err != nil {
		return nil, err
	}
	limitHeap(o.MaxMemory)
	p.table = buckets.New(buckets.Config{MaxMemory: o.MaxMemory})
	p.server = server.New(server.Config{
		Engine:  p.table,
		Options: opts,
		Log:     p.log,
		Version: version,
		Stop:    func() { close(p.stopped) },
	})
	opts.OnChange(func(_, changed *options.Options) error {
		level.Set(logLevel(changed.LogLevel))
		p.table.SetMaxMemory(changed.MaxMemory)
		limitHeap(changed.MaxMemory)
		return nil
	})
	if err := p.listen(o); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
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

// limitHeap makes the collector work harder before garbage takes the process far beyond
// maxmemory: what it lets go of for a moment while it grows a shard is not counted there.
func limitHeap(maxMemory int64) {
	limit := int64(math.MaxInt64)
	if maxMemory > 0 && maxMemory < math.MaxInt64/2 {
		limit = maxMemory + maxMemory/4 + heapBesideKeys
	}
	debug.SetMemoryLimit(limit)
}

const heapBesideKeys = 64 << 20 // bytes for connections and all else

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
// finish. It returns an error when serving fails or connections had to be cut off.
func (p *program) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	running.Go(func() { p.table.RunSweeper(ctx) })
	failed := make(chan error, len(p.listeners))
	for _, ln := range p.listeners {
		running.Go(func() { failed <- p.server.Serve(ln) })
	}
	p.announce()

	var err error
	select {
	case <-ctx.Done():
		p.log.Info("stopping: asked by a signal")
	case <-p.stopped:
		p.log.Info("stopping: asked by a client")
	case err = <-failed:
	}
	err = errors.Join(err, p.close())
	cancel()
	running.Wait()
	return err
}

// announce says that the server is ready, and where.
func (p *program) announce() {
	addrs := make([]string, len(p.listeners))
	for i, ln := range p.listeners {
		addrs[i] = ln.Addr().String()
	}
	p.log.Info("ready", "version", version, "addresses", addrs, "pid", os.Getpid())
	if o := p.opts.Get(); o.RequirePass == "" && !o.ProtectedMode {
		p.log.Warn("anybody who reaches this server can use it: no password is set and protected mode is off")
	}
}

// close ends the server and what it writes to.
func (p *program) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), p.shutdownTime())
	defer cancel()
	err := p.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		p.log.Warn("connections were cut off: they did not finish within shutdown-timeout")
		err = nil
	}
	for _, ln := range p.listeners {
		_ = ln.Close() // closed already where it was served
	}
	p.log.Info("stopped")
	if p.logFile != nil {
		err = errors.Join(err, p.logFile.Close())
	}
	return err
}

func (p *program) shutdownTime() time.Duration { return p.opts.Get().ShutdownTimeout }
