package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/acl"
	"github.com/throttledhq/throttled/internal/lograte"
	"github.com/throttledhq/throttled/internal/tlsserver"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/options"
	"github.com/throttledhq/throttled/ruleset"
	"github.com/throttledhq/throttled/server/forward"
	"github.com/throttledhq/throttled/topology"
)

// Config configures a Server. Engine and Options are required.
type Config struct {
	Engine  limiter.Engine
	Options *options.Store
	Log     *slog.Logger // optional; nil disables logging
	Version string       // version of the program, shown by INFO
	// Snapshots saves the state. Optional; if nil, the state is not persistent.
	Snapshots Snapshots
	// Backup writes all committed state to w, in the format of persistence.Write. It must return if w fails. Optional; if
	// nil, the commands that read a backup fail.
	Backup func(w io.Writer) error
	// Cluster is the cluster that this server belongs to. Nil means standalone.
	Cluster topology.Cluster
	// Sidecar makes the server a sidecar: it forwards commands to the upstream. Cluster must be nil then. Optional.
	Sidecar Sidecar
	// UpstreamTimeout is the maximum time from the beginning of a batch of commands of a client of a sidecar to the replies of
	// the upstream, apart from the time for which its commands may block. It is required if Sidecar is set.
	UpstreamTimeout time.Duration
	// Rules holds the active rules. Optional; if nil, the commands that use rules fail.
	Rules *ruleset.Store
	// RulesClock returns the time that CL.CHECK, CL.REPORT and CL.RULES EXPLAIN use for schedules, calendar windows and the
	// refusals before a ban; retry times are then not lengthened at random. It is for tests of rules, with an Engine whose
	// clock has the same time. Optional; if nil, the clocks of the system are used.
	RulesClock func() time.Time
	// RulesLog changes Rules. It is required if Rules is set.
	RulesLog ruleset.Log
	// Users holds the users. Optional; if nil, there is only the user "default". The server sets the password of that user
	// from the options.
	Users *acl.Store
	// UserLog changes Users in a cluster. Optional; if nil, the server changes Users itself.
	UserLog UserLog
	// Local decides the limits with on_failure: local while no leader can be reached. Its state belongs to this server
	// only. Optional; if nil, these limits admit all requests then.
	Local Decider
	// Turns is the maximum number of goroutines that run client commands concurrently. 0 means no limit.
	Turns int
	// TLS accepts the connections with TLS. Its statistics are published. Optional; if nil, no connection uses TLS.
	TLS *tlsserver.Store
	// Stop is called at most once: for the first SHUTDOWN that the server does not refuse. If save is set, the program
	// must save the state after the last decision. Stop must not wait for the server. Optional; if nil, SHUTDOWN does
	// not stop the process.
	Stop func(save bool)
}

// Decider decides requests. It is the part of limiter.Engine that does not depend on a commit.
type Decider interface {
	// Decide decides reqs in order and stores the decisions in out, as limiter.Engine does.
	Decide(reqs []limiter.Request, out []limiter.Decision) limiter.CommitToken
}

// Server serves Redis clients. New returns a Server. Each of the Serve methods, such as Serve and ServeCluster, accepts
// connections of one kind of client from a listener. Shutdown stops the server.
type Server struct {
	engine          limiter.Engine
	cluster         topology.Cluster // nil if standalone
	sidecar         Sidecar          // the same as cluster on a sidecar, otherwise nil
	upstreamTimeout time.Duration    // of a sidecar
	caughtUp        catchUp          // unused if standalone
	snapshots       Snapshots
	live            *ruleset.Editor // nil if there are no rules
	opts            *options.Store
	log             *slog.Logger
	tls             *tlsserver.Store // nil without TLS
	version         string
	stopOnce        sync.Once
	stopWith        func(save bool)
	commands        map[profileSet]*registry // by listener profile
	names           []string                 // names of all commands, indexed by command id
	runID           string
	started         time.Time

	// exec isolates transactions. It is locked for writing while EXEC runs or a command deletes several keys, and for
	// reading while any other command touches the keyspace. A pipeline locks it once per batch. No goroutine waits for
	// a client while it holds exec.
	exec sync.RWMutex

	rules    ruleState
	stats    stats
	slowlog  slowlog
	latency  latencyMonitor
	monitors monitors
	backups  backups
	forward  *forward.Forwarder
	outage   outage
	away     awayCounts
	broker   broker
	turns    turns
	polls    pollQueue
	pausing  clientPause
	logged   *lograte.Limiter
	auth     authLimiter
	overload overload
	users    users

	clientMemory clientMemory

	ticks         atomic.Int64 // coarse clock for timeouts, advanced by the reaper
	closing       atomic.Bool
	lastID        atomic.Int64
	active        sync.WaitGroup // goroutines of connections, the reaper and the eviction of clients
	shutdownBegun chan struct{}  // closed when shutdown begins

	leaderWatch     sync.WaitGroup     // the goroutine of watchLeader
	stopLeaderWatch context.CancelFunc // called after the last connection is closed, since open connections may still forward commands

	mu        sync.Mutex
	clients   map[int64]*client
	peers     int // number of clients that are nodes of the cluster
	admission admission
	listeners map[net.Listener]struct{}

	toCheck []*client // scratch list of the reaper
}

