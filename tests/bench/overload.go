package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The load of the measurement overload.
const (
	overloadConns  = 32
	overloadDepth  = 64 // outstanding requests of a connection while the peak is measured
	overloadTimes  = 3  // offered load, as a multiple of the peak
	overloadPeak   = 2 * time.Second
	overloadNormal = 2 * time.Second
	overloadPhase  = 5 * time.Second
	overloadAfter  = 5 * time.Second        // of half the peak, after the overload
	overloadGiveUp = 100 * time.Millisecond // a request that could not be sent for this time is dropped, as by a client with a timeout
	overloadBuffer = 64 << 10               // bytes that a connection sends ahead; the rest waits in the client, which can give up
	overloadTick   = time.Millisecond       // interval at which a connection sends the requests that are due
	overloadBurst  = 256                    // maximum number of requests of a write
)

// overloadOptions lists the options of the measured servers.
var overloadOptions = [][]string{
	{"--client-receive-buffer", "0", "--overload-target", "0"},
	{"--overload-target", "0"},
	{"--overload-target", "5"},
}

// overloaded offers three times the load that a server can answer, at a fixed rate, and then half of it, to standalone
// servers and to leaders of clusters.
func overloaded(s settings, b *board) error {
	dir, err := os.MkdirTemp("", "throttled-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	server := filepath.Join(dir, "throttled")
	if err := buildServer(server); err != nil {
		return err
	}
	for _, options := range overloadOptions {
		if err := overloadStandalone(server, options, s.rounds, b); err != nil {
			return err
		}
		if err := overloadLeader(server, options, s.rounds, b); err != nil {
			return err
		}
	}
	return nil
}

// overloadStandalone overloads a server on one processor. The generator uses the others.
func overloadStandalone(server string, options []string, rounds int, b *board) error {
	p, err := startBuilt([]string{"taskset", "-c", "0", server}, options...)
	if err != nil {
		return err
	}
	last := runtime.NumCPU() - 1
	if err := bindSelf(min(1, last), last); err != nil {
		return errors.Join(err, p.stop())
	}
	defer func() { _ = bindSelf(0, last) }()
	b.note("standalone, on one processor, with %s:", strings.Join(options, " "))
	return errors.Join(overloadServer(p.addr, p.pid(), rounds, b), p.stop())
}

// bindSelf makes all threads of this process run on the given range of processors.
func bindSelf(first, last int) error {
	if out, err := exec.Command("taskset", "-acp", fmt.Sprintf("%d-%d", first, last), fmt.Sprint(os.Getpid())).CombinedOutput(); err != nil {
		return fmt.Errorf("taskset: %w\n%s", err, out)
	}
	return nil
}

// overloadLeader overloads the leader of a cluster, and counts the elections.
func overloadLeader(server string, options []string, rounds int, b *board) error {
	nodes, err := startGroup(server, options...)
	if err != nil {
		return err
	}
	b.note("the leader of a cluster of three, on all processors, with %s:", strings.Join(options, " "))
	return errors.Join(overloadNodes(nodes, rounds, b), nodes.stop())
}

func overloadNodes(nodes *group, rounds int, b *board) error {
	leader, err := nodes.leader()
	if err != nil {
		return err
	}
	before, err := nodes.heartbeats()
	if err != nil {
		return err
	}
	if err := overloadServer(leader.addr, leader.pid(), rounds, b); err != nil {
		return err
	}
	after, err := nodes.heartbeats()
	b.atMost("elections", after.term-before.term, 0, "")
	return err
}

// overloadServer measures the peak, which is the best of several rounds, then the normal latency, and then an overload.
func overloadServer(addr string, pid int, rounds int, b *board) error {
	var peak, perCPU float64
	for range rounds {
		replies, efficiency, err := peakOf(addr, pid)
		if err != nil {
			return err
		}
		peak, perCPU = max(peak, replies), max(perCPU, efficiency)
	}
	normal, err := offer(addr, phase{peak / 2, overloadNormal})
	if err != nil {
		return err
	}
	before, err := cpuSeconds(pid)
	if err != nil {
		return err
	}
	all, err := offer(addr, phase{peak * overloadTimes, overloadPhase}, phase{peak / 2, overloadAfter})
	if err != nil {
		return err
	}
	after, err := cpuSeconds(pid)
	b.note("peak %.0f replies/s, %.0f per second of CPU time; decisions per second of CPU time later %.0f",
		peak, perCPU, float64(all.decided[0].Load()+all.decided[1].Load())/(after-before))
	showOverload(normal, all, peak, b)
	return err
}

// showOverload prints the results of an overload.
func showOverload(normal, all *offered, peak float64, b *board) {
	usual, _ := normal.p99(normal.replies)
	perSecond := func(n int64) float64 { return float64(n) / overloadPhase.Seconds() }
	b.note("offered %.0f/s: %.0f decisions/s, %.0f BUSY/s, %.0f/s not sent, since their time had passed", peak*overloadTimes,
		perSecond(all.decided[0].Load()), perSecond(all.busy[0].Load()), perSecond(all.dropped.Load()))
	decidedDue, decidedSent := all.p99(all.replies)
	busyDue, busySent := all.p99(all.refusals)
	b.note("p99 since a request was due (since it was sent): at half the peak %.1f ms; decisions %.0f (%.0f) ms; BUSY %.0f (%.0f) ms",
		usual, decidedDue, decidedSent, busyDue, busySent)
	b.atLeast("goodput at 3 times the peak, share of the peak", 100*perSecond(all.decided[0].Load())/peak, 80, "%")
	b.atMost("time until p99 is at most 5 times the normal one", all.recovery(5*max(usual, 1)).Seconds(), 2, "s")
}

// peakOf returns the replies per second, and per second of CPU time, of a server whose connections always have requests
// outstanding.
func peakOf(addr string, pid int) (perSecond, perCPU float64, err error) {
	before, err := cpuSeconds(pid)
	if err != nil {
		return 0, 0, err
	}
	var replies atomic.Int64
	begin := time.Now()
	errs := make([]error, overloadConns)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = saturate(addr, fmt.Sprintf("o:%02d", i), begin.Add(overloadPeak), &replies) })
	}
	all.Wait()
	elapsed := time.Since(begin).Seconds()
	after, err := cpuSeconds(pid)
	n := float64(replies.Load())
	return n / elapsed, n / (after - before), errors.Join(append(errs, err)...)
}

// saturate sends bursts of requests until the given time.
func saturate(addr, key string, end time.Time, replies *atomic.Int64) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	requests := []byte(strings.Repeat(throttleRequest(key), overloadDepth))
	in := replyCounter{conn: conn}
	for time.Now().Before(end) {
		if _, err := conn.Write(requests); err != nil {
			return err
		}
		for left := int64(overloadDepth); left > 0; {
			decided, busy, err := in.next(left)
			if err != nil {
				return err
			}
			left -= decided + busy
		}
		replies.Add(overloadDepth)
	}
	return nil
}
