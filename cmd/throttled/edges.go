package main

import (
	"context"
	"errors"
	"net"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/throttledhq/throttled/edge"
	"github.com/throttledhq/throttled/edge/decision"
	grpcedge "github.com/throttledhq/throttled/edge/grpc"
	"github.com/throttledhq/throttled/internal/tlsserver"
	"github.com/throttledhq/throttled/options"
	"github.com/throttledhq/throttled/rules"
	"github.com/throttledhq/throttled/tracing"
)

// edges holds the servers for other protocols than that of Redis. They decide requests by commands of the server for Redis
// clients.
type edges struct {
	checker *decision.Checker
	http    *edge.Server     // nil if http-port and tls-http-port are 0
	grpc    *grpcedge.Server // nil if grpc-port and tls-grpc-port are 0
	traces  *tracing.Provider
}

// listenEdges binds the addresses of the HTTP and gRPC servers.
func (p *program) listenEdges(o *options.Options) error {
	return errors.Join(
		p.bindIf("http-port", o.HTTPPort, o.Bind, p.whenReady("http-port", o, func(ln net.Listener) error { return p.edges.http.Serve(ln) })),
		p.bindIf("grpc-port", o.GRPCPort, o.Bind, p.whenReady("grpc-port", o, func(ln net.Listener) error { return p.edges.grpc.Serve(ln) })),
		p.bindIf("tls-http-port", o.TLSHTTPPort, o.Bind, p.whenReady("tls-http-port", o, func(ln net.Listener) error { return p.edges.http.ServeTLS(ln, p.tls) })),
		p.bindIf("tls-grpc-port", o.TLSGRPCPort, o.Bind, p.whenReady("tls-grpc-port", o, func(ln net.Listener) error {
			return p.edges.grpc.Serve(p.tls.Listen(ln, tlsserver.GRPC))
		})))
}

// readyPatience returns the maximum time for which a node of a cluster refuses connections of gateways after its start: ten
// heartbeats, which are enough for several elections. A node that finds no leader within it decides by on_failure.
func readyPatience(o *options.Options) time.Duration { return max(3*time.Second, 10*o.RaftHeartbeat) }

// whenReady returns a serveFunc that makes a node of a cluster refuse connections until it is ready: the connections of
// gateways and gRPC clients are then made to other nodes. If the node accepted them, it could decide their first requests
// only by on_failure, or would lack the rules.
//
// Most errors of the address have been reported already, since the listener was bound. The others name the option of the port.
func (*program) whenReady(option string, o *options.Options, serve func(net.Listener) error) serveFunc {
	return func(ctx context.Context, p *program, ln net.Listener) error {
		if o.ClusterID == "" {
			return serve(ln)
		}
		_ = ln.Close() // nothing was accepted
		patient, cancel := context.WithTimeout(ctx, readyPatience(o))
		p.awaitReady(patient)
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		ln, err := listenTCP(ln.Addr().String(), o.ClientReceiveBuffer)
		if err != nil {
			return wrongAddress(option, err)
		}
		return serve(ln)
	}
}

// awaitReady waits until requests can be decided, or until ctx is done. It reports whether requests can be decided.
func (p *program) awaitReady(ctx context.Context) bool {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for p.server.Ready() != nil {
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
	}
	return true
}

// openEdges creates the HTTP and gRPC servers. The server for Redis clients and the metrics must exist.
func (p *program) openEdges(o *options.Options) (err error) {
	p.edges.traces, err = tracing.Start(tracing.Config{
		Endpoint: o.OTLPEndpoint, Percent: o.OTLPSamplePercent, Version: version, Node: o.NodeID, Log: p.log,
	})
	if err != nil {
		return wrongUsage("option %w", err) // the error begins with the name of the option
	}
	p.edges.checker = decision.New(func() decision.Runner { return p.server.NewCaller() })
	return errors.Join(p.openHTTP(o), p.openGRPC(o))
}

func (p *program) openHTTP(o *options.Options) (err error) {
	if o.HTTPPort == 0 && o.TLSHTTPPort == 0 {
		return nil
	}
	config := edge.Config{
		Checker:  p.edges.checker,
		Access:   p.server,
		Options:  p.opts,
		Rules:    p.rules,
		Metrics:  p.metrics.Handler(),
		Observer: p.metrics.HTTP(),
		Log:      p.log,
		Version:  version,
	}
	if p.edges.traces != nil {
		config.Trace = p.edges.traces.HTTP
	}
	p.edges.http, err = edge.New(config)
	return err
}

func (p *program) openGRPC(o *options.Options) (err error) {
	if o.GRPCPort == 0 && o.TLSGRPCPort == 0 {
		return nil
	}
	observe := p.metrics.GRPC().ObserveRequest
	p.edges.grpc, err = grpcedge.New(grpcedge.Config{
		Options: o,
		Checker: p.edges.checker,
		Rules:   func() *rules.Set { return p.rules.Active().Set },
		Access:  p.server,
		Ready:   p.server.Ready,
		Observe: func(method string, code codes.Code, took time.Duration) { observe(method, int(code), took) },
		Trace:   p.edges.traces.GRPC(),
		Log:     p.log,
	})
	return err
}

// drain makes clients use other nodes, before this one stops.
func (e *edges) drain() {
	if e.http != nil {
		e.http.Drain()
	}
	if e.grpc != nil {
		e.grpc.Drain()
	}
}

// sendTraces is the time for sending the last traces.
const sendTraces = 2 * time.Second

// shutdown waits until the requests that have begun are answered. Traces that cannot be sent are no reason to fail.
func (e *edges) shutdown(ctx context.Context) (err error) {
	if e.http != nil {
		e.http.AwaitDrained(ctx)
		err = e.http.Shutdown(ctx)
	}
	if e.grpc != nil {
		err = errors.Join(err, e.grpc.Shutdown(ctx))
	}
	if e.checker != nil && err == nil {
		e.checker.Close()
	}
	ctx, cancel := context.WithTimeout(ctx, sendTraces)
	defer cancel()
	_ = e.traces.Close(ctx)
	return err
}
