package grpcedge

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/throttledhq/throttled/acl"
	"github.com/throttledhq/throttled/edge/decision"
	"github.com/throttledhq/throttled/options"
)

// TestPassword checks which metadata authenticate a call.
func TestPassword(t *testing.T) {
	l := newLab(t, conventionRules, func(o *options.Options) { o.RequirePass, o.AuthFailuresPerMinute = "secret", 1000 })
	client := l.client()
	for _, tt := range []struct {
		metadata []string
		want     codes.Code
	}{
		{nil, codes.Unauthenticated},
		{[]string{"authorization", "Bearer secret"}, codes.OK},
		{[]string{"Authorization", "bearer  secret"}, codes.OK},
		{[]string{"authorization", "Bearer wrong"}, codes.Unauthenticated},
		{[]string{"authorization", "Bearer secre"}, codes.Unauthenticated},
		{[]string{"authorization", "Bearer secret "}, codes.Unauthenticated},
		{[]string{"authorization", "Bearer"}, codes.Unauthenticated},
		{[]string{"authorization", "secret"}, codes.Unauthenticated},
		{[]string{"authorization", "Basic secret"}, codes.Unauthenticated},
		{[]string{"authorization", ""}, codes.Unauthenticated},
		{[]string{"authorization", "Bearer wrong", "authorization", "Bearer secret"}, codes.Unauthenticated},
		{[]string{"password", "secret"}, codes.Unauthenticated},
	} {
		ctx := metadata.AppendToOutgoingContext(context.Background(), tt.metadata...)
		_, err := client.ShouldRateLimit(ctx, request("edge", one("five")))
		if status.Code(err) != tt.want {
			t.Errorf("%q: %v, want %v", tt.metadata, err, tt.want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error %q contains the password", tt.metadata, err)
		}
	}
	if _, err := healthpb.NewHealthClient(l.dial()).Check(context.Background(), &healthpb.HealthCheckRequest{}); err != nil {
		t.Errorf("health check without a password: %v", err)
	}
}

// TestPassword_Failures checks that wrong passwords are limited: the right one is then refused too.
func TestPassword_Failures(t *testing.T) {
	l := newLab(t, conventionRules, func(o *options.Options) { o.RequirePass, o.AuthFailuresPerMinute = "secret", 3 })
	client := l.client()
	ask := func(password string) error {
		ctx := metadata.AppendToOutgoingContext(context.Background(), "authorization", "Bearer "+password)
		_, err := client.ShouldRateLimit(ctx, request("edge", one("five")))
		return err
	}
	for range 3 {
		if err := ask("guess"); !strings.Contains(err.Error(), "wrong password") {
			t.Fatalf("a wrong password: %v", err)
		}
	}
	if err := ask("secret"); status.Code(err) != codes.Unauthenticated || !strings.Contains(err.Error(), "too many wrong passwords") {
		t.Errorf("the password after three failures: %v", err)
	}
}

// TestPassword_OpenConnection checks that wrong passwords from the same address do not affect calls on a connection that has
// authenticated, and that a change of the password does.
func TestPassword_OpenConnection(t *testing.T) {
	l := newLab(t, conventionRules, func(o *options.Options) { o.RequirePass, o.AuthFailuresPerMinute = "secret", 1 })
	gateway, attacker := l.client(), l.client()
	ask := func(client pb.RateLimitServiceClient, password string, want codes.Code) {
		t.Helper()
		ctx := metadata.AppendToOutgoingContext(context.Background(), "authorization", "Bearer "+password)
		if _, err := client.ShouldRateLimit(ctx, request("edge", one("five"))); status.Code(err) != want {
			t.Errorf("password %s: %v, want %v", password, err, want)
		}
	}
	ask(gateway, "secret", codes.OK)
	ask(attacker, "guess", codes.Unauthenticated)
	ask(attacker, "secret", codes.Unauthenticated) // too many failures
	ask(gateway, "secret", codes.OK)
	if err := l.options.Set([]options.Pair{{Name: "requirepass", Value: "other"}}); err != nil {
		t.Fatal(err)
	}
	ask(gateway, "secret", codes.Unauthenticated)
}

// TestHealth checks that the health follows the readiness, for each service and for watchers.
func TestHealth(t *testing.T) {
	l := newLab(t, conventionRules)
	client := healthpb.NewHealthClient(l.dial())
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, name := range healthNames {
		r, err := client.Check(ctx, &healthpb.HealthCheckRequest{Service: name})
		if err != nil || r.GetStatus() != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("service %q: %v, %v; want SERVING", name, r, err)
		}
	}
	if _, err := client.Check(ctx, &healthpb.HealthCheckRequest{Service: "unknown"}); status.Code(err) != codes.NotFound {
		t.Errorf("unknown service: %v, want NotFound", err)
	}
	unknown, err := client.Watch(ctx, &healthpb.HealthCheckRequest{Service: "unknown"})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := unknown.Recv(); err != nil || r.GetStatus() != healthpb.HealthCheckResponse_SERVICE_UNKNOWN {
		t.Errorf("watch of an unknown service: %v, %v", r, err)
	}
	watch, err := client.Watch(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []healthpb.HealthCheckResponse_ServingStatus{1, 2, 1} { // SERVING, NOT_SERVING, SERVING
		r, err := watch.Recv()
		if err != nil || r.GetStatus() != want {
			t.Fatalf("state %d: %v, %v; want %v", i, r, err, want)
		}
		l.ready.Store(i%2 == 1)
	}
}

// TestReflection checks that services for debugging are not served.
func TestReflection(t *testing.T) {
	conn := newLab(t, conventionRules).dial()
	for _, method := range []string{
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
		"/grpc.channelz.v1.Channelz/GetServers", "/debug/pprof/", "/envoy.service.ratelimit.v3.RateLimitService/Other", "/envoy.service.ratelimit.v2.RateLimitService/ShouldRateLimit",
	} {
		err := conn.Invoke(context.Background(), method, &pb.RateLimitRequest{}, &pb.RateLimitResponse{})
		if status.Code(err) != codes.Unimplemented {
			t.Errorf("%s: %v, want Unimplemented", method, err)
		}
	}
}

// protectedAccess is the Access of a server in protected mode, for a client on another host.
type protectedAccess struct{ Access }

func (protectedAccess) Accepts(net.Addr) bool { return false }

// TestProtectedMode checks that clients that are not permitted get an error with the remedy, and can check the health.
func TestProtectedMode(t *testing.T) {
	l := newLab(t, conventionRules)
	l.config.Access = protectedAccess{l.limiter}
	conn := (&lab{t: t, config: l.config}).serveConfig()
	_, err := pb.NewRateLimitServiceClient(conn).ShouldRateLimit(context.Background(), request("edge", one("five")))
	if status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "requirepass") {
		t.Errorf("%v, want PermissionDenied with the remedy", err)
	}
	if _, err := healthpb.NewHealthClient(conn).Check(context.Background(), &healthpb.HealthCheckRequest{}); err != nil {
		t.Errorf("health check: %v", err)
	}
}

