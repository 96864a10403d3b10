package wal

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/hashicorp/raft"
)

// The errors of a [Log].
var (
	// ErrDamaged is wrapped by errors of Open and Read if a file is corrupt or inconsistent with Base.
	ErrDamaged = errors.New("damaged")
	// ErrClosed is returned by every call after Close, except a further Close.
	ErrClosed = errors.New("the log is closed")
)

const (
	defaultBytes   = 16 << 20
	defaultEntries = 8192
)

// Config configures a Log. Dir and Base must be set.
type Config struct {
	// Dir is the directory of the files. It must exist. Other files in the directory are
	// not touched.
	Dir string
	// Base is the store that entries are moved to. The Log does not sync Base, which must make
	// its own content durable. Base may keep the slices that it receives. Base must not panic,
	// because a goroutine of the Log calls it too.
	Base raft.LogStore
	// Sync makes entries durable before StoreLogs returns.
	Sync bool
	// MaxBytes and MaxEntries bound the total size and the number of the entries that are not in Base yet.
	// The defaults, selected by 0, are 16 MiB and 8192. A single StoreLogs call can exceed these bounds by
	// the size of its own entries.
	MaxBytes   int64
	MaxEntries int
	// Step runs each operation that creates or removes a file or syncs the directory,
	// except when Open removes recovered files. Step must call op. The error that Step returns
	// is treated as the error of the operation. Step may be called concurrently. If Step
	// is nil, op is called directly.
	Step func(op func() error) error
	// Log receives a warning if an incomplete write is dropped from the end of a file. If
	// Log is nil, nothing is logged.
	Log *slog.Logger

	files files // nil means disk{}
}

// Log is a raft.LogStore that appends entries to files, and later moves them to another raft.LogStore. Its
// methods may be called concurrently.
//
// The lock order is writeMu, moveLock, baseMu, mu.
type Log struct {
	cfg Config

	writeMu sync.Mutex // held while entries are added or the last entry is deleted
	buf     []byte     // buffer for the record of a StoreLogs call
	active  segment    // the file that records are appended to
	number  uint64     // number in the name of the active file

	moveLock chan struct{} // has an element while a full file is moved to Base, and during runExclusive
	baseMu   sync.Mutex    // held while Base is modified

	mu          sync.Mutex // not held during I/O
	recent      ring       // some of the newest entries of Base, then all entries that are not in Base
	first, last uint64     // first and last index of Base
	failure     error

	closing  sync.Once
	closeErr error
}

// segment is a file and the amount of data written to it.
type segment struct {
	file
	path    string
	bytes   int64
	entries int
}

// Open recovers the log from Base and the files of a directory. It moves the entries of the
// files to Base, removes the files and creates an empty one. The error wraps [ErrDamaged], or an
// error of the file system or of Base.
func Open(c Config) (*Log, error) {
	if c.MaxBytes <= 0 {
		c.MaxBytes = defaultBytes
	}
	if c.MaxEntries <= 0 {
		c.MaxEntries = defaultEntries
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Step == nil {
		c.Step = func(op func() error) error { return op() }
	}
	if c.files == nil {
		c.files = disk{}
	}
	l := &Log{cfg: c, moveLock: make(chan struct{}, 1)}
	if err := l.open(); err != nil {
		if l.active.file != nil {
			_ = l.active.Close() // nothing was written
		}
		return nil, fmt.Errorf("open the log in %s: %w", c.Dir, err)
	}
	return l, nil
}

func (l *Log) open() error {
	if err := l.findBounds(); err != nil {
		return err
	}
	found, err := l.readFiles()
	if err != nil {
		return err
	}
	if err := l.recover(found); err != nil {
		return err
	}
	return l.startDurably()
}

// findBounds reads the first and the last index of Base.
func (l *Log) findBounds() error {
	first, err := l.cfg.Base.FirstIndex()
	if err != nil {
		return fmt.Errorf("find the first entry: %w", err)
	}
	last, err := l.cfg.Base.LastIndex()
	if err != nil {
		return fmt.Errorf("find the last entry: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.first, l.last = first, last
	return nil
}

// Close moves all entries to Base and removes the files. If an earlier call has
// failed, Close returns the error of that call and keeps the files. Base is not closed.
func (l *Log) Close() error {
	l.closing.Do(func() {
		l.writeMu.Lock()
		defer l.writeMu.Unlock()
		l.closeErr = l.runExclusive(l.moveAll)
		if l.closeErr == nil {
			l.closeErr = l.discard(l.active)
		} else {
			_ = l.active.Close() // the first error is returned
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.failure, l.recent = ErrClosed, ring{}
	})
	return l.closeErr
}

// fail records err unless another error was recorded before. It returns the recorded error.
func (l *Log) fail(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failure == nil {
		l.failure = err
	}
	return l.failure
}

// failed returns the recorded error, or nil.
func (l *Log) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failure
}

// IsMonotonic reports whether the indexes of the stored entries must not have gaps. Entries after a gap are
// stored directly in Base, so it depends on Base whether gaps are permitted. IsMonotonic returns the result
// of Base.IsMonotonic, or false if Base has no such method. The result is false for bbolt, so raft does not
// delete the whole log after it has installed a snapshot.
func (l *Log) IsMonotonic() bool {
	base, ok := l.cfg.Base.(raft.MonotonicLogStore)
	return ok && base.IsMonotonic()
}

// FirstIndex returns the index of the oldest entry, or 0 if the log is empty. It does no I/O.
func (l *Log) FirstIndex() (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first == 0 && l.recent.size() > 0 {
		return l.recent.first, l.failure
	}
	return l.first, l.failure
}

// LastIndex returns the index of the newest entry, or 0 if the log is empty. It does no I/O.
func (l *Log) LastIndex() (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.newest(), l.failure
}

// newest returns the index of the newest entry, or 0 if the log is empty. mu must be held.
func (l *Log) newest() uint64 {
	if l.recent.size() > 0 {
		return l.recent.next - 1
	}
	return l.last
}

// GetLog copies the entry with the given index to *entry. The copy shares the slices Data and Extensions with
// the Log, so the caller must not modify these slices. If the entry is not in memory, GetLog reads it from
// Base, and returns the error of Base, which is raft.ErrLogNotFound if there is no such entry.
func (l *Log) GetLog(index uint64, entry *raft.Log) error {
	l.mu.Lock()
	err, found := l.failure, l.recent.get(index)
	if found != nil {
		*entry = *found
	}
	l.mu.Unlock()
	if err != nil || found != nil {
		return err
	}
	*entry = raft.Log{} // the bbolt store does not set fields that are empty in the stored entry
	return l.cfg.Base.GetLog(index, entry)
}
