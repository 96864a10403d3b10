package raftlog

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

	"github.com/throttledhq/throttled/dirs"
	"github.com/throttledhq/throttled/entrylog"
)

const (
	defaultLimit = 1500 * time.Millisecond
	lowSpace     = 64 << 20 // bytes
	currentName  = "current"
)

// Config says where a Store is and whom it tells when it fails. Dir and Fatal must be set.
type Config struct {
	// Dir is made with mode 0700 if it is not there. Nothing else may lock it.
	Dir string
	// Sync makes each entry of the log durable before it is acknowledged. Without it a
	// power cut can take the latest entries, and leave a file that is refused; the end of
	// the process takes none. The term and the vote are always made durable.
	Sync bool
	// Limit is the age at which an unfinished operation counts as stuck; 0 is 1.5 s. A
	// sixteenth of it passes at most before that is noticed. Where raft waits for the disk
	// several times in one operation, as when it completes a snapshot, that has so many times
	// the limit.
	Limit time.Duration
	// Fatal is called once, from any goroutine, with what makes the log unreliable: it
	// wraps ErrStuck, ErrDamaged or an error of the file system. The process has to end
	// there, with exit code 75 so that a supervisor starts it again: where Fatal returns,
	// raft gets the error, goes on voting with what it has in memory, or panics. Fatal must
	// not call the Store.
	Fatal func(error)
	Log   *slog.Logger // nil: nothing is logged
}

// Store is what one node keeps on its disk: the log, the term and the vote, and the
// snapshots. What it hands out may be used from many goroutines at once.
type Store struct {
	dir   string
	sync  bool
	log   *slog.Logger
	lock  *os.File
	latch *latch

	logDB    *raftboltdb.BoltStore
	stableDB *raftboltdb.BoltStore
	logs     *logs // over logDB
	front    *front
	stable   *stable
	snaps    *snapshots

	stop      chan struct{} // closed to end the watchdog
	closeOnce sync.Once
	closeErr  error

	mu       sync.Mutex
	identity *Identity // nil: nobody has claimed the directory
}

// Open opens the store of a directory, and makes it if there is none. It wraps [ErrLocked]
// within two seconds if another process has it, [ErrDamaged] if a file is not what was
// written or is gone, or an error of the file system. After a process that did not close it,
// it moves the newest entries to the database, which takes up to 48 MiB of space for a moment.
func Open(c Config) (*Store, error) {
	if c.Fatal == nil {
		return nil, errors.New("open the log: nobody is told when it fails")
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

// watch ends the node when an operation is stuck.
func (s *Store) watch(limit time.Duration) {
	stuck := func(f *guarded) {
		s.latch.trip(fmt.Errorf("%s: an operation takes more than %v: %w", f.name, limit, ErrStuck))
	}
	watchFiles(limit, s.stop, stuck, s.front.file, s.logs.file, s.stable.file, s.snaps.file)
}

func (s *Store) open() (err error) {
	if err := makeDir(s.dir); err != nil {
		return fmt.Errorf("open the log in %s: %w", s.dir, err)
	}
	if s.lock, err = dirs.Lock(s.dir); err != nil {
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
	return dirs.Sync(s.current())
}

func (s *Store) openFiles() (err error) {
	if s.identity != nil {
		// An empty file would be taken for a new one, and the node forget what it voted for.
		if err := errors.Join(s.needFile(logName), s.needFile(stableName)); err != nil {
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
	s.guard(s.logDB, s.stableDB, snaps)
	return s.openFront()
}

// guard puts the guards in front of the databases and the snapshots.
func (s *Store) guard(l raft.LogStore, st raft.StableStore, snaps raft.SnapshotStore) {
	s.logs = &logs{newGuarded(filepath.Join(s.current(), logName), s.latch), l}
	s.stable = &stable{newGuarded(filepath.Join(s.current(), stableName), s.latch), st}
	s.front = &front{file: newGuarded(filepath.Join(s.current(), frontName), s.latch)}
	s.snaps = &snapshots{snaps, newGuarded(filepath.Join(s.current(), snapshotsName), s.latch)}
}

// openFront puts the files of the newest entries in front of the log.
func (s *Store) openFront() (err error) {
	s.front.inner, err = entrylog.Open(entrylog.Config{Dir: s.current(), Base: s.logs, Sync: s.sync, Step: s.front.step, Log: s.log})
	return damaged(err)
}

// makeDir makes a directory durably, if it is not there.
func makeDir(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	return dirs.Sync(filepath.Dir(path))
}

// needFile returns an error if a file is not there or is empty.
func (s *Store) needFile(name string) error {
	path := filepath.Join(s.current(), name)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("open %s: it is gone, but its directory was claimed: %w", path, ErrDamaged)
	case err != nil:
		return fmt.Errorf("open the log: %w", err)
	case info.Size() == 0:
		return fmt.Errorf("open %s: it is empty: %w", path, ErrDamaged)
	}
	return nil
}

func (s *Store) warnOfLowSpace() {
	free, err := freeSpace(s.dir)
	if err != nil {
		s.log.Warn("could not tell how much space the log has left", "directory", s.dir, "error", err)
	} else if free < lowSpace {
		s.log.Warn("the log has little space left; the node stops when there is none", "directory", s.dir, "bytes", free)
	}
}

// current is the directory of the files in use.
func (s *Store) current() string { return filepath.Join(s.dir, currentName) }

// Logs returns the log, which keeps the latest entries in memory.
func (s *Store) Logs() raft.LogStore { return s.front }

// Stable returns the store of the term and the vote.
func (s *Store) Stable() raft.StableStore { return s.stable }

// Snapshots returns the snapshots, of which it keeps two. An error of theirs does not stop
// the node, which has its log: raft logs it and tries again at the next occasion. But one that
// cannot be written because the disk does not answer does.
func (s *Store) Snapshots() raft.SnapshotStore { return s.snaps }

// Close closes the files and gives the directory back. Raft must have been shut down
// before. After an error it closes nothing, and returns that: the database may be left in
// the middle of anything, and the end of the process, which is due, closes it too.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		close(s.stop)
		if s.closeErr = s.latch.err(); s.closeErr != nil {
			return
		}
		s.closeErr = s.front.inner.Close()
		if !s.sync {
			s.closeErr = errors.Join(s.closeErr, s.logDB.Sync())
		}
		s.latch.close()
		s.closeErr = errors.Join(s.closeErr, s.release())
	})
	return s.closeErr
}

// release closes what is open.
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
