package cluster

import (
	"context"
	"sync"
)

// mutex is a mutual exclusion lock that may be held while its holder waits for a disk or for a commit. It is made of
// a channel, as the fake time of package testing/synctest passes while goroutines wait for a channel, and not while
// they wait for a sync.Mutex. Make it with newMutex.
type mutex chan struct{}

func newMutex() mutex { return make(mutex, 1) }

// Lock waits for the lock.
func (m mutex) Lock() { m <- struct{}{} }

// LockContext waits for the lock until ctx ends, and then returns its error.
func (m mutex) LockContext(ctx context.Context) error {
	select {
	case m <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Unlock releases the lock.
func (m mutex) Unlock() { <-m }

// entrance counts the goroutines that are within, until it is closed. The zero value is open.
type entrance struct {
	mu     sync.Mutex
	closed bool
	within sync.WaitGroup
}

// enter reports whether the entrance is open. If so the caller is within until it calls leave.
func (e *entrance) enter() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.within.Add(1)
	}
	return !e.closed
}

func (e *entrance) leave() { e.within.Done() }

// close refuses all further calls of enter, and waits until all goroutines have left. It may be called more than once.
func (e *entrance) close() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.within.Wait()
}
