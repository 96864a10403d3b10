package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The load of the measurement overload.
const (
	overloadConns   = 32
	overloadDepth   = 64 // outstanding requests of a connection while the peak is measured
	overloadTimes   = 3  // offered load, as a multiple of the peak
	overloadPhase   = 5 * time.Second
	overloadGiveUp  = time.Second // a request that could not be sent for this time is dropped, as by a client with a timeout
	overloadRecover = 2 * time.Second
	overloadBuffer  = 64 << 10         // bytes that a connection sends ahead; the rest waits in the client, which can give up
	overloadTick    = time.Millisecond // interval at which a connection sends the requests that are due
)

// overloadTarget is the option of the measured servers, with which they refuse commands.
var overloadTarget = []string{"--overload-target", "5"}

// overloaded offers three times the load that a server can answer, at a fixed rate, and then half of it, to a standalone
// server and then to the leader of a cluster. It measures the decisions and refusals per second, and the time until the
// latency is normal again. Latencies count from the time at which a request was due.
func overloaded(s settings, b *board) error {
	p, err := startUnder([]string{"taskset", "-c", "0"}, overloadTarget...) // the generator needs the other processor
	if err != nil {
		return err
	}
	if err := errors.Join(overloadServer(p.addr, p.pid(), s.rounds, b), p.stop()); err != nil {
		return err
	}
	return withPrograms(func(server string, _ generator) error {
		nodes, err := startGroup(server, overloadTarget...)
		if err != nil {
			return err
		}
		return errors.Join(overloadLeader(nodes, s.rounds, b), nodes.stop())
	})
}

// overloadLeader overloads the leader of a cluster, and counts the elections.
func overloadLeader(nodes *group, rounds int, b *board) error {
	leader, err := nodes.leader()
	if err != nil {
		return err
	}
	before, err := nodes.heartbeats()
	if err != nil {
		return err
	}
	b.note("the leader of a cluster of three, on all processors:")
	if err := overloadServer(leader.addr, leader.cmd.Process.Pid, rounds, b); err != nil {
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
	normal, err := offer(addr, phase{peak / 2, overloadPhase})
	if err != nil {
		return err
	}
	before, err := cpuSeconds(pid)
	if err != nil {
		return err
	}
	all, err := offer(addr, phase{peak * overloadTimes, overloadPhase}, phase{peak / 2, 4 * overloadPhase})
	if err != nil {
		return err
	}
	after, err := cpuSeconds(pid)
	if err != nil {
		return err
	}
	usual := normal.p99(normal.replies)
	b.note("peak %.0f replies/s, %.0f per second of CPU time; p99 at half of it %.1f ms; offered %.0f/s", peak, perCPU, usual, peak*overloadTimes)
	goodput := float64(all.decided[0].Load()) / overloadPhase.Seconds()
	b.note("while overloaded: %.0f decisions/s, %.0f BUSY/s, %d requests not sent, p99 %.0f ms",
		goodput, float64(all.busy[0].Load())/overloadPhase.Seconds(), all.dropped.Load(), all.p99(all.replies))
	b.note("decisions per second of CPU time, in all phases: %.0f", float64(all.decided[0].Load()+all.decided[1].Load())/(after-before))
	b.atLeast("goodput at 3 times the peak, share of the peak", 100*goodput/peak, 80, "%")
	b.atMost("time until p99 is at most 5 times the normal one", all.recovery(5*max(usual, 1)).Seconds(), overloadRecover.Seconds(), "s")
	b.atMost("p99 of decisions, multiple of the normal one", all.p99(all.replies)/max(usual, 1), 5, "")
	b.atMost("p99 of refusals", all.p99(all.refusals), 5, "ms")
	return nil
}

// phase is a load with a fixed rate, in requests per second.
type phase struct {
	rate float64
	long time.Duration
}

// offered is the result of an offered load. Decisions and latencies are counted by the phase in which they arrived.
type offered struct {
	begin         time.Time
	phases        []phase
	decided, busy []atomic.Int64
	dropped       atomic.Int64

	mu       sync.Mutex
	replies  []reply // last decision of each burst
	refusals []reply // last refusal of each burst
}

// reply is the arrival of the last reply to a burst since the begin, and its latency.
type reply struct{ at, latency time.Duration }

// phaseAt returns the phase at a time since the begin. Later replies belong to the last phase.
func (o *offered) phaseAt(at time.Duration) int {
	for i, p := range o.phases[:len(o.phases)-1] {
		if at < p.long {
			return i
		}
		at -= p.long
	}
	return len(o.phases) - 1
}

// end returns the end of a phase since the begin.
func (o *offered) end(i int) (end time.Duration) {
	for _, p := range o.phases[:i+1] {
		end += p.long
	}
	return end
}

// p99 returns the 99th percentile of the latencies of the first phase in milliseconds. The list is o.replies or o.refusals.
func (o *offered) p99(replies []reply) float64 {
	var list []time.Duration
	for _, r := range replies {
		if o.phaseAt(r.at) == 0 {
			list = append(list, r.latency)
		}
	}
	return p99Of(list)
}

func p99Of(list []time.Duration) float64 {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return float64(list[(len(list)-1)*99/100]) / float64(time.Millisecond)
}

// recovery returns the time from the end of the first phase until the p99 of an interval of 250 ms, and of all later
// ones of the following second, is at most bound milliseconds.
func (o *offered) recovery(bound float64) time.Duration {
	const interval, calm = 250 * time.Millisecond, 4
	good := 0
	for from := o.end(0); from < o.end(len(o.phases)-1); from += interval {
		var list []time.Duration
		for _, r := range o.replies {
			if r.at >= from && r.at < from+interval {
				list = append(list, r.latency)
			}
		}
		if good++; len(list) == 0 || p99Of(list) > bound {
			good = 0
		}
		if good == calm {
			return from - (calm-1)*interval - o.end(0)
		}
	}
	return o.end(len(o.phases)-1) - o.end(0)
}

// dueBy returns the number of requests of a connection that are due at a time since the begin.
func (o *offered) dueBy(at time.Duration) (n int64) {
	for _, p := range o.phases {
		n += int64(p.rate / overloadConns * max(0, min(at, p.long)).Seconds())
		if at -= p.long; at <= 0 {
			break
		}
	}
	return n
}

// offer sends requests at the rates of the phases, and reads the replies.
func offer(addr string, phases ...phase) (*offered, error) {
	o := &offered{begin: time.Now(), phases: phases, decided: make([]atomic.Int64, len(phases)), busy: make([]atomic.Int64, len(phases))}
	errs := make([]error, overloadConns)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = o.connection(addr, fmt.Sprintf("o:%02d", i)) })
	}
	all.Wait()
	return o, errors.Join(errs...)
}

