package main

import (
	"context"
	"errors"
	"time"
)

// clock is the monotonic clock by which a run is told, from its start.
type clock struct{ start time.Time }

func newClock() clock { return clock{time.Now()} }

func (c clock) now() int64 { return int64(time.Since(c.start)) }

// rest lets some time go by, and reports whether ctx has not ended meanwhile.
func rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// pollEvery is how often await looks at what only other processes know.
const pollEvery = 20 * time.Millisecond

// await waits until done reports true, which it asks again and again. The error says what it has
// been waiting for, and is that of ctx or of done.
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