// TestConnectionLimit checks that connections are limited by maxclients.
func TestConnectionLimit(t *testing.T) {
	l := newLab(t, conventionRules, func(o *options.Options) { o.MaxClients = 3 })
	// served reports whether the server sends its settings on a new connection.
	served := func() bool {
		conn, err := net.Dial("tcp", l.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_, err = conn.Read(make([]byte, 9))
		return err == nil
	}
	for range 3 {
		if !served() {
			t.Fatal("a permitted connection is closed")
		}
	}
	if served() {
		t.Error("a connection beyond maxclients is served")
	}
}

// TestNew_Options checks the error for an option that is not valid.
func TestNew_Options(t *testing.T) {
	o := options.Default()
	o.EdgeAttributes = []string{"user"}
	if _, err := New(Config{Options: &o}); err == nil || !strings.Contains(err.Error(), "option edge-attributes") {
		t.Errorf("%v, want an error that names the option", err)
	}
}

// TestObserve checks that calls are reported by method and code.
func TestObserve(t *testing.T) {
	type call struct {
		method string
		code   codes.Code
	}
	calls := make(chan call, 3)
	l := newLab(t, conventionRules)
	l.config.Observe = func(method string, code codes.Code, elapsed time.Duration) {
		if elapsed < 0 {
			t.Errorf("elapsed %v", elapsed)
		}
		calls <- call{method, code}
	}
	client := pb.NewRateLimitServiceClient((&lab{t: t, config: l.config}).serveConfig())
	for _, r := range []*pb.RateLimitRequest{request("edge", one("five")), request("")} {
		_, err := client.ShouldRateLimit(context.Background(), r)
		if got, want := <-calls, (call{"RateLimitService/ShouldRateLimit", status.Code(err)}); got != want {
			t.Errorf("observed %v, want %v", got, want)
		}
	}
}

// TestObserve_Refused checks that calls that are refused before they run are reported, and that names of methods that are
// not served are reported as "none".
func TestObserve_Refused(t *testing.T) {
	const served, unknown = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", "/envoy.service.ratelimit.v3.RateLimitService/Made-up"
	protected := func(l *lab) { l.config.Access = protectedAccess{l.limiter} }
	for _, tt := range []struct {
		name, method, password string
		adapt                  func(*lab)
		observed               string
		code                   codes.Code
	}{
		{"no password", served, "", nil, "RateLimitService/ShouldRateLimit", codes.Unauthenticated},
		{"wrong password", served, "Bearer wrong", nil, "RateLimitService/ShouldRateLimit", codes.Unauthenticated},
		{"unknown method", unknown, "Bearer wrong", nil, "none", codes.Unauthenticated},
		{"unknown service", "/a.B/C", "", nil, "none", codes.Unauthenticated},
		{"protected mode", served, "Bearer secret", protected, "RateLimitService/ShouldRateLimit", codes.PermissionDenied},
		{"accepted", served, "Bearer secret", nil, "RateLimitService/ShouldRateLimit", codes.OK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t, conventionRules, func(o *options.Options) { o.RequirePass, o.AuthFailuresPerMinute = "secret", 0 })
			var observed []string
			l.config.Observe = func(method string, code codes.Code, _ time.Duration) {
				observed = append(observed, method+" "+code.String())
			}
			if tt.adapt != nil {
				tt.adapt(l)
			}
			observing := &lab{t: t, config: l.config}
			ctx := metadata.AppendToOutgoingContext(context.Background(), "authorization", tt.password)
			err := observing.serveConfig().Invoke(ctx, tt.method, request("edge", one("five")), &pb.RateLimitResponse{})
			if status.Code(err) != tt.code {
				t.Errorf("%v, want %v", err, tt.code)
			}
			if err := observing.server.Shutdown(context.Background()); err != nil { // calls of Observe have returned
				t.Error(err)
			}
			if want := []string{tt.observed + " " + tt.code.String()}; !slices.Equal(observed, want) {
				t.Errorf("observed %q, want %q", observed, want)
			}
		})
	}
}

