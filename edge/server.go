package edge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/textproto"
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/acl"
	"github.com/throttledhq/throttled/edge/attributes"
	"github.com/throttledhq/throttled/edge/decision"
	"github.com/throttledhq/throttled/edge/headers"
	"github.com/throttledhq/throttled/edge/http1"
	"github.com/throttledhq/throttled/internal/lograte"
	"github.com/throttledhq/throttled/internal/tlsserver"
	"github.com/throttledhq/throttled/options"
	"github.com/throttledhq/throttled/ruleset"
)

// Access decides whether a client may send requests. A server.Server is an Access.
type Access interface {
	// Accepts reports whether a client with this address may connect.
	Accepts(addr net.Addr) bool
	// Authenticate returns the login of a user if the password is right. Without the name of a user, the password is a token,
	// see acl.Set.SplitToken. An error with a method RetryAfter() time.Duration
	// means that the address has failed too often; its text is shown to the client.
	Authenticate(addr net.Addr, user, password []byte) (acl.Login, error)
	// RequiresPassword reports whether a password is required.
	RequiresPassword() bool
	// Users returns the current users. After each change it returns another pointer.
	Users() *acl.Set
	// MayRun reports whether a user may run a command, such as "info".
	MayRun(login acl.Login, command string) bool
	// CertificateUser returns the login of a client without a password whose verified certificate has this common name, which
	// may be empty. ok is false if certificates of this name have no user.
	CertificateUser(commonName string) (login acl.Login, ok bool)
	// Ready returns nil if requests can be decided, or the reason why they cannot.
	Ready() error
	// ClientLimit returns the maximum number of connections.
	ClientLimit() int
}

// Observer records requests for metrics. Its method is called concurrently.
type Observer interface {
	// ObserveRequest records a request to an endpoint, such as "/v1/check" or "/check/nginx". Paths that do not exist are
	// recorded as "none".
	ObserveRequest(endpoint string, code int, took time.Duration)
}

// Config configures a Server. Checker, Access and Options are required.
type Config struct {
	Checker  *decision.Checker
	Access   Access
	Options  *options.Store
	Rules    *ruleset.Store // optional; if nil, GET /v1/rules returns an error
	Metrics  http.Handler   // optional; serves GET /metrics
	Observer Observer       // optional
	// Trace returns a handler that traces the requests to another one. Optional.
	Trace   func(http.Handler) http.Handler
	Log     *slog.Logger // optional; nil disables logging
	Version string       // of the program, for the OpenAPI document
}

// The limits of a connection.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 15 * time.Second
	writeTimeout      = 30 * time.Second

	// idleTimeout is longer than that of most gateways, so that the gateway closes an idle connection, and does not send a
	// request on a connection that is being closed.
	idleTimeout = 3 * time.Minute

	// maxHeader is larger than the headers that nginx accepts by default (32 KiB): nginx would treat the refusal of
	// larger headers as a failure, so a client could make it admit a request.
	maxHeader = 64 << 10

	maxBody = 64 << 10
)

// linesPerSecond is the maximum number of log lines with the same text.
const linesPerSecond = 1

// Server is the HTTP server. It is an http.Handler.
type Server struct {
	checker  *decision.Checker
	access   Access
	opts     *options.Store
	rules    *ruleset.Store
	metrics  http.Handler
	observer Observer
	log      *slog.Logger
	logged   *lograte.Limiter

	domain    string // of check requests that name none
	sources   *attributes.Sources
	proxies   *attributes.Proxies
	forwarded string // header with the address of the client, in canonical form
	format    headers.Format
	hosts     map[string]bool // accepted host names

	endpoints map[string]*path
	openAPI   []byte
	exchanges sync.Pool
	places    places
	draining  atomic.Bool

	created     time.Time
	lastRequest atomic.Int64 // time of the latest request, in nanoseconds after created
	http        http.Server
	front       *http1.Server // in front of http
}

