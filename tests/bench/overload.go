package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
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
	overloadNormal = 4 * time.Second
	overloadShort  = 5 * time.Second        // maximum duration of an overload without refusals
	overloadAfter  = 5 * time.Second        // of half the peak, after the overload
	overloadOthers = 1_000                  // requests per second of other clients
	overloadWarmup = 2 * time.Second        // more than the time until the latencies of other clients count
	overloadGiveUp = 100 * time.Millisecond // a request that could not be sent for this time is dropped, as by a client with a timeout
	overloadBuffer = 64 << 10               // size of the send buffer of a connection; the client can drop requests that are not in it yet
	overloadTick   = time.Millisecond       // interval at which a connection sends the requests that are due
	overloadBurst  = 256                    // maximum number of requests of a write
)

// Bars of F75.
const (
	overloadGoodput  = 80 // percent of the peak
	overloadP99      = 5  // times the normal one
	overloadRefused  = 99 // percent of the requests without a decision
	overloadBusy     = 5  // ms
	overloadRecovery = 2  // s
)

// overloadKey returns the key of a connection.
func overloadKey(i int) string { return fmt.Sprintf("o:%02d", i) }

// overloadRow is an overloaded server: a kind and its options. Only a server that sheds requests must reach the bars of F75 for
// latencies. The others show the difference, for which a shorter overload is sufficient.
type overloadRow struct {
	kind    string // for the flag -rows
	options []string
	sheds   bool
	run     func(o *overloader) error
}

// overloadRows lists the measured servers.
var overloadRows = []overloadRow{
	{"standalone", []string{"--client-receive-buffer", "0", "--overload-target", "0"}, false, (*overloader).standalone},
	{"standalone", []string{"--overload-target", "0"}, false, (*overloader).standalone},
	{"standalone", []string{"--overload-target", "5"}, true, (*overloader).standalone},
	{"leader", []string{"--client-receive-buffer", "0", "--overload-target", "0"}, false, (*overloader).leader},
	{"leader", []string{"--overload-target", "0"}, false, (*overloader).leader},
	{"leader", []string{"--overload-target", "5"}, true, (*overloader).leader},
}

// overloader measures one row.
type overloader struct {
	*board
	overloadRow
	server  string // the binary
	others  generator
	rounds  int
	lasting time.Duration // of the overload
}

// overloaded offers three times the load that a server can answer, at a fixed rate, and then half of it, to standalone
// servers and to leaders of clusters.
func overloaded(s settings, b *board) error {
	rows := slices.DeleteFunc(slices.Clone(overloadRows), func(r overloadRow) bool { return !s.selects(r.kind) })
	if len(rows) == 0 {
		return fmt.Errorf("there is no row %q", s.rows)
	}
	if s.overload <= overloadWarmup {
		return fmt.Errorf("an overload of %v is too short: -overload must be more than %v", s.overload, overloadWarmup)
	}
	return withPrograms(func(server string, g generator) error {
		g.wrapper = realTimeGenerator
		for _, row := range rows {
			o := &overloader{board: b, overloadRow: row, server: server, others: g, rounds: s.rounds, lasting: s.overload}
			if !row.sheds {
				o.lasting = min(o.lasting, overloadShort)
			}
			if err := row.run(o); err != nil {
				return err
			}
		}
		return nil
	})
}

// standalone overloads a server on one processor. The generator uses the others.
func (o *overloader) standalone() error {
	p, err := startBuilt([]string{"taskset", "-c", "0", o.server}, o.options...)
	if err != nil {
		return err
	}
	last := runtime.NumCPU() - 1
	if err := bindSelf(min(1, last), last); err != nil {
		return errors.Join(err, p.stop())
	}
	defer func() { _ = bindSelf(0, last) }()
	o.note("standalone, on one processor, with %s:", strings.Join(o.options, " "))
	return errors.Join(o.overload(p.addr, p.pid()), p.stop())
}

// bindSelf makes all threads of this process run on the given range of processors.
func bindSelf(first, last int) error {
	if out, err := exec.Command("taskset", "-acp", fmt.Sprintf("%d-%d", first, last), fmt.Sprint(os.Getpid())).CombinedOutput(); err != nil {
		return fmt.Errorf("taskset: %w\n%s", err, out)
	}
	return nil
}

