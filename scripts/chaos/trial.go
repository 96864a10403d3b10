package main

import (
	"context"
	"errors"
	"sync"
)

// trial is a cluster under load that is being watched.
type trial struct {
	*cluster
	load   *load
	watch  *watch
	stalls *stalls
	behind bool    // the clock of the cluster may have stood still
	least  float64 // decisions a second below which the trial proves nothing

	mu    sync.Mutex
	kills int // leaders taken away
}

// try puts a cluster under load.
func (c *cluster) try(ctx context.Context) *trial {
	t := &trial{cluster: c, behind: true, least: 50}
	t.watch = c.watch(ctx)
	t.stalls = watchStalls(ctx)
	t.load = c.drive(ctx, c.lab.rate)
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
