package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/throttledhq/throttled/tests/bench/loadgen"
)

// edgeServers are the addresses of the servers under test and of their peers.
type edgeServers struct {
	process    *process
	http, grpc string
	peers      *edgePeers
}

// edges measures the HTTP and gRPC servers, next to throttlecrab and to envoyproxy/ratelimit with Redis.
func edges(s settings, b *board) (err error) {
	e, err := startEdges(b)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.stop()) }()
	b.note("%d keys, the load generator uses one thread of the same machine; medians of %d rounds of %v", edgeKeys, s.rounds, edgeTime)
	return errors.Join(e.compareHTTP(s, b), e.compareGRPC(s, b), e.serveUnderAttack(s, b))
}

func startEdges(b *board) (*edgeServers, error) {
	addrs, err := freeAddrs(2)
	if err != nil {
		return nil, err
	}
	e := &edgeServers{http: addrs[0], grpc: addrs[1]}
	if e.peers, err = startEdgePeers(b); err != nil {
		return nil, err
	}
	rules := filepath.Join(e.peers.dir, "rules.yaml")
	if err = os.WriteFile(rules, []byte(edgeRules), 0o600); err == nil {
		e.process, err = startServer("--rules", rules, "--http-port", portOf(e.http), "--grpc-port", portOf(e.grpc),
			"--edge-attributes", "user=verified:header:X-User")
	}
	if err != nil {
		return nil, errors.Join(err, e.peers.stop())
	}
	return e, nil
}

func (e *edgeServers) stop() error { return errors.Join(e.process.stop(), e.peers.stop()) }

// inTurn measures targets in alternating rounds, so that temporary load on the machine does not affect only one of them.
// A rate of 0 is a closed loop.
func inTurn(targets []target, rate float64, rounds int) ([][]*loadgen.Result, error) {
	results := make([][]*loadgen.Result, len(targets))
	for range rounds {
		for i, t := range targets {
			r, err := t.run(rate, edgeTime)
			if err != nil {
				return nil, err
			}
			results[i] = append(results[i], r)
		}
	}
	return results, nil
}

// closedLoops prints the rates of targets in a closed loop, and returns them.
func (b *board) closedLoops(targets []target, rounds int) ([]float64, error) {
	results, err := inTurn(targets, 0, rounds)
	if err != nil {
		return nil, err
	}
	rates := make([]float64, len(targets))
	for i, t := range targets {
		rates[i] = median(results[i], (*loadgen.Result).PerSecond)
		b.note("%-34s %8.0f req/s   p50 %.3f p99 %.3f ms   (%d connections, %d streams; the generator used %.0f %% of a core)", t.name, rates[i],
			percentile(results[i], 50), percentile(results[i], 99), t.load.Conns, t.load.Streams, 100*generatorShare(results[i]))
	}
	return rates, nil
}

// openLoops prints the latencies of targets in an open loop, and returns p99 in milliseconds.
func (b *board) openLoops(targets []target, rate float64, rounds int) ([]float64, error) {
	results, err := inTurn(targets, rate, rounds)
	if err != nil {
		return nil, err
	}
	p99 := make([]float64, len(targets))
	for i, t := range targets {
		p99[i] = percentile(results[i], 99)
		late := median(results[i], func(r *loadgen.Result) float64 { return float64(r.Late.Milliseconds()) })
		b.note("%-34s %8.0f req/s   p50 %.3f p99 %.3f p99.9 %.3f ms, sent up to %.0f ms late", t.name, rate,
			percentile(results[i], 50), p99[i], percentile(results[i], 99.9), late)
	}
	return p99, nil
}

func percentile(results []*loadgen.Result, p float64) float64 {
	return median(results, func(r *loadgen.Result) float64 { return r.Percentile(p) })
}

func generatorShare(results []*loadgen.Result) float64 {
	return median(results, func(r *loadgen.Result) float64 { return r.CPU.Seconds() / (r.Elapsed + edgeWarmup).Seconds() })
}

// Bars of the HTTP server.
const (
	checksPerSecond = 40_000
	checkP99        = 5 // ms at servedRate
	crabRatio       = 0.6
)

func (e *edgeServers) compareHTTP(s settings, b *board) error {
	targets := []target{
		httpTarget("GET /check/traefik", e.http, traefikCheck),
		httpTarget("POST /v1/throttle", e.http, throttleCall("/v1/throttle")),
	}
	if e.peers.crabHTTP != "" {
		targets = append(targets, httpTarget("throttlecrab, POST /throttle", e.peers.crabHTTP, throttleCall("/throttle")))
	}
	rates, err := b.closedLoops(targets, s.rounds)
	if err != nil {
		return err
	}
	b.atLeast("HTTP checks", rates[0], checksPerSecond, "req/s")
	if len(rates) > 2 {
		b.atLeast("POST /v1/throttle, ratio to throttlecrab", rates[1]/rates[2], crabRatio, "x")
	}
	p99, err := b.openLoops(targets, servedRate, s.rounds)
	if err != nil {
		return err
	}
	b.atMost(fmt.Sprintf("HTTP checks at %d req/s: p99", servedRate), p99[0], checkP99, "ms")
	return nil
}

// Bars of the gRPC server.
const (
	rlsPerSecond = 25_000
	rlsRatio     = 2
)

func (e *edgeServers) compareGRPC(s settings, b *board) error {
	targets := []target{grpcTarget("ShouldRateLimit", e.grpc, rlsMethod, rlsMessage)}
	if e.peers.envoyRL != "" {
		targets = append(targets, grpcTarget("envoyproxy/ratelimit and Redis", e.peers.envoyRL, rlsMethod, rlsMessage))
	}
	if e.peers.crabGRPC != "" {
		targets = append(targets, grpcTarget("throttlecrab, Throttle", e.peers.crabGRPC, crabMethod, crabMessage))
	}
	rates, err := b.closedLoops(targets, s.rounds)
	if err != nil {
		return err
	}
	b.atLeast("ShouldRateLimit", rates[0], rlsPerSecond, "req/s")
	if e.peers.envoyRL != "" {
		b.atLeast("ShouldRateLimit, ratio to ratelimit and Redis", rates[0]/rates[1], rlsRatio, "x")
	}
	if e.peers.crabGRPC != "" {
		b.note("ShouldRateLimit, ratio to throttlecrab's gRPC: %.2f", rates[0]/rates[len(rates)-1])
	}
	return nil
}
