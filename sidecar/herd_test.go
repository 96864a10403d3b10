package sidecar

import (
	"bufio"
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// network is a simulated network with one upstream, which leads. It records the attempts to connect.
type network struct {
	mu     sync.Mutex
	up     bool
	dials  []time.Time // attempts to connect
	probes []time.Time
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

// TestUpstream_ReturnsWithoutHerd stops an upstream for 5 s, which many sidecars use and lose at the same instant. After its return, each of them
// must use it within maxBackoff. They must not connect at the same time, nor connect or send probes more often than necessary.
func TestUpstream_ReturnsWithoutHerd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const sidecars, outage = 200, 5 * time.Second
		n := &network{up: true}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		all := make([]*Upstream, sidecars)
		for i := range all {
			all[i] = New(Config{Addresses: []string{"up:1"}, Credentials: Credentials{dial: n.dial}, Timeout: 50 * time.Millisecond})
			running.Go(func() { all[i].Run(ctx) })
		}
		answered := func(want bool) {
			t.Helper()
			synctest.Wait()
			for i, u := range all {
				if got := u.View().Leader != "" && !u.Silent(); got != want {
					t.Fatalf("sidecar %d uses the upstream: %t, want %t", i, got, want)
				}
			}
		}
		answered(true)
		n.set(false)
		<-time.After(outage - time.Second)
		answered(false)
		quiet := time.Now()
		<-time.After(time.Second)
		if dials, crowd := n.since(&n.dials, quiet); dials > sidecars*int(time.Second/(maxBackoff/2)) || crowd > sidecars/4 {
			t.Errorf("%d attempts to connect in a second of the outage, %d of them within 10 ms, want at most %d and %d", dials, crowd, sidecars*int(time.Second/(maxBackoff/2)), sidecars/4)
		}
		n.set(true)
		returned := time.Now()
		<-time.After(maxBackoff)
		answered(true)
		<-time.After(time.Second - maxBackoff)
		synctest.Wait()
		if dials, crowd := n.since(&n.dials, returned); dials != sidecars || crowd > sidecars/4 {
			t.Errorf("%d connections in the first second, %d of them within 10 ms, want %d and at most %d", dials, crowd, sidecars, sidecars/4)
		}
		if probes, crowd := n.since(&n.probes, returned); probes > 3*sidecars || crowd > sidecars/4 {
			t.Errorf("%d probes in the first second, %d of them within 10 ms, want at most %d and %d", probes, crowd, 3*sidecars, sidecars/4)
		}
		cancel()
		running.Wait()
		n.set(false)
	})
}
