package persistence

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// Info describes the snapshot that Load is going to read, by its ends only, and reports
// whether there is one. The limiter clock has to begin no earlier than its Ended.
// With Fallback it is the previous one if the current one does not even have its ends.
func (s *Store) Info() (Info, bool, error) {
	var found Info
	err := s.choose(func(path string) error {
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

// errNone says that there is no snapshot, neither a good nor a bad one.
var errNone = errors.New("no snapshot")

// choose calls use with the current snapshot, and with Fallback again with the previous
// one if the current one is refused or missing.
func (s *Store) choose(use func(path string) error) error {
	err := use(s.path)
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
	if again := use(s.previous()); again != nil {
		return fmt.Errorf("%w; nor can the previous one be used: %w", err, again)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.distrusted = true
	return nil
}

// Load reads the snapshot into a State, which is empty and becomes the one that is
// saved. Records whose time has passed by its limiter time are left out. Without a
// snapshot there is nothing to do.
//
// It is everything or nothing: on any error the State is cleared, and saves go on being
// refused with [ErrLoading]. Errors wrap a [FileError] if the snapshot is refused, the
// error of ctx if that ended, and limiter.ErrOutOfMemory if the State has no room: part of
// the state would give keys their limit back at random, so the operator has to decide.
func (s *Store) Load(ctx context.Context, into State) error {
	s.mu.Lock()
	s.state = into
	s.status.LoadStarted = time.Now()
	s.mu.Unlock()
	var refused error
	err := s.choose(func(path string) error {
		if refused != nil {
			s.log.Warn("loading the previous snapshot: the current one cannot be used", "error", refused)
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

// hasPrevious reports whether there is a previous snapshot, good or bad.
func (s *Store) hasPrevious() bool {
	f, err := s.fs.Open(s.previous())
	if err == nil {
		_ = f.Close() // nothing was read
	}
	return !errors.Is(err, fs.ErrNotExist)
}

// missing is the error for a current snapshot that is not there, where there is a previous one.
func (s *Store) missing() error {
	return fmt.Errorf("snapshot %s is %w, but %s is there: to go on from that one, move it to %s or start with --snapshot-fallback yes; "+
		"to start empty, remove it", s.path, ErrMissing, s.previous(), s.path)
}

// loadFile loads one file, all of it or nothing.
func (s *Store) loadFile(ctx context.Context, path string, into State) error {
	snap, err := openSnapshot(s.fs, path)
	if err != nil {
		return err
	}
	err = s.loadRecords(ctx, snap, into)
	_ = snap.Close() // it was only read
	if err != nil {
		into.Clear()
	}
	return err
}

func (s *Store) loadRecords(ctx context.Context, snap *Snapshot, into State) error {
	info := snap.Info()
	p := s.newProgress("loading a snapshot", info.Size)
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
