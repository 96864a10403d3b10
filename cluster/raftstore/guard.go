package raftstore

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/internal/failpoint"
)

// latch holds the first error of a Store. All files of the Store share one latch: after an error on one file,
// the node must neither acknowledge entries nor vote, even if the other files still work.
type latch struct {
	fatal    func(error)
	first    atomic.Pointer[error]
	reported chan struct{} // closed when fatal has returned
}

func newLatch(fatal func(error)) *latch { return &latch{fatal: fatal, reported: make(chan struct{})} }

// trip records err if it is the first error, and then calls fatal, which normally exits the
// process.
func (l *latch) trip(err error) {
	if l.first.CompareAndSwap(nil, &err) {
		l.fatal(err)
		close(l.reported)
	}
}

// err returns the error that disables the files, or nil. If there is one, err blocks until
// fatal has returned. Otherwise raft might receive the error and panic before fatal exits the
// process, and the process would not exit with the code chosen by fatal.
func (l *latch) err() error {
	first := l.first.Load()
	if first == nil {
		return nil
	}
	<-l.reported
	if errors.Is(*first, ErrClosed) {
		return ErrClosed
	}
	return fmt.Errorf("%w: %w", ErrPoisoned, *first)
}

// close makes every later call fail with ErrClosed, without calling fatal.
func (l *latch) close() {
	closed := ErrClosed
	if l.first.CompareAndSwap(nil, &closed) {
		close(l.reported)
	}
}

// guarded is one file of a store, with the latch of the store and the unfinished operations on the file.
type guarded struct {
	name      string
	latch     *latch
	writeLock chan struct{} // has an element during a write, so the next write begins only after this write has returned
	watch     watch
}

func newGuarded(name string, l *latch) *guarded {
	return &guarded{name: name, latch: l, writeLock: make(chan struct{}, 1)}
}

// write runs an operation that modifies the file, unless an operation has failed before. An
// error trips the latch.
func (f *guarded) write(action string, op func() error) error {
	unfinished := f.watch.begin(1)
	defer unfinished.Store(0)
	f.writeLock <- struct{}{}
	defer func() { <-f.writeLock }()
	if err := f.latch.err(); err != nil {
		return err
	}
	if err := protect(op); err != nil && !failpoint.Is(failpoint.SyncIgnored) {
		f.latch.trip(fmt.Errorf("%s: %s: %w", f.name, action, err))
	}
	return f.latch.err()
}

// step runs an operation on files under the watchdog. The limit of the operation is Config.Limit
// multiplied by waits. step returns the error of the operation without tripping the latch.
func (f *guarded) step(waits uint64, op func() error) error {
	unfinished := f.watch.begin(waits)
	defer unfinished.Store(0)
	if err := f.latch.err(); err != nil {
		return err
	}
	if err := op(); err != nil {
		return err
	}
	return f.latch.err() // the watchdog may have tripped the latch during op
}

// try runs an operation that may run concurrently with others. The watchdog does not watch the
// operation, since it may have many steps and take long. An error trips the latch unless it
// reports that an entry or key does not exist.
func (f *guarded) try(action string, op func() error) error {
	if err := f.latch.err(); err != nil {
		return err
	}
	err := protect(op)
	if err == nil || errors.Is(err, raft.ErrLogNotFound) || errors.Is(err, errKeyNotFound) {
		return err
	}
	f.latch.trip(fmt.Errorf("%s: %s: %w", f.name, action, err))
	return f.latch.err()
}

// protect converts a panic to an error. bbolt panics on an invalid page, and a mapped page that
// the disk cannot read causes a memory fault.
func protect(op func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", ErrDamaged, p)
		}
	}()
	return op()
}
