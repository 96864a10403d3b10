package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/cluster"
	"github.com/throttledhq/throttled/cluster/transport"
	"github.com/throttledhq/throttled/internal/sdnotify"
	"github.com/throttledhq/throttled/internal/tlsserver"
	"github.com/throttledhq/throttled/metrics"
	"github.com/throttledhq/throttled/options"
	"github.com/throttledhq/throttled/persistence"
	"github.com/throttledhq/throttled/ruleset"
	"github.com/throttledhq/throttled/server"
	"github.com/throttledhq/throttled/sidecar"
)

// program is the running server and its parts. Its goroutines accept connections (one per listener), sweep the table,
// evict keys after the memory limit was lowered, adapt the garbage collector, reload on SIGHUP, watch the rules file, and
// save at save points. The server has its own goroutines.
//
// If the option data-dir is set, the replica has goroutines as well. They belong to Raft, to the link (the port for
// other nodes) and to the cluster.Node.
type program struct {
	opts       *options.Store
	log        *slog.Logger
	logs       *logOutput
	hangups    <-chan os.Signal   // receives SIGHUP, which requests a reload; may be nil
	store      *persistence.Store // nil if snapshots in dir are disabled
	storeErr   error              // reason why store is nil
	table      *buckets.Table
	replica    *replica          // nil if the state is in memory only
	upstream   *sidecar.Upstream // nil unless the program is a sidecar
	leases     *sidecar.Leases   // of a sidecar; nil if it draws none
	rules      *ruleset.Store
	rulesFile  *rulesFile // nil if the option rules is not set
	usersSeed  *usersSeed // nil unless the option aclfile is set on a node of a cluster
	server     *server.Server
	edges      edges
	metrics    *metrics.Metrics
	tls        *tlsserver.Store // nil if no port uses TLS
	listeners  []listener
	supervisor supervisor
	stopped    chan bool // receives a value when a client sends SHUTDOWN: whether to save

	limitMu   sync.Mutex
	maxMemory int64 // the option maxmemory; the table has no limit during the load
}

// open creates the parts of the program and binds its addresses, so that errors are reported before anything runs.
func open(opts *options.Store, stderr io.Writer) (*program, error) {
	o := opts.Get()
	if err := os.Chdir(o.Dir); err != nil {
		return nil, fmt.Errorf("change to dir: %w", err)
	}
	p := &program{opts: opts, logs: &logOutput{stderr: stderr}, stopped: make(chan bool, 1)}
	level := new(slog.LevelVar)
	if err := p.openLog(o, level); err != nil {
		return nil, err
	}
	p.warnReadable()
	if err := p.build(o, level); err != nil {
		return nil, errors.Join(err, p.release())
	}
	return p, nil
}

func (p *program) build(o *options.Options, level *slog.LevelVar) error {
	config := server.Config{
		Options: p.opts,
		Log:     p.log,
		Version: version,
		Stop:    func(save bool) { p.stopped <- save },
	}
	p.rules = ruleset.NewStore()
	p.rules.Counts().SetMax(o.MetricsMaxLimits)
	config.Rules = p.rules
	if err := p.openUsers(o, &config); err != nil {
		return err
	}
	if err := p.openState(o, &config); err != nil {
		return err
	}
	p.warnWritable(o)
	if err := errors.Join(p.openTLS(o), p.listen(o)); err != nil {
		return err
	}
	config.TLS = p.tls
	if err := p.openRules(o, &config); err != nil { // after listen: if a port is in use, the log must not report active rules
		return err
	}
	p.server = server.New(config)
	p.metrics = metrics.New(p.metricSources())
	if err := p.openEdges(o); err != nil {
		return errors.Join(err, p.server.Shutdown(context.Background()))
	}
	p.opts.OnChange(func(old, changed *options.Options) error {
		return p.applyOptions(old, changed, level)
	})
	return nil
}

// metricSources returns the parts of the program whose statistics are exported.
func (p *program) metricSources() metrics.Sources {
	s := metrics.Sources{Version: version, Server: p.server.Statistics, Rules: p.rules, Log: p.log}
	if p.replica != nil {
		s.Node = p.replica.node
	}
	s.Certificates = p.certificates
	return s
}

// certificates returns the times at which certificates expire, by their names in metrics.
func (p *program) certificates() map[string]time.Time {
	ends := map[string]time.Time{}
	if p.replica != nil && p.replica.link != nil {
		if node, ca, ok := p.replica.link.Expiry(); ok {
			ends["node"], ends["ca"] = node, ca
		}
	}
	if p.tls != nil {
		server, ca := p.tls.Expiry()
		ends["server"] = server
		if !ca.IsZero() {
			ends["client_ca"] = ca
		}
	}
	return ends
}

// The table for limits with on_failure: local.
const (
	localMemory = 16 << 20 // bytes
	localShards = 64
)

