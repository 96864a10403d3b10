package cluster

import (
	"context"
	"sync"
)

// mutex is a mutual exclusion lock that can be held during disk writes and commits. It is a channel because fake time
// in package testing/synctest advances while goroutines are blocked on a channel, but not while they are blocked on a
// sync.Mutex. Create it with newMutex.
type mutex chan struct{}

func newMutex() mutex { return make(mutex, 1) }

// Lock blocks until the lock is acquired.
func (m mutex) Lock() { m <- struct{}{} }

// lockContext blocks until the lock is acquired. It returns ctx.Err() if ctx is done first.
func (m mutex) lockContext(ctx context.Context) error {
	select {
	case m <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Unlock releases the lock.
func (m mutex) Unlock() { <-m }

// callGroup counts calls in progress. After the group is closed, no call can begin. The zero value is open.
type callGroup struct {
	mu     sync.Mutex
	closed bool
	active sync.WaitGroup
}

// begin reports whether the group is open. If begin returns true, the caller must call end.
func (g *callGroup) begin() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.active.Add(1)
	}
	return !g.closed
}

func (g *callGroup) end() { g.active.Done() }

// close makes all further calls to begin return false, and blocks until all calls in progress have ended. It may be
// called more than once.
func (g *callGroup) close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.active.Wait()
}
