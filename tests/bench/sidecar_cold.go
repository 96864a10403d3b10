package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
)

// The requests on cold keys: clients wait for each reply, on so many keys that no key is hot.
const (
	coldKeys    = 100_000
	coldCommand = "CL.THROTTLE cold:{key} 99999 1 60"
	// coldBar is the largest permitted ratio of the CPU time of the upstream per request through sidecars to that of direct
	// requests.
	coldBar = 0.25
)

// coldLoads are the numbers of clients and of sidecars. The bar applies to the first load. The others show the effect of the
// number of clients per sidecar, which is the maximum number of requests in one write.
var coldLoads = []struct{ clients, sidecars int }{{50, 4}, {50, 1}, {200, 4}}

// coldBench measures requests on cold keys with one standalone server, or with the nodes of a cluster, the leader first.
type coldBench struct {
	generator
	name, binary string
	ups          []upstream
	requests     int // per run
	settings     settings
	board        *board
}

// measureColdSidecars measures requests on cold keys: with a standalone upstream, and with a cluster in both modes of
// replication.
func measureColdSidecars(s settings, b *board) error {
	return withGenerator(func(g generator) error {
		return withServer(nil, func(p *process) error {
			c := coldBench{generator: g, binary: filepath.Join(p.dir, "throttled"), settings: s, board: b}
			alone := c
			alone.name, alone.ups, alone.requests = "standalone", []upstream{{p.addr, p.pid()}}, 100_000
			return errors.Join(alone.run(), c.runCluster("sync", 20_000), c.runCluster("async", 60_000))
		})
	})
}

// coldHeartbeat is the heartbeat of the clusters in milliseconds. With the default, a busy machine elects another leader during
// the measurement. The sidecars then refuse the requests whose outcome is uncertain, as upstream-away demands.
const coldHeartbeat = "2000"

// runCluster measures with a cluster as the upstream.
func (c coldBench) runCluster(mode string, requests int) error {
	group, err := startGroup(c.binary, "--replication", mode, "--raft-heartbeat", coldHeartbeat)
	if err != nil {
		return err
	}
	leader, err := group.leader()
	if err != nil {
		return errors.Join(err, group.stop())
	}
	c.name, c.ups, c.requests = "cluster, "+mode, []upstream{{leader.addr, leader.pid()}}, requests
	for _, n := range group.nodes {
		if n != leader {
			c.ups = append(c.ups, upstream{n.addr, n.pid()})
		}
	}
	return errors.Join(c.run(), group.stop())
}

// run measures all loads.
func (c coldBench) run() error {
	for i, load := range coldLoads {
		ratio, err := c.compare(load.clients, load.sidecars)
		if err != nil {
			return err
		}
		if i == 0 {
			c.board.atMost(c.name+": CPU through sidecars, ratio to direct requests", ratio, coldBar, "x")
		}
	}
	return nil
}

// coldWay is a list of addresses to which clients are connected, and the runs in which they are.
type coldWay struct {
	name  string
	addrs []string
	runs  []coldRun
}

// compare prints the work of the upstreams for the requests of clients that are connected to all upstreams, to the leader,
// and to sidecars. It returns the ratio of the CPU time of the last to that of the first.
func (c coldBench) compare(clients, sidecars int) (float64, error) {
	sides, stop, err := startSidecars(c.binary, sidecars, c.ups)
	if err != nil {
		return 0, errors.Join(err, stop())
	}
	var direct []string
	for _, u := range c.ups {
		direct = append(direct, u.addr)
	}
	ways := []*coldWay{{name: "directly", addrs: direct}}
	if len(c.ups) > 1 {
		ways = append(ways, &coldWay{name: "to the leader", addrs: direct[:1]})
	}
	ways = append(ways, &coldWay{name: "through sidecars", addrs: sides})
	if err := c.runWays(ways, clients); err != nil {
		return 0, errors.Join(err, stop())
	}
	c.board.note("%s: %d clients, %d sidecars, medians of %d rounds:", c.name, clients, sidecars, c.settings.rounds)
	for _, w := range ways {
		c.board.note("  %-16s %s", w.name, describeCold(w.runs))
	}
	return median(ways[len(ways)-1].runs, coldRun.total) / median(ways[0].runs, coldRun.total), stop()
}

// runWays runs all ways in each round. It does not record the first round, which creates most of the keys.
func (c coldBench) runWays(ways []*coldWay, clients int) error {
	for round := range c.settings.rounds + 1 {
		for _, w := range ways {
			r, err := c.send(w.addrs, clients)
			if err != nil {
				return err
			}
			if round > 0 {
				w.runs = append(w.runs, r)
			}
		}
	}
	return nil
}

