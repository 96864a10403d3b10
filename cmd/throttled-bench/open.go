package main

import (
	"errors"
	"math"
	"runtime"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// schedule determines when each write of the open loop is due. It is fixed before the
// round begins and does not depend on the target.
type schedule struct {
	links  int
	depth  int
	gap    float64 // nanoseconds between writes
	warm   int64   // writes in the warm-up
	writes int64   // all writes, including the warm-up
	last   int     // requests in the last write
}

func newSchedule(c *config) schedule {
	s := schedule{links: c.conns, depth: c.depth, last: c.depth}
	s.gap = float64(c.depth) / c.rate * float64(time.Second)
	s.warm = int64(math.Ceil(float64(c.warmup) / s.gap))
	s.writes = s.warm + max(1, int64(math.Round(float64(c.duration)/s.gap)))
	if c.requests == 0 {
		return s
	}
	full := (c.requests + int64(c.depth) - 1) / int64(c.depth)
	if writes := s.warm + full; writes <= s.writes {
		s.writes = writes
		s.last = int(c.requests - (full-1)*int64(c.depth))
	}
	return s
}

// due returns the time at which write j is due, in nanoseconds since the start of the round.
func (s schedule) due(j int64) int64 { return int64(float64(j) * s.gap) }

// size returns the number of requests of write j.
func (s schedule) size(j int64) int {
	if j == s.writes-1 {
		return s.last
	}
	return s.depth
}

// sent returns the number of requests in the first n writes of a link.
func (s schedule) sent(link int, n int64) int64 {
	if n == 0 {
		return 0
	}
	return (n-1)*int64(s.depth) + int64(s.size(s.index(link, n-1)))
}

// requests returns the number of requests in all writes.
func (s schedule) requests() int64 { return (s.writes-1)*int64(s.depth) + int64(s.last) }

// end returns the time at which a further write after the last one would be due.
func (s schedule) end() int64 { return s.due(s.writes) }

// grace is the time after the end of a schedule during which delayed requests are still sent.
const grace = int64(time.Second)

// index returns the index in the schedule of write m of a link. The first write of a link is
// its write 0.
func (s schedule) index(link int, m int64) int64 { return m*int64(s.links) + int64(link) }

// pacer holds the parameters of a goroutine that writes requests when they are due. The
// goroutine serves every step-th link, beginning with the link of index first, and records
// the delay of its writes in a histogram.
type pacer struct {
	first, step int
	late        *hdrhistogram.Histogram
}

// pace is the goroutine of a pacer. It writes requests until the schedule or the round
// ends. It then stores the number of writes of each link in link.sent and unblocks readers
// by moving the read deadline.
func (r *round) pace(p *pacer) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	preciseSleep()
	var m int64
	var err error
	i := p.first
	for ; err == nil; i += p.step {
		if i >= len(r.links) {
			i, m = p.first, m+1
		}
		j := r.schedule.index(i, m)
		if j >= r.schedule.writes || !r.sleepUntil(r.schedule.due(j)) {
			break
		}
		err = r.send(p, r.links[i], j)
	}
	for k := p.first; k < len(r.links); k += p.step {
		writes := m
		if k < i {
			writes++
		}
		r.links[k].sent.Store(writes)
		err = errors.Join(err, r.links[k].conn.SetReadDeadline(time.Now()))
	}
	return err
}

func (r *round) send(p *pacer, l *link, j int64) error {
	l.out = l.source.append(l.out[:0], r.schedule.size(j))
	now := r.now()
	if due := r.schedule.due(j); r.counted(due) {
		record(p.late, now-due, 1)
	}
	return l.write(r, now)
}

// sleepUntil sleeps until due. It returns false if the round is stopped, or if the grace
// period after the end of the schedule is over.
func (r *round) sleepUntil(due int64) bool {
	const nap = int64(100 * time.Millisecond) // maximum delay in detecting the end of the round
	for {
		if r.stopped.Load() {
			return false
		}
		now := r.now()
		ahead := due - now
		if ahead <= 0 {
			return now < r.schedule.end()+grace
		}
		sleep(min(ahead, nap))
	}
}

// collect reads the replies of one link. It measures each latency from the time at which
// the request was due.
func (r *round) collect(number int, l *link) error {
	for m := int64(0); ; m++ {
		j := r.schedule.index(number, m)
		finished, err := r.collectWrite(l, m, r.schedule.due(j), r.schedule.size(j))
		if err != nil || finished {
			return err
		}
	}
}

// collectWrite reads the n replies to write m of a link. It returns true if writing has
// ended before write m.
func (r *round) collectWrite(l *link, m, due int64, n int) (finished bool, err error) {
	count := r.counted(due)
	for {
		c, err := l.take(n, count)
		if err != nil {
			return false, err
		}
		if c.total() > 0 && l.arrived < due {
			return false, errExtra // a reply arrived before its request was due
		}
		if count && c.total() > 0 {
			l.journal.add(l.arrived, l.arrived-due, c)
		}
		if n -= int(c.total()); n == 0 {
			return false, nil
		}
		if finished, err := r.await(l, m, due); err != nil || finished {
			return finished, err
		}
	}
}

// await reads from a link. It returns true if writing has ended before write m. await sets
// the read deadline before it loads link.sent, and pace stores link.sent before it moves
// the deadline. Therefore await either reads that writing has ended, or is unblocked by
// pace.
func (r *round) await(l *link, m, due int64) (finished bool, err error) {
	for {
		now := r.now()
		if err := l.expect(r, max(now, due)); err != nil {
			return false, err
		}
		sent := l.sent.Load()
		if sent >= 0 && m >= sent {
			return true, l.finished()
		}
		err := l.read()
		l.arrived = r.now()
		switch {
		case err == nil:
			return false, nil
		case err != errSilent || l.arrived >= max(now, due)+int64(l.timeout):
			return false, err
		}
		l.readDeadline = 0 // pace has moved the deadline, so expect must set it again
	}
}
