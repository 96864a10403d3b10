package grpcedge

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/edge/decision"
	"github.com/throttledhq/throttled/options"
	"github.com/throttledhq/throttled/rules"
	"github.com/throttledhq/throttled/ruleset"
	"github.com/throttledhq/throttled/server"
)

// lab is a gRPC server with the real rate-limit server behind it.
type lab struct {
	t       testing.TB
	server  *Server
	options *options.Store
	rules   *ruleset.Store
	log     *ruleset.Local
	limiter *server.Server
	config  Config
	ready   atomic.Bool
	now     atomic.Int64 // nanoseconds since 1970, if the time is fixed
	addr    string
}

// start is the time at which the fixed clock starts: 20 seconds after the begin of a minute, an hour and a day.
var start = time.Date(2026, 3, 1, 0, 0, 20, 0, time.UTC)

// newLab starts the servers with a rules file. Their clock does not advance until advance is called.
func newLab(t testing.TB, text string, adapt ...func(*options.Options)) *lab {
	t.Helper()
	l := &lab{t: t, rules: ruleset.NewStore()}
	l.now.Store(start.UnixNano())
	l.ready.Store(true)
	o := options.Default()
	for _, f := range adapt {
		f(&o)
	}
	var err error
	if l.options, err = options.New(o); err != nil {
		t.Fatal(err)
	}
	l.log = ruleset.NewLocal(l.rules, time.Now)
	l.limiter = server.New(server.Config{
		Engine:     buckets.New(buckets.Config{Clock: func() uint64 { return uint64(l.now.Load()) }, Shards: 64}),
		Options:    l.options,
		Rules:      l.rules,
		RulesLog:   l.log,
		RulesClock: func() time.Time { return time.Unix(0, l.now.Load()).UTC() },
	})
	t.Cleanup(func() {
		if err := l.limiter.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if text != "" {
		l.setRules(text)
	}
	l.serve()
	return l
}

// serve starts the gRPC server.
func (l *lab) serve() {
	l.t.Helper()
	checker := decision.New(func() decision.Runner { return l.limiter.NewCaller() })
	l.t.Cleanup(checker.Close)
	c := &l.config
	c.Options, c.Checker, c.Access, c.Ready = l.options.Get(), checker, l.limiter, l.isReady
	c.Rules = func() *rules.Set { return l.rules.Active().Set }
	c.Log = slog.New(slog.DiscardHandler)
	l.serveConfig()
}

// serveConfig starts a gRPC server with l.config, and returns a connection to it.
func (l *lab) serveConfig() *grpc.ClientConn {
	l.t.Helper()
	var err error
	if l.server, err = New(l.config); err != nil {
		l.t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		l.t.Fatal(err)
	}
	l.addr = listener.Addr().String()
	served := make(chan error, 1)
	go func() { served <- l.server.Serve(listener) }()
	l.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := l.server.Shutdown(ctx); err != nil {
			l.t.Error(err)
		}
		if err := <-served; err != nil {
			l.t.Error(err)
		}
	})
	return l.dial()
}

// isReady returns an error if the test has set that the server is not ready.
func (l *lab) isReady() error {
	if !l.ready.Load() {
		return errors.New("not ready")
	}
	return nil
}

// setRules activates a rules file.
func (l *lab) setRules(text string) {
	l.t.Helper()
	if _, err := l.log.Propose(context.Background(), ruleset.Proposal{Text: text, Author: "test"}); err != nil {
		l.t.Fatal(err)
	}
	l.rules.CompileNewest()
}

func (l *lab) advance(d time.Duration) { l.now.Add(int64(d)) }

// dial returns a connection of a client.
func (l *lab) dial(opts ...grpc.DialOption) *grpc.ClientConn {
	l.t.Helper()
	conn, err := grpc.NewClient(l.addr, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (l *lab) client() pb.RateLimitServiceClient { return pb.NewRateLimitServiceClient(l.dial()) }

// request returns a request of a domain.
func request(domain string, descriptors ...*common.RateLimitDescriptor) *pb.RateLimitRequest {
	return &pb.RateLimitRequest{Domain: domain, Descriptors: descriptors}
}

// entries returns a descriptor with keys and values, alternating.
func entries(pairs ...string) *common.RateLimitDescriptor {
	d := &common.RateLimitDescriptor{}
	for i := 0; i < len(pairs); i += 2 {
		d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	return d
}

// hits sets the units of a descriptor. A negative number is a refund.
func hits(d *common.RateLimitDescriptor, n int64) *common.RateLimitDescriptor {
	d.HitsAddend = wrapperspb.UInt64(uint64(max(n, -n)))
	d.IsNegativeHits = n < 0
	return d
}
