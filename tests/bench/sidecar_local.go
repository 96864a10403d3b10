package main

import (
	"errors"
	"fmt"
	"strconv"
)

// The loads of the measurements of local decisions. The limit of the hot keys never refuses a request during a measurement,
// and that of the exhausted keys restores no unit.
const (
	hotKeys          = 16
	hotCommand       = "CL.THROTTLE hot:{key} 99999999 10000000 1"
	exhaustedKeys    = 100
	exhaustedCommand = "CL.THROTTLE exhausted:{key} 9 10 86400"
)

// The bars of local decisions.
const (
	hotP50Bar        = 30  // us at depth 1
	hotThroughputBar = 0.9 // at depth 16, ratio to the same server without the sidecar
	hotCallsBar      = 1   // commands to the upstream per 100 decisions
	refusalsBar      = 1   // percent of the refused requests that reach the upstream
)

// hotSidecar measures requests on hot keys through one sidecar, and directly.
func (g generator) hotSidecar(binary string, up upstream, s settings, b *board) error {
	return g.withSidecar(binary, up, func(side string) error {
		for _, addr := range []string{up.addr, side} { // creates the keys, and draws the first leases
			if _, err := g.sendHot(addr, hotCommand, hotKeys, 1, 16, 100_000); err != nil {
				return err
			}
		}
		if err := g.hotLatency(up, side, s, b); err != nil {
			return err
		}
		return g.hotThroughput(up, side, s, b)
	})
}

// hotLatency compares the latency of one connection that waits for each reply, on processors that are idle between requests, and
// on busy ones, as on a machine with other work.
func (g generator) hotLatency(up upstream, side string, s settings, b *board) error {
	if err := g.compareLatency("", up, side, s, b); err != nil {
		return err
	}
	return withoutIdle(func() error { return g.compareLatency(", no idle processor", up, side, s, b) })
}

func (g generator) compareLatency(condition string, up upstream, side string, s settings, b *board) error {
	runs, err := medianOfEach([]string{up.addr, side}, s.rounds, func(addr string) (float64, error) {
		f, err := g.sendHot(addr, hotCommand, hotKeys, 1, 1, 50_000)
		return f["latency_p50_us"], err
	})
	if err != nil {
		return err
	}
	b.note("hot keys%s: p50 of 1 connection at depth 1, median of %d rounds: %.1f us directly, %.1f us through a sidecar", condition, s.rounds, runs[0], runs[1])
	b.atMost("hot keys: p50 through a sidecar, depth 1"+condition, runs[1], hotP50Bar, "us")
	return nil
}

// hotThroughput compares the throughput at depth 16, and counts the commands that reach the upstream meanwhile.
func (g generator) hotThroughput(up upstream, side string, s settings, b *board) error {
	const requests = 2_000_000
	calls := 0.0
	runs, err := medianOfEach([]string{up.addr, side}, s.rounds, func(addr string) (float64, error) {
		before, err := commandsAt(up.addr)
		if err != nil {
			return 0, err
		}
		f, err := g.sendHot(addr, hotCommand, hotKeys, s.conns, 16, requests)
		if err != nil {
			return 0, err
		}
		after, err := commandsAt(up.addr)
		if addr == side {
			calls += after - before
		}
		return f["requests_per_second"], err
	})
	if err != nil {
		return err
	}
	b.note("hot keys: %d connections at depth 16, median of %d rounds: %.0f req/s directly, %.0f req/s through a sidecar", s.conns, s.rounds, runs[0], runs[1])
	b.atLeast("hot keys: throughput, ratio to direct requests", runs[1]/runs[0], hotThroughputBar, "x")
	b.atMost("hot keys: upstream commands per 100 decisions", calls/float64(s.rounds*requests)*100, hotCallsBar, "")
	return nil
}

// refusingSidecar floods exhausted keys through a sidecar.
func (g generator) refusingSidecar(binary string, up upstream, s settings, b *board) error {
	return g.withSidecar(binary, up, func(side string) error {
		if _, err := g.sendHot(up.addr, exhaustedCommand, exhaustedKeys, 1, 16, 100*exhaustedKeys); err != nil {
			return err
		}
		before, err := commandsAt(up.addr)
		if err != nil {
			return err
		}
		const requests = 2_000_000
		f, err := g.sendHot(side, exhaustedCommand, exhaustedKeys, s.conns, 16, requests)
		if err == nil && f["denied_share"] < 1 {
			err = fmt.Errorf("%.4f of the requests on exhausted keys were refused, want all", f["denied_share"])
		}
		if err != nil {
			return err
		}
		after, err := commandsAt(up.addr)
		b.note("exhausted keys: %d keys, %.0f refusals/s through a sidecar", exhaustedKeys, f["requests_per_second"])
		b.atMost("exhausted keys: commands that reach the upstream", (after-before)/requests*100, refusalsBar, "%")
		return err
	})
}

// withSidecar starts a sidecar, calls use with its address, and stops it.
func (g generator) withSidecar(binary string, up upstream, use func(side string) error) error {
	addrs, stop, err := startSidecars(binary, 1, []upstream{up})
	if err == nil {
		err = use(addrs[0])
	}
	return errors.Join(err, stop())
}

// medianOfEach measures each address in each round, and returns the medians.
func medianOfEach(addrs []string, rounds int, measure func(addr string) (float64, error)) ([]float64, error) {
	runs := make([][]float64, len(addrs))
	for range rounds {
		for i, addr := range addrs {
			f, err := measure(addr)
			if err != nil {
				return nil, err
			}
			runs[i] = append(runs[i], f)
		}
	}
	medians := make([]float64, len(addrs))
	for i, r := range runs {
		medians[i] = median(r, func(f float64) float64 { return f })
	}
	return medians, nil
}

// sendHot sends requests on few keys, and returns the figures of the generator.
func (g generator) sendHot(addr, request string, keys, conns, depth, requests int) (map[string]float64, error) {
	out, err := g.command("-output", "json", "-progress=false", "-command", request, "-keys", strconv.Itoa(keys), "-depth", strconv.Itoa(depth),
		"-conns", strconv.Itoa(conns), "-requests", strconv.Itoa(requests), "-warmup", "0s", addr).Output()
	if err != nil {
		return nil, fmt.Errorf("load generator: %w\n%s", err, out)
	}
	return parseFigures(out)
}

// commandsAt returns the number of commands that a server has run.
func commandsAt(addr string) (float64, error) {
	return infoNumber(addr, "stats", "total_commands_processed")
}
