package main

import (
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// phase is a load with a fixed rate, in requests per second.
type phase struct {
	rate float64
	long time.Duration
}

// offered is the result of an offered load. Decisions and latencies are counted by the phase in which they arrived, and dropped
// requests by the phase in which they were dropped.
type offered struct {
	begin         time.Time
	phases        []phase
	decided, busy []atomic.Int64
	dropped       []atomic.Int64

	mu       sync.Mutex
	replies  []reply // last decision of each burst
	refusals []reply // last refusal of each burst
}

// reply is the arrival of the last reply to a burst since the start, and its latencies.
type reply struct {
	at        time.Duration
	sinceDue  time.Duration // from the time at which the first request of the burst was due
	sinceSent time.Duration // from the start of the write of the burst
}

// phaseAt returns the phase at a time since the start. Later replies belong to the last phase.
func (o *offered) phaseAt(at time.Duration) int {
	for i, p := range o.phases[:len(o.phases)-1] {
		if at < p.long {
			return i
		}
		at -= p.long
	}
	return len(o.phases) - 1
}

// end returns the end of a phase since the start.
func (o *offered) end(i int) (end time.Duration) {
	for _, p := range o.phases[:i+1] {
		end += p.long
	}
	return end
}

// p99 returns the 99th percentiles of the latencies of the first phase in milliseconds, since the requests were due and
// since they were sent. The list is o.replies or o.refusals.
func (o *offered) p99(replies []reply) (sinceDue, sinceSent float64) {
	var due, sent []time.Duration
	for _, r := range replies {
		if o.phaseAt(r.at) == 0 {
			due, sent = append(due, r.sinceDue), append(sent, r.sinceSent)
		}
	}
	return p99Of(due), p99Of(sent)
}

// p99Of returns the 99th percentile in milliseconds. That of an empty list is not a number, which reaches no bar.
func p99Of(list []time.Duration) float64 {
	if len(list) == 0 {
		return math.NaN()
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
				list = append(list, r.sinceDue)
			}
		}
		if good++; !(p99Of(list) <= bound) { // also without replies
			good = 0
		}
		if good == calm {
			return from - (calm-1)*interval - o.end(0)
		}
	}
	return o.end(len(o.phases)-1) - o.end(0)
}

// dueBy returns the number of requests of a connection that are due at a time since the start.
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
	o := &offered{begin: time.Now(), phases: phases, decided: make([]atomic.Int64, len(phases)), busy: make([]atomic.Int64, len(phases)), dropped: make([]atomic.Int64, len(phases))}
	errs := make([]error, overloadConns)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = o.connection(addr, overloadKey(i)) })
	}
	all.Wait()
	return o, errors.Join(errs...)
}

// dueAt returns the time since the start at which a request of a connection is due. Requests are numbered from 0. Those after
// the last one are due at the end.
func (o *offered) dueAt(n int64) (at time.Duration) {
	for _, p := range o.phases {
		perConn := p.rate / overloadConns
		count := int64(perConn * p.long.Seconds())
		if n < count {
			return at + time.Duration(float64(n+1)/perConn*float64(time.Second))
		}
		n, at = n-count, at+p.long
	}
	return at
}

// burst is a number of requests that were sent in one write.
type burst struct {
	due, sent time.Duration // times since the start at which the first request was due, and at which the write began
	count     int64
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

// write sends the requests when they are due. If it is late, because the server does not read, it drops requests that were
// due more than overloadGiveUp ago, before each write.
func (o *offered) write(conn net.Conn, request string, sent chan<- burst) error {
	requests := []byte(strings.Repeat(request, overloadBurst))
	ticker := time.NewTicker(overloadTick)
	defer ticker.Stop()
	end := o.end(len(o.phases) - 1)
	for next := int64(0); ; {
		now := time.Since(o.begin)
		if old := o.dueBy(now - overloadGiveUp); old > next {
			o.dropped[o.phaseAt(now)].Add(old - next)
			next = old
		}
		n := min(o.dueBy(now)-next, overloadBurst)
		switch {
		case n > 0:
			sent <- burst{o.dueAt(next), now, n}
			next += n
			if _, err := conn.Write(requests[:n*int64(len(request))]); err != nil {
				return err
			}
		case now > end:
			return nil
		default:
			<-ticker.C
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
			list = append(list, reply{lastDecided, lastDecided - b.due, lastDecided - b.sent})
		}
		if lastBusy > 0 {
			refusals = append(refusals, reply{lastBusy, lastBusy - b.due, lastBusy - b.sent})
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.replies = append(o.replies, list...)
	o.refusals = append(o.refusals, refusals...)
	return nil
}
