package server

import (
	"bytes"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/throttledhq/throttled/limiter"
)

// failing is an engine that fails all decisions with the error err.
type failing struct {
	limiter.Engine
	err error
}

func (e failing) Decide(reqs []limiter.Request, out []limiter.Decision) limiter.CommitToken {
	for i := range reqs {
		out[i] = limiter.Decision{Err: e.err}
	}
	return limiter.CommitToken{}
}

// panicking is an engine that panics on one key.
type panicking struct {
	limiter.Engine
	on string
}

func (e panicking) Decide(reqs []limiter.Request, out []limiter.Decision) limiter.CommitToken {
	for i := range reqs {
		e.check(reqs[i].Key)
	}
	return e.Engine.Decide(reqs, out)
}

func (e panicking) Lookup(key []byte) (limiter.Entry, bool) {
	e.check(key)
	return e.Engine.Lookup(key)
}

func (e panicking) check(key []byte) {
	if string(key) == e.on {
		panic("test: the key " + e.on)
	}
}

// holding is an engine that blocks in each decision on one key until the channel release is closed.
type holding struct {
	limiter.Engine
	on      string
	entered chan struct{} // receives a value when a decision blocks
	release chan struct{} // closed to unblock the decision
}

func (e holding) Decide(reqs []limiter.Request, out []limiter.Decision) limiter.CommitToken {
	for i := range reqs {
		if string(reqs[i].Key) == e.on {
			e.entered <- struct{}{}
			<-e.release
		}
	}
	return e.Engine.Decide(reqs, out)
}

// guarded is an engine that records, for each deletion of keys, whether the server's exec lock is held for writing.
type guarded struct {
	limiter.Engine
	srv atomic.Pointer[Server]

	mu        sync.Mutex
	exclusive []bool
}

func (e *guarded) note() {
	exec := &e.srv.Load().exec
	shared := exec.TryRLock()
	if shared {
		exec.RUnlock()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.exclusive = append(e.exclusive, !shared)
}

// noted returns the records since the last call of noted, one for each deletion. A record is true if the lock was held
// for writing.
func (e *guarded) noted() []bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	exclusive := e.exclusive
	e.exclusive = nil
	return exclusive
}

func (e *guarded) Delete(key []byte) (bool, error) {
	e.note()
	return e.Engine.Delete(key)
}

func (e *guarded) Clear() error {
	e.note()
	return e.Engine.Clear()
}

// lockedLog is a log that can be read while it is written.
type lockedLog struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lockedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// logger returns a logger for all levels.
func (l *lockedLog) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// liveHeap returns the size of the live heap objects in bytes.
func liveHeap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
