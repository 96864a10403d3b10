package edge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/edge/attributes"
	"github.com/throttledhq/throttled/edge/decision"
	"github.com/throttledhq/throttled/edge/headers"
	"github.com/throttledhq/throttled/internal/connlimit"
	"github.com/throttledhq/throttled/internal/lograte"
	"github.com/throttledhq/throttled/options"
)

// Config contains the parts of the program that a Server uses. All fields are required, except those marked as optional.
type Config struct {
	Options *options.Options // at the start of the program
	Checker *decision.Checker
	Access  Access
	Ready   func() error // returns nil if requests can be decided, and otherwise the reason
	Rules   Rules
	Metrics http.Handler // serves /metrics. Optional
	Log     *slog.Logger
	// Observe is called after each request. The endpoint is a path of the table of endpoints, such as "/v1/check", or
	// "other". Optional.
	Observe func(endpoint string, code int, elapsed time.Duration)
}

// Access decides which clients may connect and use the server. A server.Server is an Access.
type Access interface {
	// Accepts reports whether a client with the address may connect.
	Accepts(addr net.Addr) bool
	// Authenticate returns nil if the password is right, or if none is required.
	Authenticate(addr net.Addr, password []byte) error
	// RequiresPassword reports whether a password is required.
	RequiresPassword() bool
}

// Rules returns the active version of the rules and its text. The version is 0 if there are no rules.
type Rules func() (version uint64, text []byte, err error)

// Limits of a connection. Gateways send small requests.
const (
	maxHeader   = 16 << 10 // bytes of the request line and the headers
	maxBody     = 64 << 10
	headerTime  = 5 * time.Second  // to send the request line and the headers
	requestTime = 10 * time.Second // to send the request, and to read the response
	idleTime    = 2 * time.Minute  // between requests
)

// Server serves HTTP. Its methods may be called concurrently.
type Server struct {
	config   Config
	http     http.Server
	sources  *attributes.Sources
	proxies  *attributes.Proxies
	format   headers.Format
	hosts    map[string]bool
	draining atomic.Bool
	lines    *lograte.Limiter
	calls    sync.Pool // of *call
}

// New returns a Server. It returns an error if an option is not valid.
func New(c Config) (*Server, error) {
	o := c.Options
	sources, err := attributes.ParseSources(o.EdgeAttributes)
	if err != nil {
		return nil, fmt.Errorf("option edge-attributes: %w", err)
	}
	s := &Server{
		config:  c,
		sources: sources,
		proxies: attributes.NewProxies(o.TrustedProxies),
		format:  headers.NewFormat(o.RateLimitHeaders, o.XRateLimitReset),
		hosts:   map[string]bool{"localhost": true, "": true},
		lines:   lograte.New(1, 10*time.Second),
	}
	for _, h := range o.HTTPHosts {
		s.hosts[hostOf(h)] = true
	}
	s.calls.New = func() any { return newCall() }
	s.http = http.Server{
		Handler:           http.HandlerFunc(s.serve),
		MaxHeaderBytes:    maxHeader - 4096, // net/http adds 4096
		ReadHeaderTimeout: headerTime,
		ReadTimeout:       requestTime,
		WriteTimeout:      requestTime,
		IdleTimeout:       idleTime,
		ConnContext:       withPeer,
		ErrorLog:          slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug),
	}
	return s, nil
}

// Serve accepts connections until Shutdown is called, and then returns nil. It closes the listener. It may be called for
// several listeners.
func (s *Server) Serve(l net.Listener) error {
	l = connlimit.New(l, s.config.Options.MaxClients, s.refusedConnection)
	if s.config.Options.HTTPProxyProtocol {
		l = s.withProxyHeaders(l)
	}
	err := s.http.Serve(l)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

func (s *Server) refusedConnection(addr net.Addr) {
	s.warn("connections", "HTTP connection refused: too many connections", "addr", addr)
}

// Drain prepares for Shutdown: the server is no longer ready, and asks clients to close their connections after the next
// response, so that no request is sent on a connection that is being closed.
func (s *Server) Drain() { s.draining.Store(true) }

// Shutdown stops the server gracefully: it closes the listeners and idle connections, and completes the requests that have
// begun. When ctx is done, it closes the remaining connections and returns the error of ctx.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Drain()
	err := s.http.Shutdown(ctx)
	if err != nil {
		_ = s.http.Close()
		return fmt.Errorf("stop the HTTP server: %w", err)
	}
	return nil
}

// peer is the other end of a connection. Its address is read by the first request: with the PROXY protocol, it is known
// only when bytes have arrived, for which the goroutine that accepts connections must not wait.
type peer struct {
	conn net.Conn
	addr net.Addr
	ip   netip.Addr
}

// peerKey is the key of the *peer in the context of a connection.
type peerKey struct{}

func withPeer(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, peerKey{}, &peer{conn: conn})
}

// peerOf returns the peer of a request. The requests of a connection are served one after the other.
func peerOf(r *http.Request) *peer {
	p := r.Context().Value(peerKey{}).(*peer)
	if p.addr == nil {
		p.addr = p.conn.RemoteAddr()
		if tcp, ok := p.addr.(*net.TCPAddr); ok {
			p.ip = tcp.AddrPort().Addr().Unmap()
		}
	}
	return p
}

// warn logs a warning, at most once in ten seconds for each name.
func (s *Server) warn(name, message string, args ...any) {
	if missed, ok := s.lines.Allow(name, time.Now()); ok {
		if missed > 0 {
			args = append(args, "repeated", missed)
		}
		s.config.Log.Warn(message, args...)
	}
}
