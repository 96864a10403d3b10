package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/options"
	"github.com/throttledhq/throttled/server/forward"
	"github.com/throttledhq/throttled/topology"
)

// Config says what a Server works with. Engine and Options have to be given.
type Config struct {
	Engine  limiter.Engine
	Options *options.Store
	Log     *slog.Logger // nil: nothing is logged
	Version string       // of the program, for INFO
	// Snapshots saves the state. nil: there is nowhere to save it.
	Snapshots Snapshots
	// Cluster is the one that this server is a node of. nil: it is a server by itself.
	Cluster topology.Cluster
	// Turns is how many goroutines may run commands of clients at the same time; 0: any number.
	Turns int
	// Stop is called once when a client asks for SHUTDOWN, and told whether the state is
	// to be saved after the last decision. It must not wait for the server. nil: nothing stops.
	Stop func(save bool)
}

// Server serves Redis clients. Make it with New, let it Serve listeners, each with the face that
// is meant for its clients, and end it with Shutdown.
type Server struct {
	engine    limiter.Engine
	cluster   topology.Cluster // nil: there is none
	snapshots Snapshots
	opts      *options.Store
	log       *slog.Logger
	version   string
	stopOnce  sync.Once
	stopWith  func(save bool)
	commands  map[faceSet]*registry // of each face
	names     []string              // of all commands, by id
	runID     string
	started   time.Time

	// exec is held for writing while EXEC runs or keys are deleted, unless it is one, and for
	// reading while any other command touches the keyspace, so that a transaction is alone. A
	// pipeline takes it once per batch; nothing waits for a client while holding it.
	exec sync.RWMutex

	stats    stats
	slowlog  slowlog
	latency  latencyMonitor
	monitors monitors
	forward  *forward.Forwarder
	news     news
	turns    turns
	logged   logLimiter
	auth     authLimiter

	clientMemory clientMemory

	ticks   atomic.Int64 // of the housekeeper, which counts them: the coarse clock of timeouts
	closing atomic.Bool
	lastID  atomic.Int64
	active  sync.WaitGroup // goroutines of connections
	ended   chan struct{}  // closed when the server begins to shut down

	following      sync.WaitGroup     // followLeader
	leaderPatience time.Duration      // how long a call waits for a leader
	stopFollowing  context.CancelFunc // once no connection is left: calls that are held are forwarded until then

	mu        sync.Mutex
	clients   map[int64]*client
	peers     int // of the clients, those that are nodes of the cluster
	admission admission
	listeners map[net.Listener]struct{}

	inHouse []*client // the housekeeper's list
}

// New returns a Server that serves nobody yet.
func New(c Config) *Server {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Stop == nil {
		c.Stop = func(bool) {}
	}
	if c.Snapshots == nil {
		c.Snapshots = noSnapshots{c.Engine, time.Now()}
	}
	s := &Server{
		engine:         c.Engine,
		cluster:        c.Cluster,
		forward:        forward.New(c.Cluster),
		leaderPatience: leaderPatience,
		snapshots:      c.Snapshots,
		opts:           c.Options,
		log:            c.Log,
		version:        c.Version,
		stopWith:       c.Stop,
		commands:       map[faceSet]*registry{},
		names:          commandNames(commandTable()),
		runID:          newRunID(),
		started:        time.Now(),
		ended:          make(chan struct{}),
		turns:          newTurns(c.Turns),
		clients:        map[int64]*client{},
		listeners:      map[net.Listener]struct{}{},
	}
	s.ticks.Store(firstTick)
	for _, f := range s.faces() {
		s.commands[f.set] = newRegistry(commandTable(), f.set)
	}
	s.stats.init(len(s.names))
	s.clientMemory.init(s.opts)
	s.admission.ended = sync.NewCond(&s.mu)
	if wanted := s.opts.Get().MaxClients; clientLimit(wanted) < wanted {
		s.log.Warn("the process may not open as many files as maxclients asks for", "maxclients", wanted, "clients served", clientLimit(wanted))
	}
	if o := s.opts.Get(); o.ClientMemory() > 0 && int64(o.MaxClients)*connectionBytes > o.ClientMemory() {
		s.log.Warn("maxmemory-clients has no room for as many idle connections as maxclients allows: raise it", "maxmemory-clients", o.ClientMemory(), "bytes of an idle connection", connectionBytes)
	}
	s.active.Go(s.keepHouse)
	s.active.Go(s.evictClients)
	ctx, stop := context.WithCancel(context.Background())
	s.stopFollowing = stop
	if s.cluster != nil {
		s.news.follow(s.cluster.View(), "")
		s.following.Go(func() { s.followLeader(ctx) })
	}
	return s
}

// stop asks the program to end. The first who asks decides whether the state is saved.
func (s *Server) stop(save bool) { s.stopOnce.Do(func() { s.stopWith(save) }) }

// ErrServerClosed is returned by Serve after Shutdown.
var ErrServerClosed = errors.New("server closed")

// Shutdown ends the server: it closes the listeners, lets each connection finish the
// commands that have been read from it and write their replies, and closes it. When ctx
// ends first, the connections that are left are cut off and the context's error is
// returned.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	if !s.closing.Swap(true) {
		close(s.ended)
	}
	for ln := range s.listeners {
		_ = ln.Close() // the accept loop ends; there is nobody to tell
	}
	for _, c := range s.clients {
		// Wakes a goroutine that waits for more; one that is busy comes to it by itself.
		c.conn.stopReading()
	}
	s.mu.Unlock()

	done := make(chan struct{})
	go func() {
		s.active.Wait()
		s.stopFollowing()
		s.following.Wait()
		s.forward.Close()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	for _, c := range s.snapshot() {
		c.hangUp()
	}
	<-done
	return ctx.Err()
}

// snapshot returns the connections of this moment in the order of their ids.
func (s *Server) snapshot() []*client {
	list := s.connections()
	sortByID(list)
	return list
}

// connections returns those of this moment, in any order.
func (s *Server) connections() []*client {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*client, 0, len(s.clients))
	for _, c := range s.clients {
		list = append(list, c)
	}
	return list
}

// uptime is the time since the server was made. It costs less than the time of day.
func (s *Server) uptime() time.Duration { return time.Since(s.started) }
