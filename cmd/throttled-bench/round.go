package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// round is one measurement of one target. Its times are in nanoseconds since the time in
// the field start.
type round struct {
	*config
	target target
	number int

	start    time.Time
	from     int64 // end of the warm-up
	end      int64 // time after which no requests are sent
	schedule schedule

	links     []*link
	recorders []*recorder
	pacers    []*pacer
	claimed   atomic.Int64 // in the closed loop: requests reserved by claim
	stopped   atomic.Bool

	failing sync.Once
	failure error // the first error
}

func (r *round) now() int64 { return int64(time.Since(r.start)) }

// counted reports whether a request is measured. The parameter sent is the time at which the
// request was sent or, in the open loop, was due.
func (r *round) counted(sent int64) bool { return sent >= r.from }

func (r *round) over(now int64) bool { return now >= r.end || r.stopped.Load() }

// fail records the first error, stops the round and closes its connections.
func (r *round) fail(err error) {
	if err == nil {
		return
	}
	r.failing.Do(func() {
		r.failure = err
		r.stopped.Store(true)
		r.hangUp()
	})
}

func (r *round) hangUp() {
	for _, l := range r.links {
		_ = l.conn.Close() // unblocks readers and writers; no data can be lost
	}
}

// measure runs a round. If ctx is canceled, the round ends early and measure still returns
// a result.
func measure(ctx context.Context, c *config, t target, number int, show *progressLine) (*result, error) {
	r := &round{config: c, target: t, number: number}
	defer r.hangUp()
	if err := r.connect(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", t.name, err)
	}
	if err := r.exhaust(); err != nil {
		return nil, fmt.Errorf("%s: exhaust the keys of -denied: %w", t.name, err)
	}
	m := r.run(ctx, show)
	if r.failure != nil {
		replies := merged(r.recorders).counts.total()
		return nil, fmt.Errorf("%s: after %d counted replies: %w", t.name, replies, r.failure)
	}
	return r.result(m, ctx.Err() != nil), nil
}

// connect opens all connections.
func (r *round) connect(ctx context.Context) error {
	for range r.threads {
		r.recorders = append(r.recorders, newRecorder())
	}
	for i := range r.conns {
		conn, err := r.target.dial(ctx, r.timeout)
		if err != nil {
			return err
		}
		l := &link{conn: conn, timeout: r.timeout, in: make([]byte, inputSize)}
		l.source = r.work.source(r.number, i, r.conns)
		l.scanner.limiter = r.work.regular.limiter
		l.journal.recorder = r.recorders[i%len(r.recorders)]
		l.sent.Store(-1)
		r.links = append(r.links, l)
	}
	return nil
}

// exhaust sends one request to each exhausted key, so that later requests to these keys are
// denied.
func (r *round) exhaust() error {
	const batch = 256
	r.start = time.Now()
	l, keys, own := r.links[0], r.work.layout, newRecorder()
	l.journal.recorder = own
	for index := keys.keys; r.work.exhausted != nil && index < keys.keys+keys.exhausted(); {
		l.out = l.out[:0]
		n := 0
		for ; n < batch && index < keys.keys+keys.exhausted(); n++ {
			l.out = r.work.exhausted.append(l.out, index, 0, 0)
			index++
		}
		if _, err := r.answers(l, n, true); err != nil {
			return err
		}
		if f := own.failures; len(f) > 0 {
			return fmt.Errorf("the target replies %q", f[0].First)
		}
	}
	l.readDeadline, l.writeDeadline, l.journal = 0, 0, journal{recorder: r.recorders[0]}
	return nil
}

// run runs all connections until the end of the round.
func (r *round) run(ctx context.Context, show *progressLine) marks {
	r.from = int64(r.warmup)
	r.end = int64(r.warmup + r.duration)
	cores := r.threads
	if r.rate > 0 {
		r.schedule = newSchedule(r.config)
		r.from = r.schedule.due(r.schedule.warm)
		for i := range min(r.threads, r.conns) {
			r.pacers = append(r.pacers, &pacer{first: i, step: min(r.threads, r.conns), late: newHistogram()})
		}
		cores += len(r.pacers) // each pacer occupies a P of the Go scheduler while it sleeps
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
	server, local, err := serverOf(r.links[0].conn)
	m := marks{server: server, local: local, usageErr: err}
	m.begin = m.take(0)
	m.warm = m.begin
	done := make(chan struct{})
	r.start = time.Now()
	go func() {
		defer close(done)
		r.runWorkers()
	}()
	r.watch(ctx, done, show, &m)
	m.end = m.take(r.now())
	return m
}

// runWorkers runs the goroutines of a round and waits for them.
func (r *round) runWorkers() {
	var all sync.WaitGroup
	for i, l := range r.links {
		all.Go(func() {
			if r.rate > 0 {
				r.fail(r.collect(i, l))
			} else {
				r.fail(r.closed(l))
			}
			l.journal.flush(r.now())
		})
	}
	for _, p := range r.pacers {
		all.Go(func() { r.fail(r.pace(p)) })
	}
	all.Wait()
}

// watch waits until done is closed. It records the resource usage at the end of the
// warm-up, updates the progress line, and stops the round if ctx is canceled.
func (r *round) watch(ctx context.Context, done <-chan struct{}, show *progressLine, m *marks) {
	warm := time.NewTimer(r.warmup)
	defer warm.Stop()
	ticks := show.ticks()
	defer ticks.Stop()
	defer show.clear()
	canceled := ctx.Done()
	for {
		select {
		case <-done:
			return
		case <-warm.C:
			m.warm = m.take(r.now())
		case <-ticks.C:
			show.update(r)
		case <-canceled:
			r.stopped.Store(true)
			canceled = nil
		}
	}
}

// mark is the resource usage at one time.
type mark struct {
	server usage
	own    float64 // CPU time of the generator in seconds
	at     int64
}

// marks holds the resource usage at the beginning of a round, after the warm-up and at
// the end.
type marks struct {
	server   process
	local    bool
	usageErr error // reason why the usage of the server is not available

	begin, warm, end mark
}

func (m *marks) take(now int64) mark {
	taken := mark{own: ownCPU(), at: now}
	if m.local && m.usageErr == nil {
		taken.server, m.usageErr = m.server.usage()
	}
	return taken
}

var errNothing = errors.New("interrupted before anything was measured")

// late returns the delays of the writes of the open loop.
func (r *round) late() *hdrhistogram.Histogram {
	sum := newHistogram()
	for _, p := range r.pacers {
		sum.Merge(p.late)
	}
	return sum
}

// unsent returns the number of requests of the schedule that were not sent.
func (r *round) unsent() int64 {
	unsent := r.schedule.requests()
	for i, l := range r.links {
		unsent -= r.schedule.sent(i, l.sent.Load())
	}
	return unsent
}
