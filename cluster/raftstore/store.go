package raftstore

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"

	"github.com/throttledhq/throttled/cluster/wal"
	"github.com/throttledhq/throttled/internal/fsutil"
)

const (
	defaultLimit = 1500 * time.Millisecond
	lowSpace     = 64 << 20 // bytes
	currentName  = "current"
)

// Config configures a Store. Dir and Fatal must be set.
type Config struct {
	// Dir is created with mode 0700 if it does not exist. It must not be locked by
	// another Store or process.
	Dir string
	// Sync makes each entry of the log durable before it is acknowledged. Without Sync, a power failure can
	// lose the latest entries and leave a file that Open rejects. A crash of the process loses no entries.
	// The term and the vote are always made durable.
	Sync bool
	// Limit is the age at which an unfinished operation is considered stuck; 0 means 1.5 s. A stuck
	// operation is detected at most Limit/16 after it has reached this age. Operations in which raft
	// waits for the disk several times, such as completing a snapshot, are allowed a multiple of the
	// limit.
	Limit time.Duration
	// Fatal is called once, from any goroutine, with the error that makes the log unreliable.
	// The error wraps ErrStuck, ErrDamaged or an error of the file system. Fatal must exit the
	// process, with exit code 75 so that a supervisor restarts it. If Fatal returns, raft
	// receives the error and continues to vote with its state in memory, or panics. Fatal must
	// not call the Store.
	Fatal func(error)
	Log   *slog.Logger // if nil, nothing is logged
}

// Store is the durable storage of a node: the log, the term and the vote, and the snapshots.
// The stores that its methods return may be used concurrently.
type Store struct {
	dir   string
	sync  bool
	log   *slog.Logger
	lock  *os.File
	latch *latch

	logDB    *raftboltdb.BoltStore
	stableDB *raftboltdb.BoltStore
	logs     *logs // over logDB
	wal      *guardedWAL
	stable   *stable
	snaps    *snapshots

	stop      chan struct{} // closed to stop the watchdog
	closeOnce sync.Once
	closeErr  error

	mu       sync.Mutex
	identity *Identity // nil if the directory has not been claimed
}

// Open opens the store in a directory, and creates one if there is none. The error wraps
// [ErrLocked] if another process has locked the directory, [ErrDamaged] if a file is corrupt or
// missing, or an error of the file system. ErrLocked is returned within two seconds. If the last
// process did not close the store, Open moves the newest entries to the database. This move temporarily needs
// up to 48 MiB of space.
func Open(c Config) (*Store, error) {
	if c.Fatal == nil {
		return nil, errors.New("open the log: Config.Fatal is not set")
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, fmt.Errorf("open the log in %q: %w", c.Dir, err)
	}
	s := &Store{dir: dir, sync: c.Sync, log: c.Log, latch: newLatch(c.Fatal), stop: make(chan struct{})}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.release())
	}
	s.warnOfLowSpace()
	limit := c.Limit
	if limit <= 0 {
		limit = defaultLimit
	}
	go s.watch(limit)
	return s, nil
}

// watch trips the latch when an operation is stuck.
func (s *Store) watch(limit time.Duration) {
	stuck := func(f *guarded) {
		s.latch.trip(fmt.Errorf("%s: an operation takes longer than the limit of %v: %w", f.name, limit, ErrStuck))
	}
	watchFiles(limit, s.stop, stuck, s.wal.file, s.logs.file, s.stable.file, s.snaps.file)
}

func (s *Store) open() (err error) {
	if err := makeDir(s.dir); err != nil {
		return fmt.Errorf("open the log in %s: %w", s.dir, err)
	}
	if s.lock, err = fsutil.Lock(s.dir); err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	if err := makeDir(s.current()); err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	if s.identity, err = readIdentity(s.current()); err != nil {
		return fmt.Errorf("open %s: %w", s.dir, err)
	}
	if err := s.openFiles(); err != nil {
		return err
	}
	s.removeUnfinished()
	return fsutil.Sync(s.current())
}

