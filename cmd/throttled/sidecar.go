package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/lessee"
	"github.com/throttledhq/throttled/options"
	"github.com/throttledhq/throttled/ruleset"
	"github.com/throttledhq/throttled/server"
	"github.com/throttledhq/throttled/sidecar"
)

var errSidecarState = errors.New("a sidecar holds no state")

// openSidecar opens an engine that forwards all requests to the upstream. The table of the program remains empty.
func (p *program) openSidecar(o *options.Options, config *server.Config) error {
	credentials := sidecar.Credentials{
		User: o.UpstreamUser, PasswordFile: o.UpstreamPasswordFile,
		TLS: o.UpstreamTLS, CACertFile: o.UpstreamTLSCACertFile, CertFile: o.UpstreamTLSCertFile, KeyFile: o.UpstreamTLSKeyFile, ServerName: o.UpstreamTLSServerName,
	}
	if err := credentials.Check(); err != nil {
		return fileError(fmt.Errorf("option upstream: %w", err))
	}
	p.storeErr = errSidecarState
	p.table = buckets.New(buckets.Config{MaxMemory: localMemory, Shards: localShards})
	if o.UpstreamLeases != "off" {
		p.leases = sidecar.NewLeases(lessee.Config{Lessee: cmp.Or(o.UpstreamLessee, newLessee()), Hold: o.UpstreamLease, Relaxed: o.UpstreamLeases == "relaxed"})
	}
	p.upstream = sidecar.New(sidecar.Config{Addresses: o.Upstream, Credentials: credentials, Timeout: o.UpstreamTimeout, Leases: p.leases, Log: p.log})
	engine := sidecar.Engine{}
	if p.leases != nil {
		engine.Decider = p.leases
	}
	config.Engine = engine
	config.Sidecar, config.UpstreamTimeout = p.upstream, o.UpstreamTimeout
	config.Local = newLocalTable()
	return nil
}

// followRules keeps the rules of a sidecar equal to those of its upstream, until ctx is done.
func followRules(ctx context.Context, u *sidecar.Upstream, store *ruleset.Store, log *slog.Logger) {
	commands := &sidecar.Commands{Upstream: u}
	defer commands.Close()
	r := sidecar.Rules{Commands: commands, Store: store, Log: log}
	r.Run(ctx)
}

// newLessee returns a name that differs from those of other sidecars.
func newLessee() string { return "sidecar-" + rand.Text()[:16] }

// newLocalTable returns the table for limits with on_failure: local.
func newLocalTable() *buckets.Table {
	return buckets.New(buckets.Config{MaxMemory: localMemory, Eviction: buckets.EvictSmallestDebt, Shards: localShards})
}
