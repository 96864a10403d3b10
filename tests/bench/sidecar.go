package main

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// The load of the measurement of sidecars: clients that wait for each reply, on so many keys that no key is hot.
const (
	sidecars       = 4
	sidecarKeys    = 100_000
	sidecarCommand = "CL.THROTTLE cold:{key} 99999 1 60"
	// sidecarBar is the largest permitted ratio of the CPU time of the upstream per request through sidecars to that of
	// direct requests.
	sidecarBar = 0.25
)

// measureSidecars measures requests through sidecars on hot keys, on exhausted keys, on a key that two sidecars share, and on
// cold keys.
func measureSidecars(s settings, b *board) error {
	return withGenerator(func(g generator) error {
		return withServer(nil, func(p *process) error {
			binary := filepath.Join(p.dir, "throttled")
			standalone := []upstream{{p.addr, p.pid()}}
			for _, measure := range []func(string, upstream, settings, *board) error{g.hotSidecar, g.refusingSidecar, fairSidecars} {
				if err := measure(binary, standalone[0], s, b); err != nil {
					return err
				}
			}
			return errors.Join(g.compareSidecars("standalone", binary, standalone, 400_000, s, b), g.compareCluster(binary, s, b))
		})
	})
}

// compareCluster compares the CPU time of all nodes of a cluster together, whose clients use different nodes.
func (g generator) compareCluster(binary string, s settings, b *board) error {
	group, err := startGroup(binary)
	if err != nil {
		return err
	}
	var nodes []upstream
	for _, n := range group.nodes {
		nodes = append(nodes, upstream{n.addr, n.cmd.Process.Pid})
	}
	return errors.Join(g.compareSidecars("cluster", binary, nodes, 20_000, s, b), group.stop())
}

// upstream is a process that decides the requests of sidecars.
type upstream struct {
	addr string
	pid  int
}

// compareSidecars compares the CPU time that the upstreams spend on the requests of clients with that on the same requests
// through sidecars.
func (g generator) compareSidecars(name, binary string, ups []upstream, requests int, s settings, b *board) error {
	sides, stop, err := startSidecars(binary, sidecars, ups)
	if err != nil {
		return errors.Join(err, stop())
	}
	var direct []string
	for _, u := range ups {
		direct = append(direct, u.addr)
	}
	if _, err := g.costAt(direct, ups, requests, s.conns); err != nil { // creates most of the keys
		return errors.Join(err, stop())
	}
	var costs [2][]float64
	for range s.rounds {
		for i, addrs := range [][]string{direct, sides} {
			cost, err := g.costAt(addrs, ups, requests, s.conns)
			if err != nil {
				return errors.Join(err, stop())
			}
			costs[i] = append(costs[i], cost)
		}
	}
	same := func(us float64) float64 { return us }
	without, with := median(costs[0], same), median(costs[1], same)
	b.note("%s: CPU per request of %d clients at depth 1, median of %d rounds: %.2f us directly, %.2f us through %d sidecars", name, s.conns, s.rounds, without, with, sidecars)
	if len(ups) == 1 {
		b.atMost(name+": CPU through sidecars, ratio to direct requests", with/without, sidecarBar, "x")
	} else { // replication takes most of the CPU time of a cluster, and depends on the load of the machine
		b.note("%s: CPU through sidecars, ratio to direct requests %.2f x", name, with/without)
	}
	return stop()
}

// startSidecars starts n sidecars, each of which prefers another upstream, and returns their addresses. The function stop
// stops them, also after an error.
func startSidecars(binary string, n int, ups []upstream) (addrs []string, stop func() error, err error) {
	started := &group{}
	stop = started.stop
	if addrs, err = freeAddrs(n); err != nil {
		return nil, stop, err
	}
	for i, addr := range addrs {
		list := ""
		for j := range ups {
			list += ups[(i+j)%len(ups)].addr + ","
		}
		n := &node{id: fmt.Sprint("sidecar", i), addr: addr, args: []string{binary, "--port", portOf(addr), "--upstream", list, "--upstream-timeout", "5000"}}
		if err := n.start(); err != nil {
			return nil, stop, err
		}
		started.nodes = append(started.nodes, n)
		if err := awaitUpstream(addr); err != nil {
			return nil, stop, err
		}
	}
	return addrs, stop, nil
}

// awaitUpstream waits until a sidecar uses an upstream.
func awaitUpstream(addr string) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for end := time.Now().Add(formWithin); time.Now().Before(end); <-ticker.C {
		if text, err := infoField(addr, "sidecar", "upstream_link_status"); err == nil && text == "up" {
			return nil
		}
	}
	return errors.New("the sidecar does not reach its upstream")
}

// costAt returns the CPU time of the upstreams in microseconds per request, while clients send a number of requests to all
// addresses together.
func (g generator) costAt(addrs []string, ups []upstream, requests, conns int) (float64, error) {
	before, err := cpuOf(ups)
	if err != nil {
		return 0, err
	}
	failed := make([]error, len(addrs))
	var wait sync.WaitGroup
	for i, addr := range addrs {
		share := func(n int) string { return strconv.Itoa((n + i) / len(addrs)) }
		wait.Go(func() { failed[i] = g.sendCold(addr, share(conns), share(requests)) })
	}
	wait.Wait()
	after, err := cpuOf(ups)
	return (after - before) * 1e6 / float64(requests), errors.Join(append(failed, err)...)
}

func (g generator) sendCold(addr, conns, requests string) error {
	out, err := exec.Command(g.binary, "-output", "json", "-progress=false", "-command", sidecarCommand, "-keys", strconv.Itoa(sidecarKeys),
		"-depth", "1", "-conns", conns, "-requests", requests, "-warmup", "0s", addr).Output()
	if err != nil {
		return fmt.Errorf("load generator: %w\n%s", err, out)
	}
	f, err := parseFigures(out)
	if err == nil && f["denied_share"] > 0 {
		err = errors.New("some requests were denied")
	}
	return err
}

// cpuOf returns the CPU time of all upstreams in seconds.
func cpuOf(ups []upstream) (sum float64, err error) {
	for _, u := range ups {
		seconds, err := cpuSeconds(u.pid)
		if err != nil {
			return 0, err
		}
		sum += seconds
	}
	return sum, nil
}
