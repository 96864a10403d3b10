package grpcedge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	"github.com/throttledhq/throttled/edge/attributes"
	"github.com/throttledhq/throttled/edge/decision"
	"github.com/throttledhq/throttled/edge/headers"
	"github.com/throttledhq/throttled/internal/lograte"
	"github.com/throttledhq/throttled/rules"
)

// Config contains the parts of the program that a Server uses. All fields are required, except those marked as optional.
type Config struct {
	Checker  *decision.Checker
	Rules    func() *rules.Set // returns the active rules, or nil if there are none
	Settings Settings
	Access   Access
	Ready    func() error // returns nil if requests can be decided, otherwise the reason; it is called every second
	Log      *slog.Logger
	// Observe is called after each call of a method that has run. The name of the method is that in the protocol, such as
	// "ShouldRateLimit". Optional.
	Observe func(method string, code codes.Code, elapsed time.Duration)
}

// Settings are the options of the server.
type Settings struct {
	// Of the rate limit service.

	NegativeHits    bool // accept is_negative_hits
	Headers         bool // responses have headers for the client
	DynamicMetadata bool // responses have dynamic metadata

	// Of authorization requests.

	Domain  string // of requests whose route names none; "" if there is none
	Proxies *attributes.Proxies
	Sources *attributes.Sources
	Format  headers.Format
}

// Access decides which clients may connect and call methods. A server.Server is an Access.
type Access interface {
	// Accepts reports whether a client with the address may connect.
	Accepts(addr net.Addr) bool
	// Authenticate returns an error unless the password is right or none is required.
	Authenticate(addr net.Addr, password []byte) error
}

// Limits of the server. Envoy needs a small part of them.
const (
	maxMessage     = 64 << 10
	maxHeaders     = 16 << 10 // bytes of the headers of a call
	maxStreams     = 250      // concurrent calls of a connection
	maxConnections = 1024
	maxPerSource   = maxConnections / 4 // connections from one address

	// streamWorkers is the number of goroutines that run calls. They keep their grown stacks. Further concurrent calls have
	// goroutines of their own.
	streamWorkers = 64

	handshakeTimeout = 5 * time.Second
	// maxAge is the time after which a connection is asked to end, so that clients spread over the nodes again.
	maxAge      = 5 * time.Minute
	maxAgeGrace = 10 * time.Second
	maxIdle     = 10 * time.Minute
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
	lines *lograte.Limiter
}

// New returns a Server. It must be stopped with Shutdown.
func New(config Config) *Server {
	c := &core{Config: config, lines: lograte.New(1, 10*time.Second)}
	s := &Server{grpc: grpc.NewServer(c.options()...), core: c, health: newHealth(config.Ready)}
	pb.RegisterRateLimitServiceServer(s.grpc, &rateLimits{core: c})
	auth.RegisterAuthorizationServer(s.grpc, &authorization{core: c})
	healthpb.RegisterHealthServer(s.grpc, s.health)
	return s
}

// options returns the options of the gRPC server. The transport is not encrypted, as that of the Redis protocol.
func (c *core) options() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.InTapHandle(c.authenticate),
		grpc.UnaryInterceptor(c.intercept),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxHeaderListSize(maxHeaders),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: maxIdle, MaxConnectionAge: maxAge, MaxConnectionAgeGrace: maxAgeGrace, Time: pingAfter, Timeout: pingTimeout,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}),
		grpc.NumStreamWorkers(streamWorkers),
	}
}

// Serve accepts connections until Shutdown is called, and then returns nil. It closes the listener.
func (s *Server) Serve(l net.Listener) error {
	err := s.grpc.Serve(newListener(l, s.core.Access.Accepts, s.core.warn))
	if errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return err
}

// Shutdown stops the server gracefully: health checks report NOT_SERVING, clients are asked to use other connections,
// and calls that have begun are completed. When ctx is done, Shutdown aborts them and returns the error of ctx.
func (s *Server) Shutdown(ctx context.Context) error {
	s.health.stop()
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
