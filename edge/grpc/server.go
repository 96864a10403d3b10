package grpcedge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/textproto"
	"time"

	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/stats"

	"github.com/throttledhq/throttled/acl"
	"github.com/throttledhq/throttled/edge/attributes"
	"github.com/throttledhq/throttled/edge/decision"
	"github.com/throttledhq/throttled/edge/headers"
	"github.com/throttledhq/throttled/internal/connlimit"
	"github.com/throttledhq/throttled/internal/lograte"
	"github.com/throttledhq/throttled/options"
	"github.com/throttledhq/throttled/rules"
)

// Config contains the parts of the program that a Server uses. All fields are required, except those marked as optional.
type Config struct {
	Options *options.Options // at the start of the program
	Checker *decision.Checker
	Rules   func() *rules.Set // returns the active rules, or nil if there are none
	Access  Access
	Ready   func() error // returns nil if requests can be decided, otherwise the reason; it is called every second
	Log     *slog.Logger
	// Observe is called after each call of a method that has run, and for each call that is refused before it runs. The name
	// of the method is such as "RateLimitService/ShouldRateLimit". It is "none" if a refused call names no method of the
	// server. Optional.
	Observe func(method string, code codes.Code, elapsed time.Duration)
	// Trace makes the spans of calls. Optional.
	Trace stats.Handler
	// MaxConnectionAge is the time after which a connection is drained: the client is asked to use another one, and its
	// running calls are completed. Clients spread over the nodes again in this way. Zero means 5 minutes.
	MaxConnectionAge time.Duration
}

// Access decides which clients may call methods. A server.Server is an Access.
type Access interface {
	// Accepts reports whether a client with the address may call methods.
	Accepts(addr net.Addr) bool
	// Authenticate returns the login of a user if the password is right. Without the name of a user, the password is a token,
	// see acl.Set.SplitToken.
	Authenticate(addr net.Addr, user, password []byte) (acl.Login, error)
	// CertificateUser returns the login of a client without a password whose verified certificate has this common name, which
	// may be empty. ok is false if certificates of this name have no user.
	CertificateUser(commonName string) (login acl.Login, ok bool)
	// MayCheck reports whether the user of a login may run CL.CHECK in a domain.
	MayCheck(login acl.Login, domain string) bool
	// RequiresPassword reports whether a password is required.
	RequiresPassword() bool
	// Users returns the current users. After each change it returns another pointer.
	Users() *acl.Set
	// ClientLimit returns the maximum number of connections.
	ClientLimit() int
}

// Limits of the server. Envoy needs a small part of them.
const (
	// maxMessage is larger than the headers of a request to Envoy, from which several values of a message can come:
	// otherwise a client could cause errors by large headers, after which Envoy admits its requests.
	maxMessage = 256 << 10
	maxHeaders = 16 << 10 // bytes of the headers of a call
	maxStreams = 250      // concurrent calls of a connection
	readBuffer = 8 << 10  // bytes of each connection, also of an idle one

	// window is the number of bytes of messages that a connection and each of its calls may have in flight. With a constant
	// window, grpc-go does not measure the bandwidth: otherwise nearly every call of a connection with a moderate load causes
	// a ping, which both sides have to answer and to schedule.
	window = maxMessage

	// streamWorkers is the number of goroutines that run calls. They keep their grown stacks. Further concurrent calls have
	// goroutines of their own.
	streamWorkers = 64

	handshakeTimeout = 5 * time.Second
	maxAge           = 5 * time.Minute // the default of Config.MaxConnectionAge
	maxAgeGrace      = 10 * time.Second
	maxIdle          = 10 * time.Minute
	// minPing is the minimum interval between pings of a client. Clients that send more are disconnected.
	minPing     = 5 * time.Second
	pingAfter   = 30 * time.Second // without data from the client
	pingTimeout = 10 * time.Second
)

// Server serves the gRPC interfaces. Its methods may be called concurrently.
type Server struct {
	grpc   *grpc.Server
	health *healthService
	core   *core
}

