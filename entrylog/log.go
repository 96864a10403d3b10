package entrylog

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/hashicorp/raft"
)

// The errors of a [Log].
var (
	// ErrDamaged is wrapped by Open when a file is not what was written, or does not fit to
	// Base.
	ErrDamaged = errors.New("damaged")
	// ErrClosed is returned by every call after Close.
	ErrClosed = errors.New("the log is closed")
)

const (
	defaultBytes   = 16 << 20
	defaultEntries = 8192
)

// Config says where a Log is and what is behind it. Dir and Base must be set.
type Config struct {
	// Dir is where the files are. It must be there, other files in it are left alone.
	Dir string
	// Base holds the entries in the end. It must make them durable by itself, if they are to
	// be, and may keep the slices it is given. It is called from a goroutine of the Log
	// too, so it must not panic.
	Base raft.LogStore
	// Sync makes entries durable before StoreLogs returns.
	Sync bool
	// MaxBytes and MaxEntries say how much may be in front of Base; 0 is 16 MiB and 8192.
	// One call of StoreLogs can exceed them by what it stores.
	MaxBytes   int64
	MaxEntries int
	// Step is given each operation on files that a deletion, or a move to Base, takes by itself,
	// and has to call it: making or removing a file, or syncing the directory. Its error is
	// taken for that of the operation. It may be called from several goroutines at once; nil:
	// they are just called.
	Step func(op func() error) error
	// Log is told what was dropped at the end of a file; nil: nothing is logged.
	Log *slog.Logger

	files files // nil: those of the operating system
}

// Log is a raft.LogStore with files in front of another one. Its methods may be called from
// many goroutines at once.
//
// The locks are taken in the order writing, full, behind, mu.
type Log struct {
	cfg Config

	writing sync.Mutex // whoever adds entries, or deletes the last one
	buf     []byte     // the records of one call
	front   front      // the file that is written to
	number  uint64     // of that file

	full   chan struct{} // has an element while a full file is on its way to Base
	behind sync.Mutex    // whoever changes Base

	mu          sync.Mutex // never held during I/O
	recent      ring       // those that are not in Base, after some that are
	first, last uint64     // of Base
	failure     error

	closing  sync.Once
	closeErr error
}

// front is a file, and what was written to it.
type front struct {
	file
	path    string
	bytes   int64
	entries int
}

// Open returns the log that is in Base and in the files of a directory. It moves what the
// files hold to Base, removes them and begins with an empty one. It wraps [ErrDamaged], or
// an error of the file system or of Base.
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
	l := &Log{cfg: c, full: make(chan struct{}, 1)}
	if err := l.open(); err != nil {
		if l.front.file != nil {
			_ = l.front.Close() // it is empty
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

// findBounds asks Base which entries it has.
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

// Close moves everything to Base and removes the files, unless an error has come before,
// which it then returns. It does not close Base.
func (l *Log) Close() error {
	l.closing.Do(func() {
		l.writing.Lock()
		defer l.writing.Unlock()
		l.closeErr = l.alone(l.moveAll)
		if l.closeErr == nil {
			l.closeErr = l.discard(l.front)
		} else {
			_ = l.front.Close() // the first error says more
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.failure, l.recent = ErrClosed, ring{}
	})
	return l.closeErr
}

// fail keeps the first error, and returns it.
func (l *Log) fail(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failure == nil {
		l.failure = err
	}
	return l.failure
}

// failed returns what every call has to return, or nil.
func (l *Log) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failure
}

// IsMonotonic reports whether raft has to leave no gaps between indexes. Gaps end up in
// Base only, so that is as Base says: bbolt has no trouble with them, and raft then deletes
// nothing when it has installed a snapshot.
func (l *Log) IsMonotonic() bool {
	base, ok := l.cfg.Base.(raft.MonotonicLogStore)
	return ok && base.IsMonotonic()
}

// FirstIndex returns the index of the oldest entry, or 0. It does no I/O.
func (l *Log) FirstIndex() (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first == 0 && l.recent.size() > 0 {
		return l.recent.first, l.failure
	}
	return l.first, l.failure
}

// LastIndex returns the index of the newest entry, or 0. It does no I/O.
func (l *Log) LastIndex() (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.newest(), l.failure
}

// newest is LastIndex for those who hold mu.
func (l *Log) newest() uint64 {
	if l.recent.size() > 0 {
		return l.recent.next - 1
	}
	return l.last
}

// GetLog reads an entry, which shares its bytes with others who read it. It returns
// raft.ErrLogNotFound, or what else Base says, if there is none of that index.
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
	*entry = raft.Log{} // bbolt's store leaves alone what was empty
	return l.cfg.Base.GetLog(index, entry)
}
