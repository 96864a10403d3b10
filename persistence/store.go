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

	"github.com/throttledhq/throttled/dirs"
	"github.com/throttledhq/throttled/limiter"
)

// Source is what can be saved.
type Source interface {
	// Now returns the limiter time in nanoseconds, which never goes back.
	Now() uint64
	// Records visits the live records while others change them. A record that is there
	// during the whole of it is visited; it is borrowed for the length of the visit. The
	// visit writes to disk, so no lock that decisions need may be held during it.
	Records() iter.Seq[limiter.Record]
}

// State is what is loaded and saved.
type State interface {
	Source
	// Put stores a record, in place of one that has the same key, and copies what it
	// keeps. It returns limiter.ErrOutOfMemory if the record does not fit.
	Put(limiter.Record) error
	// Clear forgets all records.
	Clear()
	// Usage counts; Keys and Changes are used.
	Usage() limiter.Usage
}

// Config says where a Store keeps its snapshots. Dir and Name must be set.
type Config struct {
	Dir  string // must exist
	Name string // of the snapshot file in Dir, without a slash
	// Fallback lets Load take the previous snapshot when the current one is damaged or
	// unreadable. What was decided between the two is then forgotten.
	Fallback bool
	Version  string       // of the program, for the header
	Log      *slog.Logger // nil: nothing is logged
	FS       FS           // nil: Disk. The lock on Dir is taken on Disk in any case
}

// Store keeps the snapshots of one State in a directory that it has for itself. Its
// methods may be called from many goroutines at once, except that Load is called once.
type Store struct {
	dir      string
	path     string // of the current snapshot
	fallback bool
	version  string
	log      *slog.Logger
	fs       FS
	lock     *os.File
	loaded   atomic.Bool // Load has succeeded

	blockSize int // bytes; tests make it small
	hurry     chan struct{}
	hurryOnce sync.Once

	mu           sync.Mutex
	state        State         // set by Load
	status       Status        // but for what Status derives
	savedChanges int64         // Changes of the state that the last good save holds
	failed       time.Time     // end of the last save, if it failed
	saving       chan struct{} // closed when the running save has ended; nil if none runs
	closed       bool
	points       []SavePoint
	// distrusted is set when the current snapshot was refused: it must not replace the
	// previous one, which is good.
	distrusted bool
}

// Open takes the lock on the directory and removes what a killed process left there
// half written. It wraps [ErrLocked] if another Store has the lock.
func Open(c Config) (*Store, error) {
	if c.Name == "" || c.Name == "." || c.Name == ".." || strings.ContainsRune(c.Name, filepath.Separator) {
		return nil, fmt.Errorf("open snapshots: %q is not the name of a file", c.Name)
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, fmt.Errorf("open snapshots in %q: %w", c.Dir, err)
	}
	lock, err := dirs.Lock(dir)
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

// The files beside the current snapshot. Those that end in .tmp are being written.
func (s *Store) temporary() string         { return s.path + ".tmp" }
func (s *Store) previous() string          { return s.path + PreviousSuffix }
func (s *Store) temporaryPrevious() string { return s.previous() + ".tmp" }

// PreviousSuffix follows the name of the current snapshot in that of the previous one.
const PreviousSuffix = ".previous"

// removeLeftovers removes half-written files. That it cannot is no reason not to start:
// the next save writes over them.
func (s *Store) removeLeftovers() {
	for _, path := range []string{s.temporary(), s.temporaryPrevious()} {
		if err := s.fs.Remove(path); err == nil {
			s.log.Info("removed a snapshot that was never finished", "file", path)
		} else if !errors.Is(err, fs.ErrNotExist) {
			s.log.Warn("could not remove a snapshot that was never finished", "error", err)
		}
	}
}

// Writable returns why snapshots cannot be written, by making an empty file. A program
// that is to save asks at its start, to refuse early what would fail later; it does not
// ask while it saves.
func (s *Store) Writable() error {
	f, err := s.fs.Create(s.temporary())
	if err != nil {
		return fmt.Errorf("write to the directory of snapshots: %w", err)
	}
	return errors.Join(f.Close(), s.fs.Remove(s.temporary()))
}

// Close waits for a running save and gives the lock back. No save can begin after it.
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

// wait returns when the save that runs has ended, which rests no more.
func (s *Store) wait() {
	s.hurryOnce.Do(func() { close(s.hurry) })
	s.mu.Lock()
	saving := s.saving
	s.mu.Unlock()
	if saving != nil {
		<-saving
	}
}
