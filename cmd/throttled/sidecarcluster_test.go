package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/throttledhq/throttled/internal/freeport"
)

// patientTimeout is an upstream-timeout in milliseconds for which requests wait until the next leader of a cluster decides.
const patientTimeout = "20000"

// sidecarLoad sends requests to a sidecar until it is stopped.
type sidecarLoad struct {
	running sync.WaitGroup
	stop    chan struct{}
	decided atomic.Int64
	failed  atomic.Pointer[string] // an error reply
}

// loadClients is the number of clients of a sidecarLoad. Each has one request in flight.
const loadClients = 8

func startLoad(p *process) *sidecarLoad {
	l := &sidecarLoad{stop: make(chan struct{})}
	for range loadClients {
		l.running.Go(func() { l.run(p) })
	}
	return l
}

func (l *sidecarLoad) run(p *process) {
	client := redis.NewClient(&redis.Options{Addr: p.addr, MaxRetries: -1, DisableIdentity: true, Protocol: 2, PoolSize: 1, ReadTimeout: patience})
	defer func() { _ = client.Close() }()
	for {
		select {
		case <-l.stop:
			return
		default:
		}
		if err := client.Do(context.Background(), "CL.THROTTLE", "load", 999_999_999, 1, 1).Err(); err != nil {
			text := err.Error()
			l.failed.Store(&text)
			return
		}
		l.decided.Add(1)
	}
}

// awaitDecisions waits until more requests are decided.
func (l *sidecarLoad) awaitDecisions(t *testing.T, n int64) {
	t.Helper()
	from := l.decided.Load()
	for deadline := time.Now().Add(patience); l.decided.Load() < from+n; time.Sleep(time.Millisecond) { // polls counters of other goroutines
		if time.Now().After(deadline) || l.failed.Load() != nil {
			t.Fatalf("%d requests are decided, want %d; error %v", l.decided.Load()-from, n, l.failed.Load())
		}
	}
}

// end stops the load, and checks that no request has failed.
func (l *sidecarLoad) end(t *testing.T) {
	t.Helper()
	close(l.stop)
	l.running.Wait()
	if text := l.failed.Load(); text != nil {
		t.Errorf("a request failed: %s", *text)
	}
}

// TestProcess_SidecarFollows hands the leadership of a cluster over, and kills the leader. The sidecar, which has the address
// of one node only, must find the others, and use the leader. No request may fail, and only those that were sent to the killed
// leader may be decided by upstream-away.
func TestProcess_SidecarFollows(t *testing.T) {
	all := newProcesses(t, []string{"n1", "n2", "n3"}, "--raft-heartbeat", "2000") // avoids elections on a busy machine
	leader, others := leaderOf(t, all)
	side := newSidecarOf(t, []*process{leader}, "--upstream-leases", "off", "--upstream-timeout", patientTimeout)
	for _, p := range others {
		side.askUntil(p.addr, "INFO", "sidecar") // in upstream_learned
	}
	load := startLoad(side)
	load.awaitDecisions(t, 100)

	leader.handOver(others[0])
	side.askUntil("upstream_address:"+others[0].addr, "INFO", "sidecar")
	load.awaitDecisions(t, 100)
	if n := awayTotal(side); n != 0 {
		t.Errorf("upstream-away has decided %d requests while the leadership was handed over, want none", n)
	}

	others[0].kill()
	load.awaitDecisions(t, 100)
	load.end(t)
	next, _ := leaderOf(t, []*process{leader, others[1]})
	side.askUntil("upstream_address:"+next.addr, "INFO", "sidecar")
	if n := awayTotal(side); n > loadClients {
		t.Errorf("upstream-away has decided %d requests after the leader was killed, want at most %d", n, loadClients)
	}
}

// handOver makes another node the leader. On a busy machine, an attempt can take longer than the leader waits.
func (p *process) handOver(next *process) {
	p.t.Helper()
	for deadline := time.Now().Add(patience); !strings.Contains(next.ask("INFO", "replication"), "role:master"); {
		if _, err := p.do("CL.CLUSTER", "TRANSFER", next.id); err != nil && time.Now().After(deadline) {
			p.t.Fatalf("CL.CLUSTER TRANSFER: %v", err)
		}
	}
}

// awayTotal returns the number of requests of a sidecar that upstream-away has decided.
func awayTotal(side *process) (n int64) {
	for _, name := range []string{"open", "closed", "local", "local_refused"} {
		n += side.infoField("sidecar", "upstream_away_"+name)
	}
	return n
}

// TestProcess_SidecarOfSentinel uses the address of the Sentinel port of one node, hands the leadership over, and kills the
// leader.
func TestProcess_SidecarOfSentinel(t *testing.T) {
	sentinels := map[string]string{}
	all := startProcesses(t, []string{"n1", "n2", "n3"}, func(id string) []string {
		sentinels[id] = fmt.Sprint(freeport.Of(t))
		return []string{"--raft-insecure", "yes", "--raft-heartbeat", "2000", "--sentinel-port", sentinels[id], "--leader-port", fmt.Sprint(freeport.Of(t))}
	})
	leader, others := leaderOf(t, all)
	side := newSidecarOf(t, []*process{{t: t, addr: "127.0.0.1:" + sentinels[others[0].id]}}, "--upstream-leases", "off", "--upstream-timeout", patientTimeout)
	for _, p := range others {
		side.askUntil(p.addr, "INFO", "sidecar") // in upstream_learned
	}
	load := startLoad(side)
	load.awaitDecisions(t, 100)

	leader.handOver(others[0])
	load.awaitDecisions(t, 100)
	if n := awayTotal(side); n != 0 {
		t.Errorf("upstream-away has decided %d requests while the leadership was handed over, want none", n)
	}
	others[0].kill() // with the only Sentinel that the sidecar has the address of
	load.awaitDecisions(t, 100)
	load.end(t)
	if n := awayTotal(side); n > loadClients {
		t.Errorf("upstream-away has decided %d requests after the leader was killed, want at most %d", n, loadClients)
	}
	if log := side.log.String(); strings.Count(log, "connected to the upstream") < 3 {
		t.Errorf("the sidecar has used less than 3 leaders:\n%s", log)
	}
}
