package main

import (
	"context"
	"errors"
	"net"

	"github.com/throttledhq/throttled/edge"
	"github.com/throttledhq/throttled/edge/decision"
	"github.com/throttledhq/throttled/options"
)

// edges holds the servers for other protocols than that of Redis. They decide requests by commands of the server for Redis
// clients.
type edges struct {
	checker *decision.Checker
	http    *edge.Server // nil if http-port is 0
}

// listenEdges binds the addresses of the HTTP server.
func (p *program) listenEdges(o *options.Options) error {
	return p.bindIf(o.HTTPPort, o.Bind, func(p *program, ln net.Listener) error { return p.edges.http.Serve(ln) })
}

// openEdges creates the servers. The server for Redis clients must exist.
func (p *program) openEdges(o *options.Options) (err error) {
	p.edges.checker = decision.New(func() decision.Runner { return p.server.NewCaller() })
	if o.HTTPPort == 0 {
		return nil
	}
	p.edges.http, err = edge.New(edge.Config{
		Options: o,
		Checker: p.edges.checker,
		Access:  p.server,
		Ready:   p.server.Ready,
		Rules:   p.activeRules,
		Log:     p.log,
	})
	return err
}

// activeRules returns the version and the text of the active rules.
func (p *program) activeRules() (version uint64, text []byte, err error) {
	active := p.rules.Active()
	if active.Err != nil || active.Set == nil {
		return 0, nil, active.Err
	}
	_, t, err := p.rules.Text(active.Version)
	return active.Version, []byte(t), err
}

// drain makes clients use other nodes, before this one stops.
func (e *edges) drain() {
	if e.http != nil {
		e.http.Drain()
	}
}

// shutdown waits until the requests that have begun are answered.
func (e *edges) shutdown(ctx context.Context) (err error) {
	if e.http != nil {
		err = errors.Join(err, e.http.Shutdown(ctx))
	}
	return err
}