// openState opens the engine: that of a sidecar if upstream is set, a replica if data-dir is set, otherwise a table.
func (p *program) openState(o *options.Options, config *server.Config) error {
	switch {
	case o.IsSidecar():
		return p.openSidecar(o, config)
	case o.DataDir != "":
		return p.openReplica(o, config)
	}
	if err := p.openStore(o); err != nil {
		return err
	}
	if err := p.openTable(o); err != nil {
		return err
	}
	config.Engine = p.table
	config.Backup = func(w io.Writer) error {
		_, err := persistence.Write(w, persistence.Info{Program: version}, p.table, make(chan struct{})) // with pauses
		return err
	}
	if p.store != nil {
		config.Snapshots = p.store
	}
	return nil
}

// openRules sets the log of the rules, and the rules file if there is one. A server without a log loads the file
// immediately and does not start if the file is not valid. A server with a log may have rules in the log, so it starts in
// any case.
func (p *program) openRules(o *options.Options, config *server.Config) error {
	if p.replica != nil {
		config.RulesLog = p.replica.node
	} else {
		config.RulesLog = ruleset.NewLocal(p.rules, time.Now)
	}
	if o.Rules == "" {
		return nil
	}
	p.rulesFile = newRulesFile(o.Rules, p.rules, config.RulesLog, p.log)
	if o.ClusterID != "" {
		p.rulesFile.alone = false
		p.rulesFile.ready = func() error { return p.server.Ready() }
		p.rulesFile.author += " of node " + o.NodeID
	}
	if p.replica == nil {
		if err := p.rulesFile.load(context.Background()); err != nil {
			return wrongUsage("option rules: %w", err)
		}
	}
	return nil
}

// openReplica opens an engine whose state is in the log in data-dir: a cluster node if cluster-id is set, otherwise a
// standalone node.
func (p *program) openReplica(o *options.Options, config *server.Config) (err error) {
	clock := cluster.NewClock()
	p.storeErr = errReplicated
	p.maxMemory = o.MaxMemory
	p.table = buckets.New(buckets.Config{Clock: clock.Now, MaxMemory: o.MaxMemory, Eviction: eviction(o), Replicated: true})
	users := newClusterUsers(config.Users, p.log)
	state := replicated{table: p.table, clock: clock, rules: p.rules}
	if o.ClusterID != "" {
		state.users = users
	}
	if p.replica, err = openReplica(o, state, p.log); err != nil {
		return err
	}
	config.Engine, config.Snapshots = p.replica.node, p.replica.saver
	config.Backup = p.replica.backup
	if o.ClusterID != "" {
		config.Cluster, config.UserLog = p.replica.node, p.replica.node
		p.seedUsers(o, users.initial)
		config.Turns = reserveProcessors()
		config.Local = newLocalTable()
	}
	return nil
}

var errReplicated = errors.New("the state is in the log in data-dir")

