package persistence

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/internal/fsutil"
	"github.com/throttledhq/throttled/limiter"
)

// Source is a set of records that can be saved.
type Source interface {
	// Now returns the limiter time in nanoseconds. It is monotonic.
	Now() uint64
	// Records iterates over the live records while they may change concurrently. It yields
	// every record that is present during the whole iteration. A yielded record is valid
	// until the next one. Since the caller writes to disk during the iteration, Records must
	// not hold a lock that decisions need.
	Records() iter.Seq[limiter.Record]
}

// State is a Source that can also be loaded.
type State interface {
	Source
	// Put stores a copy of a record and replaces the record with the same key. It returns
	// limiter.ErrOutOfMemory if the record does not fit.
	Put(limiter.Record) error
	// Reset deletes all records.
	Reset()
	// Usage returns the counters. A Store uses only Keys and Changes.
	Usage() limiter.Usage
}

// Config configures a Store. Dir and Name must be set.
type Config struct {
	Dir  string // must exist
	Name string // file name of the snapshot in Dir, without a slash
	// Fallback makes Load use the previous snapshot if the current one is damaged,
	// unreadable or missing. Decisions made after the previous snapshot are then lost.
	Fallback bool
	Version  string       // version of the program, for the header of the snapshot
	Log      *slog.Logger // nil disables logging
	FS       FS           // nil means Disk. The lock on Dir always uses Disk
}

// Store manages the snapshots of one State in a directory that it locks. Its methods may
// be called concurrently, except that Load must be called only once.
type Store struct {
	dir      string
	path     string // of the current snapshot
	fallback bool
	version  string
	log      *slog.Logger
	fs       FS
	lock     *os.File
	loaded   atomic.Bool // Load has succeeded

	blockSize int           // in bytes; reduced in tests
	hurry     chan struct{} // closed to end the pauses of background saves
	hurryOnce sync.Once

	mu           sync.Mutex
	state        State         // set by Load
	status       Status        // except the fields that the Status method computes
	savedChanges int64         // Changes of the state at the start of the last successful save
	failed       time.Time     // end of the last save, if it failed
	saving       chan struct{} // closed when the running save has finished; nil if none is running
	closed       bool
	points       []SavePoint
	// currentRejected is set when the current snapshot was rejected. The rejected snapshot
	// must not replace the previous snapshot, which is valid.
	currentRejected bool
}

// Open locks the directory and removes partially written files of a killed process. The
// error wraps [ErrLocked] if another Store has the lock.
func Open(c Config) (*Store, error) {
	if c.Name == "" || c.Name == "." || c.Name == ".." || strings.ContainsRune(c.Name, filepath.Separator) {
		return nil, fmt.Errorf("open snapshots: %q must be a file name without a directory", c.Name)
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, fmt.Errorf("open snapshots in %q: %w", c.Dir, err)
	}
	lock, err := fsutil.Lock(dir)
	if err != nil {
		return nil, fmt.Errorf("open snapshots: %w", err)
	}
	s := &Store{
		dir: dir, path: filepath.Join(dir, c.Name), fallback: c.Fallback, version: c.Version,
		log: c.Log, fs: c.FS, lock: lock, blockSize: defaultBlock, hurry: make(chan struct{}),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.fs == nil {
		s.fs = Disk
	}
	now := time.Now()
	s.status = Status{LoadStarted: now, LastSave: now, LastDuration: -1}
	s.removeLeftovers()
	return s, nil
}

// The names of the other files. A file whose name ends in .tmp is being written.
func (s *Store) temporary() string         { return s.path + ".tmp" }
func (s *Store) previous() string          { return s.path + PreviousSuffix }
func (s *Store) temporaryPrevious() string { return s.previous() + ".tmp" }

// PreviousSuffix is appended to the name of the current snapshot to form the name of the
// previous one.
const PreviousSuffix = ".previous"

// removeLeftovers removes partially written files. A failure is only logged, because the next save overwrites
// these files or removes them first.
func (s *Store) removeLeftovers() {
	for _, path := range []string{s.temporary(), s.temporaryPrevious()} {
		if err := s.fs.Remove(path); err == nil {
			s.log.Info("removed an unfinished snapshot", "file", path)
		} else if !errors.Is(err, fs.ErrNotExist) {
			s.log.Warn("cannot remove an unfinished snapshot", "error", err)
		}
	}
}

// Writable creates and removes an empty file, and returns an error if that fails. A
// program that will save calls Writable at startup to detect an error early. It must not be
// called during a save.
func (s *Store) Writable() error {
	f, err := s.fs.Create(s.temporary())
	if err != nil {
		return fmt.Errorf("write to the snapshot directory: %w", err)
	}
	return errors.Join(f.Close(), s.fs.Remove(s.temporary()))
}

// Close waits for a running save and releases the lock. Later saves fail with
// [ErrClosed].
func (s *Store) Close() error {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.mu.Unlock()
	s.wait()
	if closed {
		return nil
	}
	return s.lock.Close()
}

// wait disables the pauses of a running save and waits until it has finished.
func (s *Store) wait() {
	s.hurryOnce.Do(func() { close(s.hurry) })
	s.mu.Lock()
	saving := s.saving
	s.mu.Unlock()
	if saving != nil {
		<-saving
	}
}