// New returns a Server without listeners, and starts its background goroutines.
func New(c Config) *Server {
	c.setDefaults()
	s := &Server{
		engine:        c.Engine,
		cluster:       c.Cluster,
		sidecar:       c.Sidecar,
		forward:       forward.New(c.Cluster),
		snapshots:     c.Snapshots,
		opts:          c.Options,
		log:           c.Log,
		tls:           c.TLS,
		version:       c.Version,
		stopWith:      c.Stop,
		commands:      map[profileSet]*registry{},
		names:         commandNames(commandTable()),
		runID:         newRunID(),
		started:       time.Now(),
		shutdownBegun: make(chan struct{}),
		turns:         newTurns(c.Turns),
		logged:        lograte.New(linesPerSecond, time.Second),
		clients:       map[int64]*client{},
		listeners:     map[net.Listener]struct{}{},
	}
	if c.Rules != nil {
		s.live = &ruleset.Editor{Store: c.Rules, Log: c.RulesLog}
	}
	if c.Sidecar != nil {
		s.upstreamTimeout = c.UpstreamTimeout
		s.forward.Timeouts = forward.Timeouts{Reply: c.UpstreamTimeout, FormerLeader: c.UpstreamTimeout, Open: openTrips * c.UpstreamTimeout, Ahead: sendAhead}
	}
	s.backups.write = c.Backup
	s.ticks.Store(firstTick)
	for _, f := range s.profiles() {
		s.commands[f.set] = newRegistry(commandTable(), f.set)
	}
	s.stats.init(len(s.names))
	s.users.init(&c, len(s.names))
	s.currentUsers()
	s.rules.init(c.Rules)
	s.rules.local = c.Local
	if c.RulesClock != nil {
		s.rules.setClock(c.RulesClock)
	}
	s.clientMemory.init(s.opts)
	s.admission.ended = sync.NewCond(&s.mu)
	s.checkMaxClients()
	s.openPolls()
	s.active.Go(s.runReaper)
	s.active.Go(s.evictClients)
	s.active.Go(s.watchUsers)
	ctx, stop := context.WithCancel(context.Background())
	s.stopLeaderWatch = stop
	if s.cluster != nil {
		s.broker.announceLeader(s.cluster.View(), "")
		s.leaderWatch.Go(func() { s.watchLeader(ctx) })
	}
	return s
}

// setDefaults replaces optional fields that are nil.
func (c *Config) setDefaults() {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Sidecar != nil {
		c.Cluster = c.Sidecar
	}
	if c.Stop == nil {
		c.Stop = func(bool) {}
	}
	if c.Snapshots == nil {
		c.Snapshots = noSnapshots{c.Engine, time.Now()}
	}
}

// checkMaxClients logs a warning if maxclients exceeds the limit of open files or the memory for clients.
func (s *Server) checkMaxClients() {
	o := s.opts.Get()
	if served := clientLimit(o); served < o.MaxClients {
		s.log.Warn("maxclients exceeds the limit of open files: raise the limit (ulimit -n)", "maxclients", o.MaxClients, "clients_served", served)
	}
	if memory := o.ClientMemory(); memory > 0 && int64(o.MaxClients)*connectionBytes > memory {
		s.log.Warn("maxmemory-clients is too small for maxclients idle connections: raise maxmemory-clients", "maxmemory-clients", memory, "bytes_of_idle_connection", connectionBytes)
	}
}

// openPolls opens the queue of long pipelines. If it fails, it logs a warning: other clients then wait longer for them.
func (s *Server) openPolls() {
	if err := s.polls.open(); err != nil {
		s.log.Warn("long pipelines may delay other clients: a pipe cannot be created; raise the limit of open files (ulimit -n), and restart the server", "error", err)
	}
}

// stop requests the shutdown of the program. Only the first call has an effect, and determines whether the state is
// saved.
func (s *Server) stop(save bool) { s.stopOnce.Do(func() { s.stopWith(save) }) }

// ErrServerClosed is returned by the Serve methods after Shutdown.
var ErrServerClosed = errors.New("server closed")

// Shutdown stops the server gracefully. It closes the listeners. It closes each connection once the commands that were
// read from the connection have run and their replies are written. If ctx is done first, Shutdown aborts the remaining
// connections and returns ctx.Err().
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	if !s.closing.Swap(true) {
		close(s.shutdownBegun)
	}
	for ln := range s.listeners {
		_ = ln.Close() // stops the accept loop
	}
	for _, c := range s.clients {
		// Unblocks the goroutine of the connection if it is waiting for bytes. Otherwise the goroutine checks s.closing
		// after running its commands.
		c.conn.socket.stopReading()
	}
	s.mu.Unlock()

	done := make(chan struct{})
	go func() {
		s.active.Wait()
		s.stopLeaderWatch()
		s.leaderWatch.Wait()
		s.forward.Close()
		s.polls.close()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	for _, c := range s.sortedClients() {
		c.conn.hangUp()
	}
	<-done
	return ctx.Err()
}

// sortedClients returns the current clients in the order of their ids.
func (s *Server) sortedClients() []*client {
	list := s.connections()
	sortByID(list)
	return list
}

// connections returns the current connections in any order.
func (s *Server) connections() []*client {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*client, 0, len(s.clients))
	for _, c := range s.clients {
		list = append(list, c)
	}
	return list
}

// uptime returns the time since New. It is cheaper than reading the wall clock.
func (s *Server) uptime() time.Duration { return time.Since(s.started) }