// applyOptions applies changed options to the parts of the program. If it returns an error, it has changed nothing.
func (p *program) applyOptions(old, o *options.Options, level *slog.LevelVar) error {
	if err := o.CheckUpstream(); err != nil {
		return err
	}
	if p.store == nil && len(o.Save) > 0 {
		return fmt.Errorf("snapshots cannot be saved: %w", p.storeErr)
	}
	if err := p.server.CheckOptions(old, o); err != nil {
		return err
	}
	if o.LogFile != old.LogFile {
		if err := p.logs.open(o.LogFile); err != nil {
			return &options.SetError{Name: "logfile", Reason: err.Error()}
		}
	}
	if err := p.applyTLS(old, o); err != nil {
		if o.LogFile != old.LogFile {
			err = errors.Join(err, p.logs.open(old.LogFile))
		}
		return err
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

func (p *program) openLog(o *options.Options, level *slog.LevelVar) error {
	if err := p.logs.open(o.LogFile); err != nil {
		return err
	}
	level.Set(logLevel(o.LogLevel))
	p.log = slog.New(logHandler(p.logs, o.LogFormat, level))
	return nil
}

// logLevel returns the slog level of a Redis log level. Verbose is between debug and info.
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

// run serves until ctx is canceled, a client sends SHUTDOWN, or loading or serving fails. It then hands over the
// leadership and waits for connections to finish. Finally, it saves in two cases: the SHUTDOWN command
// requests it; or a signal or an error was the reason to stop, and save points are set. It returns an error
// if loading, serving or saving fails.
func (p *program) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	failed := p.startAll(ctx, &running)
	stopWatchdog := p.startWatchdog(ctx)
	save, err := p.wait(ctx, failed)
	p.notify(sdnotify.Stopping)
	stopWatchdog()
	p.edges.drain()
	if p.replica != nil {
		p.replica.handOver()
	}
	err = errors.Join(err, p.shutdown())
	cancel()
	running.Wait()
	if save {
		err = errors.Join(err, p.saveLast())
	}
	if err != nil && p.logs.toFile() {
		p.log.Error("stopped", "error", err) // standard error may not be visible to readers of the log
	} else {
		p.log.Info("stopped")
	}
	return errors.Join(err, p.release())
}

// startAll starts the goroutines of the program. They run until ctx is done and the server is shut down. The returned
// channel receives an error if loading or serving fails.
func (p *program) startAll(ctx context.Context, running *sync.WaitGroup) <-chan error {
	running.Go(func() { p.table.RunSweeper(ctx) })
	running.Go(func() { p.table.RunRelief(ctx, p.flush) })
	running.Go(func() { p.reloadOn(ctx) })
	running.Go(func() { paceCollector(ctx, p.memoryUse) })
	if p.upstream != nil {
		running.Go(func() { p.upstream.Run(ctx) })
		running.Go(func() { followRules(ctx, p.upstream, p.rules, p.log) })
	}
	if p.leases != nil {
		running.Go(func() { p.leases.Run(ctx, p.upstream) })
	}
	if p.rulesFile != nil {
		running.Go(func() { p.rulesFile.run(ctx) })
	}
	if p.tls != nil {
		running.Go(func() { p.tls.Watch(ctx) })
	}
	if p.usersSeed != nil {
		running.Go(func() { p.usersSeed.run(ctx) })
	}
	failed := make(chan error, len(p.listeners)+2)
	for _, f := range p.listeners {
		running.Go(func() { failed <- f.serve(ctx, p, f.Listener) })
	}
	running.Go(func() {
		if err := p.begin(ctx, running, failed); err != nil {
			failed <- err
			return
		}
		p.announce()
		running.Go(func() { p.notifyReady(ctx) })
		if p.store != nil {
			p.store.Run(ctx)
		}
	})
	return failed
}

// memoryUse returns the memory use and limits for paceCollector.
func (p *program) memoryUse() memoryUse {
	o := p.opts.Get()
	rules, compiling := p.rules.Memory()
	return memoryUse{o.MaxMemory, p.table.Memory(), o.ClientMemory(), p.server.ClientMemory(), rules, compiling}
}

// begin loads the snapshot or, if the program has a replica, starts the node and its services for other nodes.
func (p *program) begin(ctx context.Context, running *sync.WaitGroup, failed chan<- error) error {
	switch {
	case p.upstream != nil:
		return nil
	case p.replica == nil:
		return p.load(ctx)
	}
	p.replica.serve()
	if p.replica.link != nil {
		running.Go(func() { failed <- p.server.ServePeers(p.replica.link.Streams(transport.Client)) })
	}
	return p.replica.start(ctx)
}

// flush waits until changes that no request has made, such as evictions, are replicated. Without a replica it returns
// immediately.
func (p *program) flush() error {
	if p.replica == nil {
		return nil
	}
	return p.replica.node.Flush()
}

// wait blocks until there is a reason to stop, and reports whether the state must be saved.
func (p *program) wait(ctx context.Context, failed <-chan error) (save bool, err error) {
	configured := func() bool { return len(p.opts.Get().Save) > 0 }
	select {
	case <-ctx.Done():
		p.log.Info("stopping: received a signal")
		return configured(), nil
	case save := <-p.stopped:
		p.log.Info("stopping: a client has sent SHUTDOWN")
		return save, nil
	case err := <-failed:
		return configured(), err
	}
}

// announce logs that the server is ready, with its addresses.
func (p *program) announce() {
	addrs := make([]string, len(p.listeners))
	for i, ln := range p.listeners {
		addrs[i] = ln.Addr().String()
	}
	p.log.Info("ready", "version", version, "addresses", addrs, "pid", os.Getpid())
	if p.store == nil {
		p.log.Info("snapshots in dir are disabled", "reason", p.storeErr)
	}
}

// shutdown waits for connections to finish. It closes the connections that do not finish within shutdown-timeout.
func (p *program) shutdown() error {
	ctx, cancel := context.WithTimeout(context.Background(), p.shutdownTime())
	defer cancel()
	err := errors.Join(p.edges.shutdown(ctx), p.server.Shutdown(ctx))
	if errors.Is(err, context.DeadlineExceeded) {
		p.log.Warn("closed connections that did not finish within shutdown-timeout")
		err = nil
	}
	return err
}

// release closes the parts that open has opened.
func (p *program) release() (err error) {
	for _, f := range p.listeners {
		_ = f.Close() // already closed if it was served
	}
	if p.store != nil {
		err = p.store.Close()
	}
	if p.replica != nil {
		err = p.replica.close()
	}
	return errors.Join(err, p.logs.Close())
}

func (p *program) shutdownTime() time.Duration { return p.opts.Get().ShutdownTimeout }
