package main

import (
	"context"
	"errors"
	"time"
)

// clock is the monotonic clock of a run. It starts at 0.
type clock struct{ start time.Time }

func newClock() clock { return clock{time.Now()} }

func (c clock) now() int64 { return int64(time.Since(c.start)) }

// sleep pauses for d. It returns false if ctx is done earlier.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// pollEvery is the interval at which await polls.
const pollEvery = 20 * time.Millisecond

// await polls the function done until it reports true. On a timeout it returns the error from ctx
// joined with the last error from done.
func await(ctx context.Context, within time.Duration, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		ok, err := done()
		if ok {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}
