package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// depth is a pipeline depth: the number of requests that are sent before the replies are read.
// The fields cpu and throughput are its bars, which are the required results. A bar is a ratio:
// the figure of throttled divided by the figure of the peer, the server that throttled is
// compared with.
type depth struct {
	pipeline   int
	requests   int // enough to measure the CPU time, which has a resolution of 10 ms
	cpu        float64
	throughput float64 // 0: no bar
}

var depths = []depth{
	{1, 200_000, 1.0, 0},
	{16, 2_000_000, 0.45, 2},
	{100, 3_000_000, 0.35, 3.5},
}

// figures are the results of one run of the load.
type figures struct {
	perSecond float64
	cpu       float64 // microseconds of server CPU per request
	client    float64 // share of one core that the load generator used
	p50, p99  float64 // milliseconds
}

// compare runs redis-benchmark against the peer and throttled in turn. Without a peer, it measures
// throttled only.
func compare(s settings, b *board) (err error) {
	server, err := startServer()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	targets := []string{server.addr}
	if s.peer == "" {
		b.note("no -peer: only the figures of throttled. A peer is any server on this machine that implements CL.THROTTLE")
	} else {
		targets = []string{s.peer, server.addr}
	}
	b.note("cl.throttle on 1,000,000 random keys, %d connections, median of %d rounds; redis-benchmark uses one thread", s.conns, s.rounds)
	for _, d := range depths {
		rows, err := compareAt(d, s, targets)
		if err != nil {
			return err
		}
		for i, f := range rows {
			b.note("depth %3d %-16s %10.0f req/s   cpu %5.2f us/req   p50 %.3f p99 %.3f ms   (the generator used %.0f %% of a core)", d.pipeline, targets[i], f.perSecond, f.cpu, f.p50, f.p99, 100*f.client)
		}
		if len(rows) < 2 {
			continue
		}
		b.atMost(fmt.Sprintf("depth %d: CPU per request, ratio to the peer", d.pipeline), rows[1].cpu/rows[0].cpu, d.cpu, "x")
		if d.throughput > 0 {
			b.atLeast(fmt.Sprintf("depth %d: throughput, ratio to the peer", d.pipeline), rows[1].perSecond/rows[0].perSecond, d.throughput, "x")
		}
	}
	return nil
}

// compareAt returns the medians of each target. The rounds alternate between targets, so
// that temporary load on the machine does not affect only one of them.
func compareAt(d depth, s settings, targets []string) ([]figures, error) {
	rounds := make([][]figures, len(targets))
	for range s.rounds {
		for i, target := range targets {
			f, err := load(target, d, s.conns)
			if err != nil {
				return nil, err
			}
			rounds[i] = append(rounds[i], f)
		}
	}
	rows := make([]figures, len(targets))
	for i, r := range rounds {
		rows[i] = figures{
			perSecond: median(r, func(f figures) float64 { return f.perSecond }),
			cpu:       median(r, func(f figures) float64 { return f.cpu }),
			client:    median(r, func(f figures) float64 { return f.client }),
			p50:       median(r, func(f figures) float64 { return f.p50 }),
			p99:       median(r, func(f figures) float64 { return f.p99 }),
		}
	}
	return rows, nil
}

func load(target string, d depth, conns int) (figures, error) {
	pid, err := pidOf(target)
	if err != nil {
		return figures{}, err
	}
	return loadPort(pid, target, d, conns)
}

// loadPort runs the load on a port of a server with further arguments of redis-benchmark.
func loadPort(pid int, target string, d depth, conns int, args ...string) (figures, error) {
	before, err := cpuSeconds(pid)
	if err != nil {
		return figures{}, err
	}
	host, port, _ := strings.Cut(target, ":")
	args = append(args, "-h", host, "-p", port, "-n", strconv.Itoa(d.requests), "-c", strconv.Itoa(conns),
		"-P", strconv.Itoa(d.pipeline), "-r", "1000000", "--csv", "cl.throttle", "user:__rand_int__", "15", "30", "60")
	run := exec.Command("redis-benchmark", args...)
	start := time.Now()
	out, err := run.Output()
	took := time.Since(start)
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w\n%s", err, exit.Stderr)
		}
		return figures{}, fmt.Errorf("redis-benchmark: %w", err)
	}
	after, err := cpuSeconds(pid)
	if err != nil {
		return figures{}, err
	}
	f, err := parseLoad(string(out))
	f.client = (run.ProcessState.UserTime() + run.ProcessState.SystemTime()).Seconds() / took.Seconds()
	f.cpu = (after - before) / float64(d.requests) * 1e6
	return f, err
}

// parseLoad reads the last line of redis-benchmark's CSV: name, requests per second, and the latencies avg,
// min, p50, p95, p99, max.
func parseLoad(out string) (figures, error) {
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil || len(rows) < 2 || len(rows[len(rows)-1]) < 8 {
		return figures{}, errors.Join(fmt.Errorf("redis-benchmark prints %q", out), err)
	}
	var n [8]float64
	for i, text := range rows[len(rows)-1][1:8] {
		if n[i], err = strconv.ParseFloat(text, 64); err != nil {
			return figures{}, err
		}
	}
	return figures{perSecond: n[0], p50: n[3], p99: n[5]}, nil
}

// median returns the median of a property, the upper one for an even number of values.
func median[T any](list []T, property func(T) float64) float64 {
	values := make([]float64, len(list))
	for i, item := range list {
		values[i] = property(item)
	}
	slices.Sort(values)
	return values[len(values)/2]
}