// brokenRunner is a Runner that panics or returns errors.
type brokenRunner struct{ reply string }

func (r brokenRunner) Run(_, replies []byte) ([]byte, error) {
	switch r.reply {
	case "panic":
		panic("broken")
	case "":
		return replies, errors.New("broken")
	}
	return append(replies, r.reply...), nil
}

func (brokenRunner) As(acl.Login) {}

func (brokenRunner) Close() {}

// TestStorageErrors checks that requests that cannot be decided are UNAVAILABLE, so that Envoy applies its failure mode.
func TestStorageErrors(t *testing.T) {
	l := newLab(t, conventionRules)
	for _, tt := range []struct {
		reply string
		code  codes.Code
	}{
		{"-LOADING no leader\r\n", codes.Unavailable},
		{"-UNCERTAIN the leader has not answered\r\n", codes.Unavailable},
		{"-OOM memory\r\n", codes.Unavailable},
		{"-BUSY\r\n", codes.Unavailable},
		{"-ERR the attribute 'x' is repeated\r\n", codes.InvalidArgument},
		{":1\r\n", codes.Unavailable},
		{"", codes.Unavailable},
		{"panic", codes.Internal},
	} {
		config := l.config
		config.Checker = decision.New(func() decision.Runner { return brokenRunner{tt.reply} })
		broken := &lab{t: t, config: config}
		conn := broken.serveConfig()
		for _, r := range []*pb.RateLimitRequest{request("edge", one("five")), request("edge", limited(one("five"), 1, 1))} {
			_, err := pb.NewRateLimitServiceClient(conn).ShouldRateLimit(context.Background(), r)
			if status.Code(err) != tt.code {
				t.Errorf("%q: %v, want %v", tt.reply, err, tt.code)
			}
		}
	}
}

// TestUndecidedRefund checks that a request that may have refunded units is not UNAVAILABLE, since gateways repeat such requests.
func TestUndecidedRefund(t *testing.T) {
	l := newLab(t, conventionRules, func(o *options.Options) { o.GRPCNegativeHits = true })
	for reply, code := range map[string]codes.Code{
		"-LOADING no leader\r\n": codes.Unknown, "-UNCERTAIN lost\r\n": codes.Unknown, "": codes.Unknown, "-ERR invalid\r\n": codes.InvalidArgument,
	} {
		config := l.config
		config.Options = l.options.Get()
		config.Checker = decision.New(func() decision.Runner { return brokenRunner{reply} })
		conn := (&lab{t: t, config: config}).serveConfig()
		for _, r := range []*pb.RateLimitRequest{request("edge", hits(one("five"), -1)), request("edge", limited(hits(one("five"), -1), 1, 1))} {
			_, err := pb.NewRateLimitServiceClient(conn).ShouldRateLimit(context.Background(), r)
			if status.Code(err) != code {
				t.Errorf("%q: %v, want %v", reply, err, code)
			}
		}
	}
}