// coldRun is the work of the upstreams for a number of requests, and the latencies of the requests.
type coldRun struct {
	requests, seconds float64
	before, after     upstreamWork
	p50, p99          float64 // ms; of several addresses the mean p50, and the highest p99
}

// upstreamWork is the work of the upstreams since they have started. All numbers except cpu are those of the first one.
type upstreamWork struct {
	cpu, leaderCPU         float64 // seconds
	reads, writes, entries float64
}

func (r coldRun) total() float64  { return (r.after.cpu - r.before.cpu) * 1e6 / r.requests }
func (r coldRun) leader() float64 { return (r.after.leaderCPU - r.before.leaderCPU) * 1e6 / r.requests }
func (r coldRun) perRead() float64 {
	return r.requests / max(1, r.after.reads-r.before.reads)
}
func (r coldRun) perWrite() float64 {
	return r.requests / max(1, r.after.writes-r.before.writes)
}
func (r coldRun) perEntry() float64 {
	return r.requests / max(1, r.after.entries-r.before.entries)
}
func (r coldRun) latency50() float64 { return r.p50 }
func (r coldRun) latency99() float64 { return r.p99 }
func (r coldRun) rate() float64      { return r.requests / r.seconds }

func describeCold(runs []coldRun) string {
	text := fmt.Sprintf("CPU per request %6.2f us", median(runs, coldRun.total))
	if runs[0].after.entries > 0 {
		text += fmt.Sprintf(" (leader %6.2f), requests per entry %5.1f", median(runs, coldRun.leader), median(runs, coldRun.perEntry))
	}
	return text + fmt.Sprintf(", per read %4.1f, per write %4.1f; p50 %.2f p99 %.2f ms, %.0f req/s", median(runs, coldRun.perRead),
		median(runs, coldRun.perWrite), median(runs, coldRun.latency50), median(runs, coldRun.latency99), median(runs, coldRun.rate))
}

// send sends requests to all addresses together, and returns the work of the upstreams meanwhile.
func (c coldBench) send(addrs []string, clients int) (r coldRun, err error) {
	r.requests = float64(c.requests)
	if r.before, err = workOf(c.ups); err != nil {
		return r, err
	}
	failed, figures := make([]error, len(addrs)), make([]map[string]float64, len(addrs))
	var wait sync.WaitGroup
	for i, addr := range addrs {
		share := func(n int) string { return strconv.Itoa((n + i) / len(addrs)) }
		wait.Go(func() { figures[i], failed[i] = c.sendCold(addr, i+1, share(clients), share(c.requests)) })
	}
	wait.Wait()
	r.after, err = workOf(c.ups)
	for _, f := range figures {
		r.p50 += f["latency_p50_us"] / 1000 / float64(len(figures))
		r.p99 = max(r.p99, f["latency_p99_us"]/1000)
		r.seconds = max(r.seconds, f["seconds"])
	}
	return r, errors.Join(append(failed, err)...) // if the leader has changed, err is the reason why requests were denied
}

// sendCold sends requests to an address. Concurrent calls have different seeds, so that they use the keys in different orders.
func (g generator) sendCold(addr string, seed int, clients, requests string) (map[string]float64, error) {
	out, err := g.command("-output", "json", "-progress=false", "-command", coldCommand, "-keys", strconv.Itoa(coldKeys), "-seed", strconv.Itoa(seed),
		"-depth", "1", "-conns", clients, "-requests", requests, "-warmup", "0s", addr).Output()
	if err != nil {
		return nil, fmt.Errorf("load generator: %w\n%s", err, out)
	}
	f, err := parseFigures(out)
	if err == nil && f["denied_share"] > 0 {
		err = fmt.Errorf("%s has denied some requests, although no limit is reached", addr)
	}
	return f, err
}

func workOf(ups []upstream) (w upstreamWork, err error) {
	for i, u := range ups {
		seconds, err := cpuSeconds(u.pid)
		if err != nil {
			return w, err
		}
		if w.cpu += seconds; i == 0 {
			w.leaderCPU = seconds
		}
	}
	first := ups[0].addr
	if w.reads, err = infoNumber(first, "stats", "total_reads_processed"); err != nil {
		return w, err
	}
	if w.writes, err = infoNumber(first, "stats", "total_writes_processed"); err != nil || len(ups) == 1 {
		return w, err
	}
	if w.entries, err = infoNumber(first, "replication", "replicated_entries"); err != nil {
		return w, err
	}
	role, err := infoField(first, "replication", "role")
	if err == nil && role != "master" {
		err = errors.New("another node has become the leader during the measurement: repeat it while the machine is less busy")
	}
	return w, err
}

func infoNumber(addr, section, name string) (float64, error) {
	text, err := infoField(addr, section, name)
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(text, 64)
}
