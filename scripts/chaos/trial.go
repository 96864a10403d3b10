package main

import (
	"context"
	"errors"
	"sync"
	"time"
)

// trial is a cluster under load that is being watched.
type trial struct {
	*cluster
	load   *load
	watch  *watch
	stalls *stalls
	begun  instant // when the load was there
	least  float64 // decisions a second below which the trial proves nothing
	quiet  bool    // no change of leader is due
	judged keysJudged

	mu     sync.Mutex
	kills  int       // leaders taken away
	killed time.Time // the last of them
}

// try puts a cluster under load.
func (c *cluster) try(ctx context.Context) *trial {
	t := &trial{cluster: c, least: 50}
	t.watch = c.watch(ctx)
	t.stalls = watchStalls(ctx)
	t.load = c.drive(ctx, c.lab.rate)
	t.begun = c.awaitInstant(ctx)
	// Before the first leader is known nobody can tell that another one has come.
	_ = await(ctx, startWithin, func() (bool, error) { return t.watch.seen(), nil })
	return t
}

// withTrial starts a cluster, lets something happen to it under load, and judges what was seen, be
// it only until something could not be done. That is the error; what was found is in the report.
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

// abandon ends a trial that is not judged.
func (t *trial) abandon() {
	t.load.end()
	t.watch.end()
	t.stalls.end()
}
