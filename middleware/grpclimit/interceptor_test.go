package grpclimit

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/throttledhq/throttled/middleware"
	"github.com/throttledhq/throttled/middleware/internal/testserver"
)

// patience is the timeout for expected events.
const patience = 2 * time.Minute

// program is the path of the server that TestMain has built.
var program string

const rules = `
version: 1
domain: shop
limits:
  check:
    when: {path: /grpc.health.v1.Health/Check, method: POST, ip: 127.0.0.1}
    per: tenant
    allow: 2 per hour
  watch:
    when: {path: /grpc.health.v1.Health/Watch}
    per: ip
    algorithm: leaky
    allow: 2 per hour
`

func TestMain(m *testing.M) { os.Exit(testserver.Main(m, &program)) }

// newLimiter returns a limiter that uses a new server.
func newLimiter(t testing.TB) *middleware.Limiter {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: testserver.Start(t, program, rules).Addr})
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return middleware.New(client, middleware.Config{Timeout: patience})
}

// dial starts a gRPC server with the health service, and returns a client of it.
func dial(t testing.TB, l *middleware.Limiter, request RequestFunc, options ...grpc.DialOption) grpc_health_v1.HealthClient {
	t.Helper()
	srv := grpc.NewServer(grpc.UnaryInterceptor(Unary(l, request)), grpc.StreamInterceptor(Stream(l, request)))
	grpc_health_v1.RegisterHealthServer(srv, health.NewServer())
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))
	conn, err := grpc.NewClient(ln.Addr().String(), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		srv.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return grpc_health_v1.NewHealthClient(conn)
}

// retryDelay returns the delay in the RetryInfo of a status error, or -1 if there is none.
func retryDelay(err error) time.Duration {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			return info.GetRetryDelay().AsDuration()
		}
	}
	return -1
}

func TestUnary_RulesOfTheServer(t *testing.T) {
	tenant := func(context.Context) middleware.Attribute {
		return middleware.Attribute{Name: "tenant", Value: t.Name()}
	}
	client := dial(t, newLimiter(t), Rules("shop", tenant))
	for range 2 {
		if _, err := client.Check(t.Context(), nil); err != nil {
			t.Error(err)
		}
	}
	var trailer metadata.MD
	_, err := client.Check(t.Context(), nil, grpc.Trailer(&trailer))
	if delay := retryDelay(err); status.Code(err) != codes.ResourceExhausted || delay < 29*time.Minute || delay > 30*time.Minute {
		t.Errorf("refused: %v, retry after %v", err, delay)
	}
	pushback := trailer.Get("grpc-retry-pushback-ms")
	if len(pushback) != 1 || pushback[0] != strconv.FormatInt(retryDelay(err).Milliseconds(), 10) {
		t.Errorf("trailer: %v", trailer)
	}
}

func TestStream(t *testing.T) {
	client := dial(t, newLimiter(t), PerPeer(middleware.Limit{Name: t.Name(), Count: 1, Period: time.Hour}))
	watch := func() error {
		stream, err := client.Watch(t.Context(), nil)
		if err != nil {
			return err
		}
		_, err = stream.Recv()
		return err
	}
	if err := watch(); err != nil {
		t.Error(err)
	}
	if err := watch(); status.Code(err) != codes.ResourceExhausted || retryDelay(err) <= 0 {
		t.Errorf("refused: %v", err)
	}
}

// TestStream_LeakyBucket checks that a call which would have to wait for longer than its deadline fails.
func TestStream_LeakyBucket(t *testing.T) {
	client := dial(t, newLimiter(t), Rules("shop"))
	for i, code := range []codes.Code{codes.OK, codes.DeadlineExceeded} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		stream, err := client.Watch(ctx, nil)
		if err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != code || ctx.Err() != nil {
			t.Errorf("call %d: %v, want %v", i, err, code)
		}
	}
}

