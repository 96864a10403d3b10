package raftlog

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/mutant"
)

// latch holds the first error. It is shared by the files of a store: after an error of one
// nothing may be acknowledged or voted for on the strength of the other.
type latch struct {
	fatal func(error)
	first atomic.Pointer[error]
	told  chan struct{} // closed when fatal has returned
}

func newLatch(fatal func(error)) *latch { return &latch{fatal: fatal, told: make(chan struct{})} }

// trip keeps err, if it is the first, and calls fatal, which does not return in a program
// that has to stop.
func (l *latch) trip(err error) {
	if l.first.CompareAndSwap(nil, &err) {
		l.fatal(err)
		close(l.told)
	}
}

// err returns why the files are not to be touched. It returns only after fatal has, since
// raft panics on some errors, and would end the process with a code that says nothing.
func (l *latch) err() error {
	first := l.first.Load()
	if first == nil {
		return nil
	}
	<-l.told
	if errors.Is(*first, ErrClosed) {
		return ErrClosed
	}
	return fmt.Errorf("%w: %w", ErrPoisoned, *first)
}

// close makes every later call fail, without telling anybody.
func (l *latch) close() {
	closed := ErrClosed
	if l.first.CompareAndSwap(nil, &closed) {
		close(l.told)
	}
}

// guarded is one file and what stands between it and raft.
type guarded struct {
	name  string
	latch *latch
	turn  chan struct{} // full during a write, so that none begins after one has failed
	watch watch
}

func newGuarded(name string, l *latch) *guarded {
	return &guarded{name: name, latch: l, turn: make(chan struct{}, 1)}
}

// write runs an operation that changes the file, unless one has failed before. Its own
// error is the last thing that the file is used for.
func (f *guarded) write(what string, op func() error) error {
	unfinished := f.watch.begin(1)
	defer unfinished.Store(0)
	f.turn <- struct{}{}
	defer func() { <-f.turn }()
	if err := f.latch.err(); err != nil {
		return err
	}
	if err := protect(op); err != nil && !mutant.Is(mutant.SyncIgnored) {
		f.latch.trip(fmt.Errorf("%s: %s: %w", f.name, what, err))
	}
	return f.latch.err()
}

// step runs an operation on files, or so many, that the watchdog has to see. An error is only
// returned.
func (f *guarded) step(waits uint64, op func() error) error {
	unfinished := f.watch.begin(waits)
	defer unfinished.Store(0)
	if err := f.latch.err(); err != nil {
		return err
	}
	if err := op(); err != nil {
		return err
	}
	return f.latch.err() // it may have ended too late
}

// try runs an operation that need not be alone. It is not watched, since it may take long where
// it has many steps. That there is no such entry is an answer, any other error is like one of a
// write.
func (f *guarded) try(what string, op func() error) error {
	if err := f.latch.err(); err != nil {
		return err
	}
	err := protect(op)
	if err == nil || errors.Is(err, raft.ErrLogNotFound) || errors.Is(err, errKeyNotFound) {
		return err
	}
	f.latch.trip(fmt.Errorf("%s: %s: %w", f.name, what, err))
	return f.latch.err()
}

// protect turns what the database does about pages that are not right into an error: it
// panics, and where the disk cannot deliver a page that is mapped the memory faults.
func protect(op func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", ErrDamaged, p)
		}
	}()
	return op()
}