// New returns a Server without listeners. The error names an option with an invalid value.
func New(c Config) (*Server, error) {
	o := c.Options.Get()
	sources, err := attributes.ParseSources(o.EdgeAttributes)
	if err != nil {
		return nil, fmt.Errorf("option edge-attributes: %w", err)
	}
	s := &Server{
		checker: c.Checker, access: c.Access, opts: c.Options, rules: c.Rules, metrics: c.Metrics, observer: c.Observer,
		log: c.Log, logged: lograte.New(linesPerSecond, time.Second),
		domain: o.EdgeDomain, sources: sources, proxies: attributes.NewProxies(o.TrustedProxies), forwarded: textproto.CanonicalMIMEHeaderKey(o.ForwardedHeader),
		format: headers.NewFormat(o.RateLimitHeaders, o.XRateLimitReset), hosts: hostNames(o.HTTPHosts),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.observer == nil {
		s.observer = noObserver{}
	}
	s.created = time.Now()
	s.lastRequest.Store(-int64(quietTime))
	s.endpoints = paths(endpointTable(s.metrics != nil))
	s.openAPI = openAPI(endpointTable(s.metrics != nil), c.Version)
	s.exchanges.New = func() any { return newExchange(c.Trace != nil) }
	s.places.init(c.Access.ClientLimit)
	s.http = http.Server{
		Handler:                      c.traced(s),
		ReadHeaderTimeout:            readHeaderTimeout,
		ReadTimeout:                  readTimeout,
		WriteTimeout:                 writeTimeout,
		IdleTimeout:                  idleTimeout,
		MaxHeaderBytes:               maxHeader,
		DisableGeneralOptionsHandler: true,
		ConnContext:                  withConn,
		ErrorLog:                     slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	s.front = http1.New(&s.http)
	return s, nil
}

// traced returns a handler that traces the requests to next, if requests are traced.
func (c *Config) traced(next http.Handler) http.Handler {
	if c.Trace == nil {
		return next
	}
	return c.Trace(next)
}

// noObserver is the Observer of a server without one.
type noObserver struct{}

func (noObserver) ObserveRequest(string, int, time.Duration) {}

// Serve accepts connections from ln until Shutdown is called, and then returns nil. It may be called for several
// listeners.
func (s *Server) Serve(ln net.Listener) error { return s.serve(ln, nil) }

// ServeTLS is like Serve, for connections with TLS. A PROXY header is not encrypted: it is before the handshake.
func (s *Server) ServeTLS(ln net.Listener, store *tlsserver.Store) error { return s.serve(ln, store) }

func (s *Server) serve(ln net.Listener, store *tlsserver.Store) error {
	if s.opts.Get().HTTPProxyProtocol {
		ln = s.proxied(ln)
	}
	if store != nil {
		ln = store.Listen(ln, tlsserver.HTTP)
	}
	err := s.front.Serve(&listener{Listener: ln, places: &s.places})
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve HTTP: %w", err)
}

// Drain makes gateways use other servers: GET /readyz fails from now on, and each connection is closed after its next
// response. Requests are still served.
func (s *Server) Drain() { s.draining.Store(true) }

// drainTime is the time for which a server with clients serves them before Shutdown. Gateways usually check the health of
// their servers once per second.
const drainTime = time.Second

// AwaitDrained waits for a second after Drain, or until ctx is done, so that gateways can use other servers before Shutdown
// closes the listeners, and so that few connections are idle then: a request that a client sends while its idle connection is
// being closed would fail. It returns as soon as there are no connections, or no request has arrived for a second.
func (s *Server) AwaitDrained(ctx context.Context) { s.awaitQuiet(ctx, drainTime) }

// idleGrace is the time that Shutdown leaves to connections without a request. The response to a request
// within this time contains Connection: close. If the connection were closed immediately, a request that the client has
// already sent would fail.
const idleGrace = time.Second

// quietTime is the time without a request after which all connections count as unused. They are closed without a wait.
const quietTime = time.Second

// awaitQuiet waits until there are no connections, until no request has arrived for quietTime, until most has passed, or until
// ctx is done.
func (s *Server) awaitQuiet(ctx context.Context, most time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for ctx.Err() == nil {
		left := quietTime - (time.Since(s.created) - time.Duration(s.lastRequest.Load()))
		if left <= 0 || s.places.awaitEmpty(ctx, left) {
			return
		}
	}
}

// Shutdown stops accepting connections, and waits until all requests are answered. If a request has arrived in the last second,
// it also waits for the next request on each open connection, for up to a second. When ctx is done, it closes all connections,
// and returns the error of ctx.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Drain()
	s.front.CloseListeners()
	s.awaitQuiet(ctx, idleGrace)
	err := s.front.Shutdown(ctx)
	if err != nil {
		_ = s.front.Close() // its errors are those of closing connections
		return fmt.Errorf("shut down HTTP: %w", err)
	}
	return nil
}

// warn logs a warning, unless the limit of lines with this text is exceeded.
func (s *Server) warn(text string, args ...any) {
	if missed, ok := s.logged.Allow(text, time.Now()); ok {
		if missed > 0 {
			args = append(args, "dropped_lines", missed)
		}
		s.log.Warn(text, args...)
	}
}
