package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/throttledhq/throttled/tests/bench/loadgen"
)

const (
	politeShare  = 0.5                      // of the largest rate: the load beside the attacks
	politeRate   = servedRate               // its maximum, in requests per second
	attackedTime = 10 * time.Second         // of one run
	attackP99    = 2                        // bar: ratio of p99 with and without attacks
	attackedRSS  = besideAll + clientMemory // MiB
)

// serveUnderAttack compares the latencies of well-behaved clients with and without a second process that sends malformed
// and hostile requests. Half of the rate is HTTP, half is gRPC.
func (e *edgeServers) serveUnderAttack(s settings, b *board) error {
	binary := filepath.Join(e.peers.dir, "hostile")
	if out, err := exec.Command("go", "build", "-C", "tests/bench/hostile", "-o", binary, ".").CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	polite := []target{
		httpTarget("GET /check/traefik", e.http, traefikCheck),
		grpcTarget("ShouldRateLimit", e.grpc, rlsMethod, rlsMessage),
	}
	rate, err := politeRates(polite)
	if err != nil {
		return err
	}
	var quiet, attacked [2][]*loadgen.Result
	for range s.rounds {
		if err := e.together(polite, rate, &quiet); err != nil {
			return err
		}
		if err := e.attack(binary, b, func() error { return e.together(polite, rate, &attacked) }); err != nil {
			return err
		}
	}
	for i, t := range polite {
		before, during := percentile(quiet[i], 99), percentile(attacked[i], 99)
		b.note("%-34s %8.0f req/s   p99 %.3f ms, and %.3f ms under attack", t.name, rate, before, during)
		b.atMost(t.name+" under attack, ratio of p99", during/before, attackP99, "x")
	}
	return nil
}

// politeRates returns the rate of each of the targets: half of the rate at which all of them are served together.
func politeRates(targets []target) (float64, error) {
	most := politeRate / float64(len(targets))
	for _, t := range targets {
		r, err := t.run(0, edgeWarmup)
		if err != nil {
			return 0, err
		}
		most = min(most, politeShare*r.PerSecond()/float64(len(targets)))
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

// attack calls polite while the hostile program runs. It compares the RSS of the server with its bar afterwards.
func (e *edgeServers) attack(binary string, b *board, polite func() error) error {
	hostile := exec.Command(binary, "-http", e.http, "-grpc", e.grpc, "-for", (edgeWarmup + attackedTime).String())
	hostile.Stderr = os.Stderr
	out, err := hostile.StdoutPipe()
	if err != nil {
		return err
	}
	if err := hostile.Start(); err != nil {
		return err
	}
	err = polite()
	var reactions map[string]int
	err = errors.Join(err, json.NewDecoder(out).Decode(&reactions), hostile.Wait())
	if err != nil {
		return err
	}
	rss, err := residentBytes(e.process.pid())
	if err != nil {
		return fmt.Errorf("the server has exited: %w", err)
	}
	b.note("reactions to hostile requests: %v", reactions)
	b.atMost("RSS under attack", mib(rss), attackedRSS, "MiB")
	b.atMost("refused connections of hostile requests", float64(reactions["unreachable"]), 0, "")
	return nil
}
