package persistence

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// Info returns the description of the snapshot that Load will read, and reports whether there
// is one. It reads only the first and the last block. The limiter clock must start no earlier
// than Info.Ended. With Config.Fallback, Info describes the previous snapshot if the current one
// is missing, or if its first or last block is damaged or unreadable.
func (s *Store) Info() (Info, bool, error) {
	var found Info
	err := s.withSnapshot(func(path string) error {
		snap, err := openSnapshot(s.fs, path)
		if err != nil {
			return err
		}
		found = snap.Info()
		return snap.Close()
	})
	if errors.Is(err, errNone) {
		return Info{}, false, nil
	}
	return found, err == nil, err
}

// errNone indicates that there is neither a current nor a previous snapshot, valid or invalid.
var errNone = errors.New("no snapshot")

// withSnapshot calls fn with the path of the current snapshot. If that snapshot is
// damaged, unreadable or missing, and Config.Fallback is set, it calls fn again with the path of
// the previous snapshot.
func (s *Store) withSnapshot(fn func(path string) error) error {
	err := fn(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		if !s.hasPrevious() {
			return errNone
		}
		err = s.missing()
	}
	refused := errors.Is(err, ErrDamaged) || errors.Is(err, ErrUnreadable) || errors.Is(err, ErrMissing)
	if !refused || !s.fallback {
		return err
	}
	if again := fn(s.previous()); again != nil {
		return fmt.Errorf("%w; the previous snapshot cannot be loaded either: %w", err, again)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.currentRejected = true
	return nil
}

// Load reads the snapshot into a State, which must be empty. Later saves write this State.
// Records that have expired by the limiter time of the State are skipped. If there is no
// snapshot, Load succeeds and the State stays empty.
//
// Load is all or nothing: on an error the State is empty, and saves still fail with
// [ErrLoading]. The error wraps a [FileError] if the snapshot is rejected, [ErrMissing] if only
// a previous snapshot exists, the cause of the cancellation if ctx is canceled, or
// limiter.ErrOutOfMemory if the State is full. A partial load would reset the limits of
// arbitrary keys, so the operator must decide how to continue.
func (s *Store) Load(ctx context.Context, into State) error {
	s.mu.Lock()
	s.state = into
	s.status.LoadStarted = time.Now()
	s.mu.Unlock()
	var refused error
	err := s.withSnapshot(func(path string) error {
		if refused != nil {
			s.log.Warn("loading the previous snapshot: the current one cannot be loaded", "error", refused)
		}
		refused = s.loadFile(ctx, path, into)
		return refused
	})
	if err != nil && !errors.Is(err, errNone) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.savedChanges = into.Usage().Changes
	s.loaded.Store(true)
	return nil
}

// hasPrevious reports whether there is a previous snapshot, valid or invalid.
func (s *Store) hasPrevious() bool {
	f, err := s.fs.Open(s.previous())
	if err == nil {
		_ = f.Close() // nothing was read, so an error has no effect
	}
	return !errors.Is(err, fs.ErrNotExist)
}

// missing returns the error for a missing current snapshot when a previous one exists.
func (s *Store) missing() error {
	return fmt.Errorf("snapshot %s is %w, but %s exists: to load that one, rename it to %s or start with --snapshot-fallback yes; "+
		"to start empty, delete it", s.path, ErrMissing, s.previous(), s.path)
}

// loadFile loads one file. If it cannot load all records, it clears the State.
func (s *Store) loadFile(ctx context.Context, path string, into State) error {
	snap, err := openSnapshot(s.fs, path)
	if err != nil {
		return err
	}
	err = s.loadRecords(ctx, snap, into)
	_ = snap.Close() // the file was only read, so an error has no effect
	if err != nil {
		into.Reset()
	}
	return err
}

func (s *Store) loadRecords(ctx context.Context, snap *Snapshot, into State) error {
	info := snap.Info()
	p := s.newProgressLog("loading a snapshot", info.Size)
	var stored, expired int64
	report := func(done int64) {
		s.update(func(st *Status) {
			st.LoadTotal, st.LoadDone, st.KeysLoaded, st.KeysExpired = info.Size, done, stored, expired
		})
	}
	report(0)
	snap.tick = func(keys, bytes int64) error {
		report(bytes)
		p.step(bytes, keys, bytes)
		if ctx.Err() != nil {
			return fmt.Errorf("load snapshot %s: %w", snap.path, context.Cause(ctx))
		}
		return nil
	}
	now := into.Now()
	for r := range snap.Records() {
		if r.Expires <= now {
			expired++
			continue
		}
		if err := into.Put(r); err != nil {
			return putError(snap.path, stored, info.Keys, err)
		}
		stored++
	}
	if snap.Err() != nil {
		return snap.Err()
	}
	report(info.Size)
	p.end("snapshot loaded", "file", snap.path, "keys", stored, "expired", expired, "bytes", info.Size)
	return nil
}

func putError(path string, stored, keys int64, err error) error {
	return fmt.Errorf("load snapshot %s: %w after %d of %d keys", path, err, stored, keys)
}