// burst is a number of requests that became due at about the same time since the begin, and were sent in one write.
type burst struct {
	due   time.Duration
	count int64
}

// connection offers the share of one connection.
func (o *offered) connection(addr, key string) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.(*net.TCPConn).SetWriteBuffer(overloadBuffer); err != nil {
		return err
	}
	sent := make(chan burst, 1<<20)
	failed := make(chan error, 1)
	go func() { failed <- o.read(conn, sent) }()
	err = o.write(conn, throttleRequest(key), sent)
	close(sent)
	return errors.Join(err, <-failed)
}

// throttleRequest returns a CL.THROTTLE that is always admitted.
func throttleRequest(key string) string {
	return fmt.Sprintf("*5\r\n$11\r\nCL.THROTTLE\r\n$%d\r\n%s\r\n$7\r\n1000000\r\n$7\r\n1000000\r\n$1\r\n1\r\n", len(key), key)
}

// overloadBurst is the maximum number of requests of a write.
const overloadBurst = 4096

// write sends the requests when they are due. If it is late, because the server does not read, it drops old requests.
func (o *offered) write(conn net.Conn, request string, sent chan<- burst) error {
	requests := []byte(strings.Repeat(request, overloadBurst))
	ticker := time.NewTicker(overloadTick)
	defer ticker.Stop()
	end := o.end(len(o.phases) - 1)
	for next := int64(0); ; <-ticker.C {
		now := time.Since(o.begin)
		if old := o.dueBy(now - overloadGiveUp); old > next {
			o.dropped.Add(old - next)
			next = old
		}
		for due := o.dueBy(now); next < due; {
			n := min(due-next, overloadBurst)
			sent <- burst{now, n} // at most a tick after it was due, unless the connection is late
			next += n
			if _, err := conn.Write(requests[:n*int64(len(request))]); err != nil {
				return err
			}
		}
		if now > end {
			return nil
		}
	}
}

// read counts the replies to the requests that were sent.
func (o *offered) read(conn net.Conn, sent <-chan burst) error {
	var list, refusals []reply
	in := replyCounter{conn: conn}
	for b := range sent {
		var lastDecided, lastBusy time.Duration
		for left := b.count; left > 0; {
			decided, busy, err := in.next(left)
			if err != nil {
				return err
			}
			now := time.Since(o.begin)
			i := o.phaseAt(now)
			o.decided[i].Add(decided)
			o.busy[i].Add(busy)
			left -= decided + busy
			if decided > 0 {
				lastDecided = now
			}
			if busy > 0 {
				lastBusy = now
			}
		}
		if lastDecided > 0 {
			list = append(list, reply{lastDecided, lastDecided - b.due})
		}
		if lastBusy > 0 {
			refusals = append(refusals, reply{lastBusy, lastBusy - b.due})
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.replies = append(o.replies, list...)
	o.refusals = append(o.refusals, refusals...)
	return nil
}

// replyCounter counts replies without parsing them: a generator that parses them needs as much time as the server.
type replyCounter struct {
	conn          net.Conn
	buf           [64 << 10]byte
	kept          int   // bytes at the begin of buf that may be the begin of a mark
	decided, busy int64 // counted and not returned
}

// The first bytes of a decision and of a refusal. They do not occur elsewhere in a reply.
var decidedMark, busyMark = []byte("*5\r\n"), []byte("-BUS")

// next returns the numbers of decisions and refusals that have arrived, at least one and at most the given number.
func (c *replyCounter) next(most int64) (decided, busy int64, err error) {
	for c.decided+c.busy == 0 {
		n, err := c.conn.Read(c.buf[c.kept:])
		if err != nil {
			return 0, 0, err
		}
		text := c.buf[:c.kept+n]
		c.decided, c.busy = int64(bytes.Count(text, decidedMark)), int64(bytes.Count(text, busyMark))
		c.kept = copy(c.buf[:], text[max(0, len(text)-len(decidedMark)+1):])
	}
	decided = min(c.decided, most)
	busy = min(c.busy, most-decided)
	c.decided, c.busy = c.decided-decided, c.busy-busy
	return decided, busy, nil
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
		all.Go(func() { errs[i] = saturate(addr, fmt.Sprintf("o:%02d", i), begin.Add(overloadPhase), &replies) })
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