// leader overloads the leader of a cluster, and counts the elections.
func (o *overloader) leader() error {
	nodes, err := startGroup(o.server, o.options...)
	if err != nil {
		return err
	}
	o.note("the leader of a cluster of three, on all processors, with %s:", strings.Join(o.options, " "))
	return errors.Join(o.overloadNodes(nodes), nodes.stop())
}

func (o *overloader) overloadNodes(nodes *group) error {
	leader, err := nodes.leader()
	if err != nil {
		return err
	}
	elections, err := nodes.electionsDuring(func() error { return o.overload(leader.addr, leader.pid()) })
	if err != nil {
		return err
	}
	last, err := nodes.leader()
	o.atMost("elections", elections, 0, "")
	o.atMost("changes of the leader", float64(countTrue(last != leader)), 0, "")
	return err
}

// overload measures the peak and the normal latency, of which medians are used, and then an overload.
func (o *overloader) overload(addr string, pid int) error {
	peak, perCPU, err := o.peak(addr, pid)
	if err != nil {
		return err
	}
	normal, err := o.normal(addr, peak/2)
	if err != nil {
		return err
	}
	before, err := cpuSeconds(pid)
	if err != nil {
		return err
	}
	sampled := sampleQueue(addr, o.lasting/2)
	now, err := o.offerBeside(addr, phase{peak * overloadTimes, o.lasting}, phase{peak / 2, overloadAfter})
	if err != nil {
		return err
	}
	after, err := cpuSeconds(pid)
	if err != nil {
		return err
	}
	o.note("peak %.0f decisions/s, %.0f per second of CPU time; decisions per second of CPU time later %.0f",
		peak, perCPU, float64(now.decided[0].Load()+now.decided[1].Load())/(after-before))
	o.showResults(normal.offered, now.offered, peak)
	o.showOthers(normal.others, now.others)
	return o.showQueue(<-sampled, now.offered)
}

// peak returns the decisions per second, and per second of CPU time.
func (o *overloader) peak(addr string, pid int) (perSecond, perCPU float64, err error) {
	type result struct{ perSecond, perCPU float64 }
	var runs []result
	for range o.rounds {
		perSecond, perCPU, err := peakOf(addr, pid)
		if err != nil {
			return 0, 0, err
		}
		runs = append(runs, result{perSecond, perCPU})
	}
	return median(runs, func(r result) float64 { return r.perSecond }), median(runs, func(r result) float64 { return r.perCPU }), nil
}

// served is an offered load, and the latencies of other clients during its first phase.
type served struct {
	*offered
	others latencies
}

// normal returns the run with the median latency at a rate below the peak, and the median latencies of others.
func (o *overloader) normal(addr string, rate float64) (served, error) {
	var runs []served
	for range o.rounds {
		s, err := o.offerBeside(addr, phase{rate, overloadNormal})
		if err != nil {
			return served{}, err
		}
		runs = append(runs, s)
	}
	slices.SortFunc(runs, func(a, b served) int { return cmp.Compare(a.p99Sent(), b.p99Sent()) })
	return served{runs[len(runs)/2].offered, latencies{
		p50: median(runs, func(s served) float64 { return s.others.p50 }), p99: median(runs, func(s served) float64 { return s.others.p99 }),
	}}, nil
}

// p99Sent returns the 99th percentile of the latency of decisions since they were sent, in milliseconds.
func (s served) p99Sent() float64 {
	_, sent := s.p99(s.replies)
	return sent
}

// offerBeside offers a load, and measures the latencies of other clients during its first phase. They await each reply.
func (o *overloader) offerBeside(addr string, phases ...phase) (s served, err error) {
	measured := make(chan error, 1)
	go func() {
		var err error
		s.others, err = o.others.openLoop(addr, overloadOthers, phases[0].long-overloadWarmup, "-keys", "1000", "-key-size", "16", "-prefix", "m:", "-limit", roomy)
		measured <- err
	}()
	load, err := offer(addr, phases...)
	err = errors.Join(err, <-measured)
	s.offered = load
	return s, err
}

