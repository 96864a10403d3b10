package main

import (
	"context"
	"sync"
	"time"
)

// stalls measures the longest time for which this program waited for a processor. The clients and
// nodes run on the same machine, and may have waited as long.
type stalls struct {
	mu      sync.Mutex
	longest time.Duration
	stop    context.CancelFunc
	done    chan struct{}
}

const stallEvery = 2 * time.Millisecond

func watchStalls(ctx context.Context) *stalls {
	s := &stalls{done: make(chan struct{})}
	ctx, s.stop = context.WithCancel(ctx)
	go func() {
		defer close(s.done)
		last := time.Now()
		for sleep(ctx, stallEvery) {
			now := time.Now()
			s.note(now.Sub(last) - stallEvery)
			last = now
		}
	}()
	return s
}

func (s *stalls) note(late time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.longest = max(s.longest, late)
}

// end stops the measurement and returns the longest wait.
func (s *stalls) end() time.Duration {
	s.stop()
	<-s.done
	return s.longest
}
