package gatewaystests

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

var (
	rollingRate   = flag.Int("rolling-rate", 210, "requests per second in TestRollingRestart")
	rollingAll    = flag.Bool("rolling-all", true, "use all gateways in TestRollingRestart, not only nginx and Envoy with its ratelimit filter")
	rollingRounds = flag.Int("rolling-rounds", 1, "restarts of each node in TestRollingRestart")
)

// TestRollingRestart restarts the nodes of a cluster one after the other, while requests pass through gateways that
// fail closed: the limiter must decide each request. Gateways that cannot retry fail open. The limits of the rules are
// raised, so that it admits all.
func TestRollingRestart(t *testing.T) {
	nodes := startTrio(t, generousRules(t))
	gateways := []gateway{nginx, envoyRatelimit}
	if *rollingAll {
		gateways = all
	}
	var scenes []*scene
	var results []*load
	for _, g := range gateways {
		v := variant{"cluster", "fail closed"}
		if g.once {
			v = variant{"cluster"}
		}
		scenes, results = append(scenes, g.play(t, nodes, v, patient)), append(results, &load{})
	}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for i, s := range scenes {
		group.Go(func() { results[i].send(ctx, s.address, *rollingRate/len(scenes), 64) })
	}
	for range *rollingRounds {
		for _, n := range nodes {
			n.terminate(t)
			n.start(t)
			n.awaitReady(t)
			n.awaitRules(t)
			for i, l := range results { // requests of a second, while all nodes run
				awaitAnswers(t, l, *rollingRate/len(scenes), scenes[i])
			}
		}
	}
	cancel()
	group.Wait()
	for i, s := range scenes {
		l := results[i]
		t.Logf("%s: %d requests, %d failed; p50 %v, p99 %v, longest %v", s.example, l.answered.Load(), l.failed, l.percentile(0.5), l.percentile(0.99), l.percentile(1))
		if l.failed > 0 {
			t.Errorf("%s: %d of %d requests failed, the first ones with:\n%s", s.example, l.failed, l.answered.Load(), strings.Join(l.failures, "\n"))
		}
	}
	for _, n := range nodes {
		for _, policy := range []string{"open", "closed", "local"} {
			if got := n.metric(t, "throttled_failure_policy_decisions_total", `policy="`+policy+`"`); got > 0 {
				t.Logf("%v requests were decided by on_failure: %s", got, policy)
			}
		}
	}
}

// awaitAnswers waits until a number of further requests were answered.
func awaitAnswers(t *testing.T, l *load, n int, s *scene) {
	t.Helper()
	end := l.answered.Load() + int64(n)
	await(t, "responses of "+s.example, func() error {
		if got := l.answered.Load(); got < end {
			return fmt.Errorf("%d responses, want %d", got, end)
		}
		return nil
	})
}

// generousRules returns a file with the rules of two examples, with limits that are never used up.
func generousRules(t *testing.T) string {
	t.Helper()
	const text = `version: 1
domain: site
limits:
  http:
    when: {ip: {present: true}}
    per: ip
    allow: 1000000 per second
  rls:
    when: {descriptor: remote_address}
    per: remote_address
    allow: 1000000 per second
`
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