// TestDeadline checks that a request whose deadline has passed is not charged.
func TestDeadline(t *testing.T) {
	l := newLab(t, conventionRules)
	s := &rateLimits{core: l.server.core}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.ShouldRateLimit(ctx, request("edge", one("five"))); status.Code(err) != codes.Canceled {
		t.Errorf("a canceled request: %v", err)
	}
	ctx, cancel = context.WithTimeout(context.Background(), 0)
	defer cancel()
	if _, err := s.ShouldRateLimit(ctx, request("edge", one("five"))); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("a request with the deadline 0: %v", err)
	}
	r, err := l.client().ShouldRateLimit(context.Background(), request("edge", one("five")))
	if err != nil || shown(r) != "OK [OK five 5/MINUTE 4 40s]" {
		t.Errorf("%s, %v; want that nothing was charged before", shown(r), err)
	}
}

// blockingRunner answers when it is released.
type blockingRunner struct{ begun, release chan struct{} }

func (r blockingRunner) Run(_, replies []byte) ([]byte, error) {
	r.begun <- struct{}{}
	<-r.release
	return append(replies, "-ERR released\r\n"...), nil
}

func (blockingRunner) As(acl.Login) {}

func (blockingRunner) Close() {}

// TestShutdown checks that a call that has begun is completed, that watchers of the health are notified, and that new
// calls are refused.
func TestShutdown(t *testing.T) {
	l := newLab(t, conventionRules)
	runner := blockingRunner{make(chan struct{}), make(chan struct{})}
	config := l.config
	config.Checker = decision.New(func() decision.Runner { return runner })
	stopping := &lab{t: t, config: config}
	conn := stopping.serveConfig()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	watch, err := healthpb.NewHealthClient(conn).Watch(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() {
		_, err := pb.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, request("edge", one("five")))
		answered <- err
	}()
	<-runner.begun
	stopped := make(chan error, 1)
	go func() { stopped <- stopping.server.Shutdown(ctx) }()
	if r, err := watch.Recv(); err != nil || r.GetStatus() != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("the watcher received %v, %v; want NOT_SERVING", r, err)
	}
	close(runner.release)
	if err := <-answered; status.Code(err) != codes.InvalidArgument {
		t.Errorf("the call that had begun: %v, want the error of the runner", err)
	}
	if r, err := watch.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the watcher received %v, %v; want the end of the stream", r, err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	_, err = pb.NewRateLimitServiceClient(conn).ShouldRateLimit(context.Background(), request("edge", one("five")))
	if status.Code(err) != codes.Unavailable {
		t.Errorf("a call after the shutdown: %v, want Unavailable", err)
	}
}

// TestMaxConnectionAge checks that an old connection is drained: the client leaves it while a call runs, the call is completed,
// and the next call uses another connection.
func TestMaxConnectionAge(t *testing.T) {
	l := newLab(t, conventionRules)
	runner := blockingRunner{make(chan struct{}), make(chan struct{})}
	config := l.config
	config.MaxConnectionAge = 100 * time.Millisecond
	config.Checker = decision.New(func() decision.Runner { return runner })
	conn := (&lab{t: t, config: config}).serveConfig()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	call := func() (*peer.Peer, error) {
		var p peer.Peer
		_, err := pb.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, request("edge", one("five")), grpc.Peer(&p), grpc.WaitForReady(true))
		return &p, err
	}
	type answer struct {
		peer *peer.Peer
		err  error
	}
	answered := make(chan answer)
	begin := func() {
		p, err := call()
		answered <- answer{p, err}
	}
	go begin()
	<-runner.begun
	// A connection becomes idle when GOAWAY is received. Waiting for the end of Ready is not enough: a call can begin before
	// the state becomes Ready.
	for state := conn.GetState(); state != connectivity.Idle; state = conn.GetState() {
		if !conn.WaitForStateChange(ctx, state) {
			t.Fatal("the connection is not drained")
		}
	}
	go begin()
	<-runner.begun
	close(runner.release)
	var local [2]string
	for i := range local {
		a := <-answered
		if status.Code(a.err) != codes.InvalidArgument {
			t.Errorf("a call: %v, want the error of the runner", a.err)
		}
		local[i] = a.peer.LocalAddr.String()
	}
	if local[0] == local[1] {
		t.Errorf("both calls used the connection from %s", local[0])
	}
}

// Methods of different services have different names.
func TestMethodName(t *testing.T) {
	for full, want := range map[string]string{
		"/envoy.service.auth.v3.Authorization/Check": "Authorization/Check",
		"/grpc.health.v1.Health/Check":               "Health/Check",
		"/Health/Watch":                              "Health/Watch",
	} {
		if got := methodName(full); got != want {
			t.Errorf("%s: %s, want %s", full, got, want)
		}
	}
}