// core is the state that the services share.
type core struct {
	Config
	sources   *attributes.Sources
	proxies   *attributes.Proxies
	forwarded string // header with the address of the client, in canonical form
	format    headers.Format
	lines     *lograte.Limiter
	// methods has the full names of the methods that are served. It does not change after New.
	methods map[string]bool
}

// New returns a Server. It must be stopped with Shutdown. The error names an option that is not valid.
func New(config Config) (*Server, error) {
	o := config.Options
	sources, err := attributes.ParseSources(o.EdgeAttributes)
	if err != nil {
		return nil, fmt.Errorf("option edge-attributes: %w", err)
	}
	c := &core{
		Config:    config,
		sources:   sources,
		proxies:   attributes.NewProxies(o.TrustedProxies),
		forwarded: textproto.CanonicalMIMEHeaderKey(o.ForwardedHeader),
		format:    headers.NewFormat(o.RateLimitHeaders, o.XRateLimitReset),
		lines:     lograte.New(1, 10*time.Second),
	}
	s := &Server{grpc: grpc.NewServer(c.options()...), core: c, health: newHealth(config.Ready)}
	pb.RegisterRateLimitServiceServer(s.grpc, &rateLimits{core: c})
	auth.RegisterAuthorizationServer(s.grpc, &authorization{core: c})
	healthpb.RegisterHealthServer(s.grpc, s.health)
	c.methods = fullNames(s.grpc.GetServiceInfo())
	return s, nil
}

// fullNames returns the full names of the methods of services, such as "/grpc.health.v1.Health/Check".
func fullNames(services map[string]grpc.ServiceInfo) map[string]bool {
	names := make(map[string]bool)
	for service, info := range services {
		for _, m := range info.Methods {
			names["/"+service+"/"+m.Name] = true
		}
	}
	return names
}

// options returns the options of the gRPC server.
func (c *core) options() []grpc.ServerOption {
	list := []grpc.ServerOption{
		grpc.Creds(transportCredentials{}),
		grpc.InTapHandle(c.admit),
		grpc.UnaryInterceptor(c.intercept),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxHeaderListSize(maxHeaders),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: maxIdle, MaxConnectionAge: cmp.Or(c.MaxConnectionAge, maxAge), MaxConnectionAgeGrace: maxAgeGrace, Time: pingAfter, Timeout: pingTimeout,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}),
		grpc.NumStreamWorkers(streamWorkers),
		grpc.ReadBufferSize(readBuffer),
		grpc.StaticStreamWindowSize(window),
		grpc.StaticConnWindowSize(window),
	}
	if c.Trace != nil {
		list = append(list, grpc.StatsHandler(c.Trace))
	}
	return list
}

// Serve accepts connections until Shutdown is called, and then returns nil. It closes the listener. It may be called for
// several listeners.
//
// Connections of a listener of a tlsserver.Store use TLS.
func (s *Server) Serve(l net.Listener) error {
	err := s.grpc.Serve(addresses{connlimit.New(l, s.core.Access.ClientLimit(), s.refusedConnection)})
	if errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return err
}

func (s *Server) refusedConnection(addr net.Addr) {
	s.core.warn("connections", "gRPC connection refused: too many connections", "addr", addr)
}

// Drain prepares for Shutdown: health checks report NOT_SERVING, so that clients use other nodes. Calls are still served.
func (s *Server) Drain() { s.health.stop() }

// Shutdown stops the server gracefully: it closes the listeners, asks clients to use other connections, and completes the
// calls that have begun. When ctx is done, Shutdown aborts them and returns the error of ctx.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Drain()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.grpc.GracefulStop()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		s.grpc.Stop()
		<-done
		return fmt.Errorf("stop the gRPC server: %w", ctx.Err())
	}
}

// warn logs a warning, at most once in ten seconds for each name.
func (c *core) warn(name, message string, args ...any) {
	if missed, ok := c.lines.Allow(name, time.Now()); ok {
		if missed > 0 {
			args = append(args, "repeated", missed)
		}
		c.Log.Warn(message, args...)
	}
}