// showOthers compares clients that await each reply during the overload with those before.
func (o *overloader) showOthers(usual, now latencies) {
	o.note("clients that await each reply: p50 %.2f ms, p99 %.2f ms, at half the peak %.2f ms, %.2f ms", now.p50, now.p99, usual.p50, usual.p99)
	if o.sheds {
		o.atMost("p99 of clients that await each reply, to normal", now.p99/usual.p99, overloadP99, "x")
	}
}

// queue is the number of bytes that wait in the sockets of a server and of its clients.
type queue struct {
	bytes int64
	err   error
}

// sampleQueue returns a channel for the queue of a server after the given time.
func sampleQueue(addr string, after time.Duration) <-chan queue {
	sampled := make(chan queue, 1)
	time.AfterFunc(after, func() {
		bytes, err := queuedFor(addr)
		sampled <- queue{bytes, err}
	})
	return sampled
}

// showQueue prints the time after which the requests that wait in sockets are answered at the rate of the overload.
func (o *overloader) showQueue(q queue, all *offered) error {
	waiting := float64(q.bytes) / float64(len(throttleRequest(overloadKey(0))))
	perSec := float64(all.decided[0].Load()+all.busy[0].Load()) / o.lasting.Seconds()
	o.note("after half of the time, %.0f KiB of each connection wait in sockets: all of them are answered after %.0f ms", float64(q.bytes)/1024/overloadConns, 1000*waiting/perSec)
	return q.err
}

// showResults prints the results of an overload. Latencies have their bars since a request was sent: before that, it waits in the
// client, which drops it after overloadGiveUp. The recovery ends when p99 is at most 5 times the normal one, or 5 ms.
func (o *overloader) showResults(normal, all *offered, peak float64) {
	usualDue, usualSent := normal.p99(normal.replies)
	perSecond := func(n int64) float64 { return float64(n) / o.lasting.Seconds() }
	decided, busy := perSecond(all.decided[0].Load()), perSecond(all.busy[0].Load())
	o.note("offered %.0f/s for %v: %.0f decisions/s, %.0f BUSY/s, %.0f/s not sent, since their time had passed", peak*overloadTimes,
		o.lasting, decided, busy, perSecond(all.dropped[0].Load()))
	decidedDue, decidedSent := all.p99(all.replies)
	busyDue, busySent := all.p99(all.refusals)
	o.note("p99 since a request was due (since it was sent): at half the peak %.1f (%.1f) ms; decisions %.0f (%.0f) ms; BUSY %.0f (%.0f) ms",
		usualDue, usualSent, decidedDue, decidedSent, busyDue, busySent)
	o.atLeast("goodput at 3 times the peak, share of the peak", 100*decided/peak, overloadGoodput, "%")
	if o.sheds {
		o.atMost("p99 of decisions since sent, to the normal one", decidedSent/usualSent, overloadP99, "x")
		o.atLeast("BUSY, share of requests without a decision", 100*busy/(peak*overloadTimes-decided), overloadRefused, "%")
		o.atMost("p99 of BUSY since sent", busySent, overloadBusy, "ms")
	}
	calm := overloadP99 * max(usualDue, 1)
	o.atMost(fmt.Sprintf("time until p99 is at most %.1f ms", calm), all.recovery(calm).Seconds(), overloadRecovery, "s")
}

// peakOf returns the decisions per second, and per second of CPU time, of a server whose connections always have requests
// outstanding.
func peakOf(addr string, pid int) (perSecond, perCPU float64, err error) {
	before, err := cpuSeconds(pid)
	if err != nil {
		return 0, 0, err
	}
	var decisions atomic.Int64
	begin := time.Now()
	errs := make([]error, overloadConns)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = saturate(addr, overloadKey(i), begin.Add(overloadPeak), &decisions) })
	}
	all.Wait()
	elapsed := time.Since(begin).Seconds()
	after, err := cpuSeconds(pid)
	n := float64(decisions.Load())
	return n / elapsed, n / (after - before), errors.Join(append(errs, err)...)
}

// saturate sends bursts of requests until the given time.
func saturate(addr, key string, end time.Time, decisions *atomic.Int64) error {
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
			decisions.Add(decided)
		}
	}
	return nil
}
