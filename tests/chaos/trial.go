package main

import (
	"context"
	"errors"
	"sync"
	"time"
)

// trial is a cluster under load, with the measurements of it.
type trial struct {
	*cluster
	load   *load
	watch  *watch
	stalls *stalls
	begun  instant // when the load began
	least  float64 // minimum decisions per second for the trial to be meaningful
	quiet  bool    // no change of leader is required
	judged keysJudged

	mu     sync.Mutex
	kills  int       // leaders that became unavailable
	killed time.Time // time of the last kill
}

// try puts a cluster under load.
func (c *cluster) try(ctx context.Context) *trial {
	t := &trial{cluster: c, least: 50}
	t.watch = c.watch(ctx)
	t.stalls = watchStalls(ctx)
	t.load = c.drive(ctx, c.lab.rate)
	t.begun = c.awaitInstant(ctx)
	// A change of leader is detectable only after a first leader was observed.
	_ = await(ctx, startWithin, func() (bool, error) { return t.watch.seen(), nil })
	return t
}

// withTrial starts a cluster, runs the function happen under load, and checks the history. It
// checks the history even if happen returns an error, but not if ctx is done. It returns the
// error from happen. Findings are in the report, not in the error.
func (l *lab) withTrial(ctx context.Context, p plan, happen func(ctx context.Context, t *trial) error) (err error) {
	c, err := l.start(ctx, p)
	defer func() { err = errors.Join(err, c.close()) }()
	if err != nil {
		return err
	}
	t := c.try(ctx)
	err = happen(ctx, t)
	if ctx.Err() != nil {
		t.abandon()
		return errors.Join(err, ctx.Err())
	}
	t.judge(ctx)
	return err
}

// abandon stops a trial without checking it.
func (t *trial) abandon() {
	t.load.end()
	t.watch.end()
	t.stalls.end()
}
