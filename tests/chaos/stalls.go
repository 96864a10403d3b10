package main

import (
	"context"
	"sync"
	"time"
)

// stalls measures how long this program has waited for a processor. Whatever the cause,
// clients and nodes on the same machine had to wait as long.
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
		for rest(ctx, stallEvery) {
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
