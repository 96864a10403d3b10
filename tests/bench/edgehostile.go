package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/throttledhq/throttled/tests/bench/loadgen"
)

const (
	othersShare  = 0.5                      // of the largest rate: the load beside the attacks
	othersRate   = servedRate               // its maximum, in requests per second
	attackedTime = 10 * time.Second         // of one run
	attackRate   = 40                       // hostile requests per second: each attack about once in a run
	floodRate    = 300                      // of a run without a bar, whose work is a large part of that of the machine
	attackP99    = 2                        // bar: ratio of p99 with and without attacks
	attackedRSS  = besideAll + clientMemory // MiB
)

// attacked measures latencies under attack alone.
func attacked(s settings, b *board) (err error) {
	e, err := startEdges(b)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.stop()) }()
	return e.serveUnderAttack(s, b)
}

// serveUnderAttack compares the latencies of well-behaved clients with and without a second process that sends malformed
// and hostile requests. Half of the rate is HTTP, half is gRPC.
func (e *edgeServers) serveUnderAttack(s settings, b *board) error {
	binary := filepath.Join(e.peers.dir, "hostile")
	if err := buildHostile(binary); err != nil {
		return err
	}
	others := []target{
		httpTarget("GET /check/traefik", e.http, traefikCheck),
		grpcTarget("ShouldRateLimit", e.grpc, rlsMethod, rlsMessage),
	}
	rate, err := othersRates(others)
	if err != nil {
		return err
	}
	var quiet, attacked, flooded [2][]*loadgen.Result
	for range s.rounds {
		if err := e.together(others, rate, &quiet); err != nil {
			return err
		}
		if err := e.attack(binary, attackRate, b, func() error { return e.together(others, rate, &attacked) }); err != nil {
			return err
		}
		if err := e.attack(binary, floodRate, b, func() error { return e.together(others, rate, &flooded) }); err != nil {
			return err
		}
	}
	for i, t := range others {
		before, during := percentile(quiet[i], 99), percentile(attacked[i], 99)
		b.note("%-34s %8.0f req/s   p99 %.3f ms; %.3f ms beside %d hostile requests per second; %.3f ms beside %d",
			t.name, rate, before, during, attackRate, percentile(flooded[i], 99), floodRate)
		b.atMost(t.name+" under attack, ratio of p99", during/before, attackP99, "x")
	}
	return nil
}

// buildHostile builds the program that sends hostile requests.
func buildHostile(binary string) error {
	if out, err := exec.Command("go", "build", "-C", "tests/bench/hostile", "-o", binary, ".").CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	return nil
}

// othersRates returns the rate of each of the targets: half of the rate at which all of them are served together.
func othersRates(targets []target) (float64, error) {
	most := othersRate / float64(len(targets))
	for _, t := range targets {
		r, err := t.run(0, edgeWarmup)
		if err != nil {
			return 0, err
		}
		most = min(most, othersShare*r.PerSecond()/float64(len(targets)))
	}
	return most, nil
}

// together runs an open loop on both targets at the same time.
func (e *edgeServers) together(targets []target, rate float64, results *[2][]*loadgen.Result) error {
	failed := make(chan error, len(targets))
	for i, t := range targets {
		go func() {
			r, err := t.run(rate, attackedTime)
			results[i] = append(results[i], r)
			failed <- err
		}()
	}
	return errors.Join(<-failed, <-failed)
}

// attack calls measure while the hostile program sends a number of requests per second. Afterwards, it compares the RSS of
// the server with its bar.
func (e *edgeServers) attack(binary string, rate int, b *board, measure func() error) error {
	hostile := exec.Command(binary, "-http", e.http, "-grpc", e.grpc, "-rate", strconv.Itoa(rate), "-for", (edgeWarmup + attackedTime).String())
	hostile.Stderr = os.Stderr
	out, err := hostile.StdoutPipe()
	if err != nil {
		return err
	}
	if err := hostile.Start(); err != nil {
		return err
	}
	err = measure()
	var reactions map[string]int
	err = errors.Join(err, json.NewDecoder(out).Decode(&reactions), hostile.Wait())
	if err != nil {
		return err
	}
	rss, err := residentBytes(e.process.pid())
	if err != nil {
		return fmt.Errorf("the server has exited: %w", err)
	}
	b.note("reactions to %d hostile requests per second: %v", rate, reactions)
	b.atMost("RSS under attack", mib(rss), attackedRSS, "MiB")
	b.atMost("refused connections of hostile requests", float64(reactions["unreachable"]), 0, "")
	return nil
}
