package loadgen

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// runner runs one load on one thread.
type runner struct {
	load       Load
	closedLoop bool
	poll       *poller
	conns      []*conn
	keys       *rand.Rand
	start      time.Time
	sent       int64        // open loop: requests of the schedule that have become due
	waiting    queue[due]   // open loop: requests without a free stream
	free       queue[*conn] // open loop: connections, once for each free stream
	result     Result
}

// due is the time since the start at which a request is due.
type due = time.Duration

func (r *runner) connect() (err error) {
	if r.poll, err = newPoller(); err != nil {
		return err
	}
	for i := range r.load.Conns {
		fd, err := dial(r.load.Addr)
		if err != nil {
			return err
		}
		c := newConn(fd, r.load.Protocol())
		r.conns = append(r.conns, c)
		if err := r.poll.add(fd, i); err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) close() {
	for _, c := range r.conns {
		closeSocket(c.fd)
	}
	if r.poll != nil {
		r.poll.close()
	}
}

// run runs the load until its end. Requests that are in flight then are not counted.
func (r *runner) run() error {
	r.start = time.Now()
	r.begin()
	end := r.load.Warmup + r.load.Duration
	heard := due(0)
	for {
		now := time.Since(r.start)
		if now >= end || r.load.Requests > 0 && r.result.Latency.TotalCount() >= r.load.Requests {
			r.result.Elapsed = now - r.load.Warmup
			return nil
		}
		ready, err := r.step(now, end)
		if err != nil {
			return err
		}
		if ready > 0 || r.idle() {
			heard = now
		} else if now-heard > silence {
			return errSilent
		}
	}
}

// begin sends the first request of each stream of a closed loop.
func (r *runner) begin() {
	for range r.load.Streams {
		for _, c := range r.conns {
			if r.closedLoop {
				c.send(r.key(), 0)
			} else {
				r.free.push(c)
			}
		}
	}
}

// idle reports whether no request is in flight.
func (r *runner) idle() bool {
	return !r.closedLoop && r.waiting.len() == 0 && r.free.len() == r.load.Streams*len(r.conns)
}

// step sends the requests that are due, waits for replies until the next request is due, and reads them.
func (r *runner) step(now, end due) (ready int, err error) {
	most := end - now
	if !r.closedLoop {
		r.schedule(now)
		most = min(most, r.due(r.sent)-now)
	}
	flushed, err := r.flush()
	if err != nil {
		return 0, err
	}
	if !flushed {
		most = min(most, time.Millisecond) // until a full socket buffer is tried again
	}
	ready, err = r.poll.wait(min(most, time.Second))
	for i := range ready {
		if err := r.receive(r.conns[r.poll.index(i)]); err != nil {
			return ready, err
		}
	}
	return ready, err
}

// due returns the time at which request n of the schedule is due.
func (r *runner) due(n int64) due {
	return due(float64(n) / r.load.Rate * float64(time.Second))
}

// schedule sends the requests that have become due, as far as streams are free.
func (r *runner) schedule(now due) {
	for at := r.due(r.sent); at <= now; at = r.due(r.sent) {
		r.sent++
		r.waiting.push(at)
		if at >= r.load.Warmup {
			r.result.Late = max(r.result.Late, now-at)
		}
	}
	for r.waiting.len() > 0 && r.free.len() > 0 {
		r.free.pop().send(r.key(), r.waiting.pop())
	}
}

// flush writes the requests of all connections. It reports whether nothing is left to write.
func (r *runner) flush() (bool, error) {
	flushed := true
	for _, c := range r.conns {
		if len(c.out) == 0 {
			continue
		}
		if err := c.flush(); err != nil {
			return false, fmt.Errorf("write: %w", err)
		}
		flushed = flushed && len(c.out) == 0
	}
	return flushed, nil
}

// receive reads replies from a connection, and sends its next requests.
func (r *runner) receive(c *conn) error {
	if err := c.read(); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	now := time.Since(r.start)
	arrivals, err := c.parse()
	for _, a := range arrivals {
		r.record(a.Reply, a.at, now)
		if r.closedLoop {
			c.send(r.key(), now)
		} else {
			r.free.push(c)
		}
	}
	if err != nil {
		return err
	}
	return c.flush()
}

// key returns the number of a random key.
func (r *runner) key() uint64 { return r.keys.Uint64N(uint64(r.load.Keys)) }

// record counts a reply, unless its request was due during the warm-up.
func (r *runner) record(reply Reply, at, now due) {
	if at < r.load.Warmup {
		return
	}
	switch reply.Outcome {
	case Admitted:
		r.result.Admitted++
	case Refused:
		r.result.Refused++
	case Failed:
		if r.result.Failed++; r.result.Failed == 1 {
			r.result.Failure = reply.Text
		}
	}
	// The value is within the bounds of the histogram, so that there is no error.
	_ = r.result.Latency.RecordValue(int64(min(max(now-at, 1), longest)))
}