// TestUnary_RetryPolicy checks that a client with a retry policy succeeds, because the trailer makes it wait.
func TestUnary_RetryPolicy(t *testing.T) {
	policy := grpc.WithDefaultServiceConfig(`{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 3,
		"initialBackoff": "300s", "maxBackoff": "300s", "backoffMultiplier": 1, "retryableStatusCodes": ["RESOURCE_EXHAUSTED"]}}]}`)
	client := dial(t, newLimiter(t), PerPeer(middleware.Limit{Name: t.Name(), Count: 10, Period: time.Second, Burst: 1}), policy)
	began := time.Now()
	for range 5 {
		if _, err := client.Check(t.Context(), nil); err != nil {
			t.Error(err)
		}
	}
	if took := time.Since(began); took < 400*time.Millisecond || took > patience {
		t.Errorf("5 calls took %v", took)
	}
}

type closedClient struct{}

// Do implements middleware.Client.
func (closedClient) Do(ctx context.Context, args ...any) *redis.Cmd {
	cmd := redis.NewCmd(ctx, args...)
	cmd.SetErr(net.ErrClosed)
	return cmd
}

func TestUnary_OtherDecisions(t *testing.T) {
	limit := middleware.Limit{Key: t.Name(), Count: 1, Period: time.Hour}
	down := func(policy middleware.Policy) *middleware.Limiter {
		return middleware.New(closedClient{}, middleware.Config{OnFailure: policy})
	}
	for _, c := range []struct {
		name    string
		limiter *middleware.Limiter
		request middleware.Request
		code    codes.Code
		delay   time.Duration
	}{
		{"exempt", down(middleware.Closed), middleware.Request{}, codes.OK, -1},
		{"open", down(middleware.Open), middleware.Request{Domain: "shop"}, codes.OK, -1},
		{"closed", down(middleware.Closed), middleware.Request{Domain: "shop"}, codes.Unavailable, time.Second},
		{"never admitted", newLimiter(t), middleware.Request{Limits: []middleware.Limit{limit}, Cost: 2}, codes.ResourceExhausted, -1},
	} {
		client := dial(t, c.limiter, func(context.Context, string) middleware.Request { return c.request })
		_, err := client.Check(t.Context(), nil)
		if status.Code(err) != c.code || retryDelay(err) != c.delay {
			t.Errorf("%s: %v, retry after %v", c.name, err, retryDelay(err))
		}
	}
}

// TestUnary_Canceled checks that a canceled call is not served.
func TestUnary_Canceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	interceptor := Unary(newLimiter(t), PerPeer(middleware.PerHour(1000)))
	_, err := interceptor(ctx, nil, &grpc.UnaryServerInfo{FullMethod: "/m"}, func(context.Context, any) (any, error) {
		return nil, errors.New("served")
	})
	if status.Code(err) != codes.Canceled {
		t.Errorf("got %v", err)
	}
}

func TestPeerAddr(t *testing.T) {
	for _, c := range []struct {
		addr net.Addr
		want string
	}{
		{&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 5}, "192.0.2.1"},
		{&net.TCPAddr{IP: net.ParseIP("2001:db8::1"), Port: 5, Zone: "eth0"}, "2001:db8::1"},
		{&net.UnixAddr{Name: "@socket"}, "invalid IP"},
		{nil, "invalid IP"},
	} {
		if got := PeerAddr(peer.NewContext(t.Context(), &peer.Peer{Addr: c.addr})).String(); got != c.want {
			t.Errorf("%v: got %s, want %s", c.addr, got, c.want)
		}
	}
	if addr := PeerAddr(t.Context()); addr != (netip.Addr{}) {
		t.Errorf("no peer: %v", addr)
	}
}

func TestRules_Request(t *testing.T) {
	ctx := peer.NewContext(t.Context(), &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}})
	got := Rules("shop")(ctx, "/shop.Orders/Create").Attributes
	want := []middleware.Attribute{{Name: "method", Value: "POST"}, {Name: "path", Value: "/shop.Orders/Create"}, {Name: "ip", Value: "192.0.2.1"}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}
