package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// shape is a load: its name and the flags of the load generator.
type shape struct {
	name  string
	flags []string
}

// ample is a limit that is never reached, so that each request changes the state.
const ample = "1000000000 1 1"

var (
	pipelined   = shape{"50 connections, depth 16", []string{"-conns", "50", "-depth", "16", "-limit", ample}}
	unpipelined = shape{"200 connections, depth 1", []string{"-conns", "200", "-depth", "1", "-limit", ample}}
	usual       = shape{"50 connections, depth 16, default limit", []string{"-conns", "50", "-depth", "16"}}
	denials     = shape{"one hot key, 95 % denied, 50 connections, depth 16", []string{"-conns", "50", "-depth", "16", "-dist", "hot", "-limit", "0 1 1"}}
)

// replication measures a cluster of three nodes on this machine. Sync mode is compared with a peer
// that has two replicas; each batch of commands to the peer ends with WAIT 1 0. Async mode is
// compared with a standalone throttled. The rounds alternate between the two targets, so that temporary load on the
// machine does not affect only one of them.
func replication(s settings, b *board) error {
	return withPrograms(func(server string, g generator) error {
		return errors.Join(
			compareSync(s, b, server, g, "no", 1.0),
			compareSync(s, b, server, g, "yes", 0.35),
			compareAlone(s, b, server, g),
			lonelyLatency(s, b, server, g),
		)
	})
}

// withPrograms builds the server and the load generator, calls use, and removes both programs.
func withPrograms(use func(server string, g generator) error) error {
	dir, err := os.MkdirTemp("", "throttled-bench-")
	if err != nil {
		return err
	}
	g, err := buildGenerator(dir)
	server := filepath.Join(dir, "throttled")
	if err == nil {
		err = buildServer(server)
	}
	if err == nil {
		err = use(server, g)
	}
	return errors.Join(err, os.RemoveAll(dir))
}

// withLeader starts three nodes, and calls use with the address of the leader.
func withLeader(server string, use func(addr string) error, args ...string) error {
	nodes, err := startGroup(server, args...)
	if err != nil {
		return err
	}
	leader, err := nodes.leader()
	if err == nil {
		err = use(leader.addr)
	}
	return errors.Join(err, nodes.stop())
}

// compareSync compares sync mode with the peer, with --raft-fsync as given.
func compareSync(s settings, b *board, server string, g generator, fsync string, bar float64) error {
	if s.peer == "" {
		b.note("sync, fsync %s: no -peer, only the figures of throttled", fsync)
	}
	return withLeader(server, func(addr string) error {
		for _, load := range []shape{pipelined, unpipelined} {
			ours, peers, err := g.alternate(s.rounds, load, addr, nil, s.peer, []string{"-last", "WAIT 1 0"})
			if err != nil {
				return err
			}
			b.note("sync, fsync %s, %s: %.0f req/s; the peer with WAIT 1 0: %.0f (all rounds: %.0f; %.0f)", fsync, load.name, middleOf(ours), middleOf(peers), ours, peers)
			if len(peers) > 0 {
				b.atLeast(fmt.Sprintf("sync, fsync %s, %s", fsync, load.name), middleOf(ours)/middleOf(peers), bar, "x")
			}
		}
		return nil
	}, "--raft-fsync", fsync)
}

// compareAlone compares a cluster with a standalone throttled: in async mode under the usual loads,
// and in sync mode under a load that is mostly denied.
func compareAlone(s settings, b *board, server string, g generator) error {
	alone, err := startServer()
	if err != nil {
		return err
	}
	compare := func(mode string, bar float64, loads ...shape) error {
		return withLeader(server, func(addr string) error {
			for _, load := range loads {
				ours, others, err := g.alternate(s.rounds, load, addr, nil, alone.addr, nil)
				if err != nil {
					return err
				}
				b.note("%s, %s: %.0f req/s; standalone %.0f (all rounds: %.0f; %.0f)", mode, load.name, middleOf(ours), middleOf(others), ours, others)
				b.atLeast(mode+", "+load.name, middleOf(ours)/middleOf(others), bar, "x")
			}
			return nil
		}, "--raft-fsync", "no", "--replication", mode)
	}
	err = errors.Join(compare("async", 0.75, pipelined, unpipelined, usual), compare("sync", 0.7, denials))
	return errors.Join(err, alone.stop())
}

// lonelyLatency measures the latency of a single client without pipelining.
func lonelyLatency(s settings, b *board, server string, g generator) error {
	const bar = 300 // microseconds
	return withLeader(server, func(addr string) error {
		var all []float64
		for range s.rounds {
			f, err := g.figures(addr, "-conns", "1", "-depth", "1", "-limit", ample)
			if err != nil {
				return err
			}
			all = append(all, f["latency_p50_us"])
		}
		b.note("sync, fsync no, 1 connection, depth 1: p50 %.0f us in all rounds", all)
		b.atMost("sync, fsync no, 1 connection: p50", middleOf(all), bar, "us")
		return nil
	}, "--raft-fsync", "no")
}

const replicationRound = 4 * time.Second

// alternate measures two targets in turn, and returns the requests per second of each
// round. The second target is optional.
func (g generator) alternate(rounds int, load shape, first string, firstFlags []string, second string, secondFlags []string) (a, b []float64, err error) {
	for range rounds {
		f, err := g.figures(first, slices.Concat(load.flags, firstFlags)...)
		if err != nil {
			return nil, nil, err
		}
		a = append(a, f["requests_per_second"])
		if second == "" {
			continue
		}
		if f, err = g.figures(second, slices.Concat(load.flags, secondFlags)...); err != nil {
			return nil, nil, err
		}
		b = append(b, f["requests_per_second"])
	}
	return a, b, nil
}

// figures runs the load generator against one target.
func (g generator) figures(addr string, flags ...string) (map[string]float64, error) {
	args := append([]string{"-output", "json", "-progress=false", "-duration", replicationRound.String(), "-keys", "100000"}, flags...)
	out, err := g.command(append(args, addr)...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil, fmt.Errorf("load generator: %w\n%s", err, exit.Stderr)
	} else if err != nil {
		return nil, err
	}
	return parseFigures(out)
}

func middleOf(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	return median(list, func(f float64) float64 { return f })
}
