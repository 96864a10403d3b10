package sidecar

import (
	"bufio"
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttledhq/throttled/ruleset"
)

// network is a simulated network with one upstream, which leads. It records the attempts to connect.
type network struct {
	mu     sync.Mutex
	up     bool
	dials  []time.Time // attempts to connect
	probes []time.Time
	rules  []time.Time // questions for the newest version of the rules
	conns  []net.Conn
}

var errRefused = errors.New("connection refused")

func (n *network) dial(context.Context, string) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dials = append(n.dials, time.Now())
	if !n.up {
		return nil, errRefused
	}
	near, far := net.Pipe()
	n.conns = append(n.conns, far)
	go n.serve(far)
	return near, nil
}

func (n *network) serve(far net.Conn) {
	for in := bufio.NewReader(far); ; {
		words, err := readWords(in)
		if err != nil {
			return
		}
		reply := leaderRole()
		if words[0] == "EXISTS" {
			n.mu.Lock()
			n.probes = append(n.probes, time.Now())
			n.mu.Unlock()
			reply = ":0"
		}
		if words[0] == "CL.RULES" {
			n.mu.Lock()
			n.rules = append(n.rules, time.Now())
			n.mu.Unlock()
			reply = "*0"
		}
		if _, err := far.Write([]byte(reply + "\r\n")); err != nil {
			return
		}
	}
}

// set starts or stops the upstream. Its connections are closed.
func (n *network) set(up bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.up = up
	for _, c := range n.conns {
		_ = c.Close()
	}
	n.conns = nil
}

// since returns the number of times of at least a time, and the largest number of them within 10 ms. The times are a field of n.
func (n *network) since(field *[]time.Time, begin time.Time) (all, crowd int) {
	const moment = 10 * time.Millisecond
	n.mu.Lock()
	times := *field
	n.mu.Unlock()
	first := 0
	for i, at := range times {
		if at.Before(begin) {
			first = i + 1
			continue
		}
		for at.Sub(times[first]) > moment {
			first++
		}
		all, crowd = all+1, max(crowd, i-first+1)
	}
	return all, crowd
}

// checkRate checks the number of times of at least a time, and the largest number of them within 10 ms. The times are a
// field of n.
func (n *network) checkRate(t *testing.T, name string, field *[]time.Time, begin time.Time, most, mostAtOnce int) {
	t.Helper()
	if all, crowd := n.since(field, begin); all > most || crowd > mostAtOnce {
		t.Errorf("%d %s, %d of them within 10 ms, want at most %d and %d", all, name, crowd, most, mostAtOnce)
	}
}

// runUpstreams runs the upstreams of sidecars until stop is called.
func runUpstreams(ctx context.Context, n *network, sidecars int) (all []*Upstream, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for range sidecars {
		u := New(Config{Addresses: []string{"up:1"}, Credentials: Credentials{dial: n.dial}, Timeout: 50 * time.Millisecond})
		all = append(all, u)
		running.Go(func() { u.Run(ctx) })
	}
	return all, func() { cancel(); running.Wait() }
}

// wantUsed checks whether all sidecars use the upstream.
func wantUsed(t *testing.T, all []*Upstream, want bool) {
	t.Helper()
	synctest.Wait()
	for i, u := range all {
		if got := u.View().Leader != "" && !u.Silent(); got != want {
			t.Fatalf("sidecar %d uses the upstream: %t, want %t", i, got, want)
		}
	}
}

// TestUpstream_ReturnsWithoutHerd stops an upstream for 5 s, which many sidecars use and lose at the same instant. After
// its return, each of them must use it within maxBackoff. They must not connect at the same time, nor connect or send
// probes more often than necessary.
func TestUpstream_ReturnsWithoutHerd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const sidecars, outage = 200, 5 * time.Second
		n := &network{up: true}
		all, stop := runUpstreams(t.Context(), n, sidecars)
		wantUsed(t, all, true)
		n.set(false)
		<-time.After(outage - time.Second) // virtual time, as below
		wantUsed(t, all, false)
		quiet := time.Now()
		<-time.After(time.Second)
		n.checkRate(t, "attempts to connect in a second of the outage", &n.dials, quiet, sidecars*int(time.Second/(maxBackoff/2)), sidecars/4)
		n.set(true)
		returned := time.Now()
		<-time.After(maxBackoff)
		wantUsed(t, all, true)
		<-time.After(time.Second - maxBackoff)
		synctest.Wait()
		n.checkRate(t, "connections in the first second", &n.dials, returned, sidecars, sidecars/4) // at least one each, since all use the upstream
		n.checkRate(t, "probes in the first second", &n.probes, returned, 3*sidecars, sidecars/4)
		stop()
		n.set(false)
	})
}

// TestRules_AfterOutage checks that a sidecar asks for the newest rules as soon as it uses its upstream again.
func TestRules_AfterOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{up: true}
		all, stop := runUpstreams(t.Context(), n, 1)
		ctx, cancel := context.WithCancel(t.Context())
		r := Rules{Commands: &Commands{Upstream: all[0]}, Store: ruleset.NewStore(), Log: slog.New(slog.DiscardHandler)}
		var running sync.WaitGroup
		running.Go(func() { r.Run(ctx) })
		for range 10 {
			n.set(false)
			<-time.After(5 * time.Second) // virtual time, as below
			returned := time.Now()
			n.set(true)
			<-time.After(maxBackoff)
			wantUsed(t, all, true)
			if asked, _ := n.since(&n.rules, returned); asked != 1 {
				t.Errorf("%d questions for the rules when the upstream is used again, want 1", asked)
			}
		}
		cancel()
		running.Wait()
		r.Commands.Close()
		stop()
		n.set(false)
	})
}
