package persistence

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"
)

// Save writes a snapshot and returns when it is durable. On an error the existing
// snapshot stays in place, with one exception: if the last step fails, which is the sync of the directory,
// the new snapshot is in place and complete, but may not survive a power failure. The error is [ErrSaving],
// [ErrLoading], [ErrClosed] or an error of the file system.
func (s *Store) Save() error {
	job, err := s.begin()
	if err != nil {
		return err
	}
	return s.run(job)
}

// SaveInBackground starts a save and returns. The save pauses for two thirds of the time
// to limit its effect on requests. Status and the log report the result of the save.
func (s *Store) SaveInBackground() error {
	job, err := s.begin()
	if err != nil {
		return err
	}
	job.pace = newPacer(s.hurry)
	go func() {
		if err := s.run(job); err != nil {
			s.log.Error("cannot save the snapshot", "error", err)
		}
	}()
	return nil
}

// job is one save.
type job struct {
	state        State
	changes      int64 // Changes of the state when the save began
	keepPrevious bool  // keep the current snapshot as the previous one
	started      time.Time
	done         chan struct{}
	pace         *pacer // nil if the caller waits for the save
}

// begin registers a new save. It fails if the store is closed or loading, or if a save is
// running.
func (s *Store) begin() (*job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, ErrClosed
	case s.Loading():
		return nil, ErrLoading
	case s.saving != nil:
		return nil, ErrSaving
	}
	j := &job{
		state: s.state, changes: s.state.Usage().Changes, keepPrevious: !s.currentRejected,
		started: time.Now(), done: make(chan struct{}),
	}
	s.saving = j.done
	s.status.SaveStarted = j.started
	return j, nil
}

// run performs the save and records its result.
func (s *Store) run(j *job) error {
	err := s.save(j)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.status.saved(j.started, now, err)
	if err == nil {
		s.savedChanges = j.changes
	} else {
		s.failed = now
	}
	s.saving = nil
	close(j.done)
	return err
}

// save writes and verifies the new file before it replaces the current one. If there is a valid
// snapshot under the current name when save starts, there is one at every moment of the save.
func (s *Store) save(j *job) error {
	p := s.newProgressLog("saving a snapshot", j.state.Usage().Keys)
	info, err := s.writeVerified(j, p)
	if err == nil && j.keepPrevious {
		err = s.keepPrevious()
	}
	if err == nil {
		err = s.fs.Rename(s.temporary(), s.path)
	}
	if err != nil {
		_ = s.fs.Remove(s.temporary()) // only the first error is returned
		return fmt.Errorf("save snapshot %s: %w", s.path, err)
	}
	s.mu.Lock()
	s.currentRejected = false
	s.mu.Unlock()
	if err := s.fs.SyncDir(s.dir); err != nil {
		return fmt.Errorf("save snapshot %s: sync the directory: %w", s.path, err)
	}
	p.end("snapshot saved", "file", s.path, "keys", info.Keys, "bytes", info.Size)
	return nil
}

// writeVerified writes the temporary file, makes it durable and verifies it.
func (s *Store) writeVerified(j *job, p *progressLog) (Info, error) {
	f, err := s.fs.Create(s.temporary())
	if err != nil {
		return Info{}, err
	}
	w := writer{dst: f, blockSize: s.blockSize, tick: func(keys, bytes int64) error {
		p.step(keys, keys, bytes)
		return j.pace.wrote(bytes, f)
	}}
	info, err := w.write(Info{Program: s.version, Created: time.Unix(0, time.Now().UnixNano())}, j.state)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return info, err
	}
	return info, s.verify(info, j.pace)
}

// verify reads the temporary file, verifies every block, and compares the Info of the file with
// the Info returned by the writer.
func (s *Store) verify(wrote Info, pace *pacer) error {
	snap, err := openSnapshot(s.fs, s.temporary())
	if err != nil {
		return fmt.Errorf("verify the new snapshot: %w", err)
	}
	snap.tick = func(int64, int64) error {
		pace.step()
		return nil
	}
	if err = snap.Verify(); err == nil && snap.Info() != wrote {
		err = fmt.Errorf("snapshot %s is %w: it differs from the content that was written", s.temporary(), ErrDamaged)
	}
	_ = snap.Close() // the file was only read, so an error has no effect
	if err != nil {
		return fmt.Errorf("verify the new snapshot: %w", err)
	}
	return nil
}

// keepPrevious links the current snapshot to the name of the previous one, or copies it if the file
// system does not support hard links. If there is a previous snapshot when keepPrevious starts,
// there is one at every moment until it returns.
func (s *Store) keepPrevious() error {
	_ = s.fs.Remove(s.temporaryPrevious()) // the file exists only if an earlier removal failed
	err := s.fs.Link(s.path, s.temporaryPrevious())
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission) {
		err = s.copyFile(s.path, s.temporaryPrevious()) // no hard links on this file system
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil // no current snapshot
	}
	if err == nil {
		err = s.fs.Rename(s.temporaryPrevious(), s.previous())
	}
	if err != nil {
		_ = s.fs.Remove(s.temporaryPrevious()) // only the first error is returned
		return fmt.Errorf("keep the current snapshot as the previous one: %w", err)
	}
	// If both names are links to the same file, Rename does nothing, and the temporary name remains.
	_ = s.fs.Remove(s.temporaryPrevious())
	return nil
}

func (s *Store) copyFile(from, to string) error {
	src, err := s.fs.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = src.Close() }() // the file is only read, so an error has no effect
	dst, err := s.fs.Create(to)
	if err != nil {
		return err
	}
	size, err := src.Size()
	if err == nil {
		_, err = io.Copy(dst, io.NewSectionReader(src, 0, size))
	}
	if err == nil {
		err = dst.Sync()
	}
	return errors.Join(err, dst.Close())
}