func (s *Store) openFiles() (err error) {
	if s.identity != nil {
		// An empty file would be treated as a new one, and the votes of the node would be lost.
		if err := needFiles(s.current()); err != nil {
			return err
		}
	}
	if s.logDB, err = logDatabase.open(s.current(), s.sync); err != nil {
		return err
	}
	if s.stableDB, err = stableDatabase.open(s.current(), true); err != nil {
		return err
	}
	snaps, err := raft.NewFileSnapshotStoreWithLogger(s.current(), retained, Logger(s.log))
	if err != nil {
		return fmt.Errorf("open the snapshots in %s: %w", s.current(), err)
	}
	s.wrapFiles(s.logDB, s.stableDB, snaps)
	return s.openWAL()
}

// wrapFiles wraps the databases and the snapshots with the latch and the watchdog.
func (s *Store) wrapFiles(l raft.LogStore, st raft.StableStore, snaps raft.SnapshotStore) {
	s.logs = &logs{newGuarded(filepath.Join(s.current(), logName), s.latch), l}
	s.stable = &stable{newGuarded(filepath.Join(s.current(), stableName), s.latch), st}
	s.wal = &guardedWAL{file: newGuarded(filepath.Join(s.current(), walName), s.latch)}
	s.snaps = &snapshots{snaps, newGuarded(filepath.Join(s.current(), snapshotsName), s.latch)}
}

// openWAL opens the write-ahead log, which holds the newest entries.
func (s *Store) openWAL() (err error) {
	s.wal.inner, err = wal.Open(wal.Config{Dir: s.current(), Base: s.logs, Sync: s.sync, Step: s.wal.step, Log: s.log})
	return damaged(err)
}

// makeDir durably creates a directory if it does not exist.
func makeDir(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	return fsutil.Sync(filepath.Dir(path))
}

// needFiles returns an error if one of the databases of a claimed directory is missing or empty.
func needFiles(current string) error {
	return errors.Join(needFile(filepath.Join(current, logName)), needFile(filepath.Join(current, stableName)))
}

// needFile returns an error if a file is missing or empty.
func needFile(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("open %s: the file is missing from a directory that has been claimed: %w", path, ErrDamaged)
	case err != nil:
		return fmt.Errorf("open the log: %w", err)
	case info.Size() == 0:
		return fmt.Errorf("open %s: the file is empty: %w", path, ErrDamaged)
	}
	return nil
}

func (s *Store) warnOfLowSpace() {
	free, err := freeSpace(s.dir)
	if err != nil {
		s.log.Warn("cannot determine the free space for the log", "directory", s.dir, "error", err)
	} else if free < lowSpace {
		s.log.Warn("the disk of the log is nearly full: free some space, the node stops when it is full", "directory", s.dir, "bytes", free)
	}
}

// current returns the directory of the files in use.
func (s *Store) current() string { return filepath.Join(s.dir, currentName) }

// Logs returns the log. It keeps the newest entries in memory.
func (s *Store) Logs() raft.LogStore { return s.wal }

// Stable returns the store of the term and the vote.
func (s *Store) Stable() raft.StableStore { return s.stable }

// Snapshots returns the snapshot store, which keeps two snapshots. If writing a snapshot fails, the node
// continues, because the log still has all entries. Raft logs the error and tries again later. However, the
// node stops if a write of a snapshot is stuck.
func (s *Store) Snapshots() raft.SnapshotStore { return s.snaps }

// Close closes the files and releases the directory. Raft must have been shut down before.
// After an error of the store, Close leaves all files open and returns that error, because the state
// of the databases is unknown. The process must then exit, which closes the files.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		close(s.stop)
		if s.closeErr = s.latch.err(); s.closeErr != nil {
			return
		}
		s.closeErr = s.wal.inner.Close()
		if !s.sync {
			s.closeErr = errors.Join(s.closeErr, s.logDB.Sync())
		}
		s.latch.close()
		s.closeErr = errors.Join(s.closeErr, s.release())
	})
	return s.closeErr
}

// release closes the open files.
func (s *Store) release() (err error) {
	if s.logDB != nil {
		err = errors.Join(err, s.logDB.Close())
	}
	if s.stableDB != nil {
		err = errors.Join(err, s.stableDB.Close())
	}
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
	}
	return err
}
