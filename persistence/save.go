package persistence

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"
)

// Save writes a snapshot and returns when it is durable. An error leaves the snapshot
// that was there before in its place; if only the last step failed, making the names in
// the directory durable, it is the new one that is there, whole but not safe from a power
// cut. The error is [ErrSaving], [ErrLoading], [ErrClosed] or one of the file system.
func (s *Store) Save() error {
	job, err := s.begin()
	if err != nil {
		return err
	}
	return s.run(job)
}

// SaveInBackground begins what Save does and returns. It takes its time, two thirds of
// which it leaves to others. How it ends is shown in the Status and the log.
func (s *Store) SaveInBackground() error {
	job, err := s.begin()
	if err != nil {
		return err
	}
	job.pace = newPacer(s.hurry)
	go func() {
		if err := s.run(job); err != nil {
			s.log.Error("saving failed", "error", err)
		}
	}()
	return nil
}

// job is one save.
type job struct {
	state   State
	changes int64 // of the state when it began
	keep    bool  // the current snapshot becomes the previous one
	started time.Time
	done    chan struct{}
	pace    *pacer // nil: somebody waits for the save
}

// begin claims the right to save.
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
		state: s.state, changes: s.state.Usage().Changes, keep: !s.distrusted,
		started: time.Now(), done: make(chan struct{}),
	}
	s.saving = j.done
	s.status.SaveStarted = j.started
	return j, nil
}

// run does the job and records how it went.
func (s *Store) run(j *job) error {
	err := s.save(j)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.status.LastDuration = now.Sub(j.started)
	s.status.LastFailed = err != nil
	if err == nil {
		s.status.LastSave = now
		s.status.Saves++
		s.savedChanges = j.changes
	} else {
		s.failed = now
	}
	s.saving = nil
	close(j.done)
	return err
}

// save writes, reads back, and only then replaces. At every moment there is a good
// snapshot under the current name, if there was one before.
func (s *Store) save(j *job) error {
	p := s.newProgress("saving a snapshot", j.state.Usage().Keys)
	info, err := s.writeVerified(j, p)
	if err == nil && j.keep {
		err = s.keepPrevious()
	}
	if err == nil {
		err = s.fs.Rename(s.temporary(), s.path)
	}
	if err != nil {
		_ = s.fs.Remove(s.temporary()) // the first error is the one to tell
		return fmt.Errorf("save snapshot %s: %w", s.path, err)
	}
	s.mu.Lock()
	s.distrusted = false
	s.mu.Unlock()
	if err := s.fs.SyncDir(s.dir); err != nil {
		return fmt.Errorf("save snapshot %s: sync the directory: %w", s.path, err)
	}
	p.end("snapshot saved", "file", s.path, "keys", info.Keys, "bytes", info.Size)
	return nil
}

// writeVerified writes the temporary file, makes it durable and reads it back.
func (s *Store) writeVerified(j *job, p *progress) (Info, error) {
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

// verify reads the temporary file back.
func (s *Store) verify(wrote Info, pace *pacer) error {
	snap, err := openSnapshot(s.fs, s.temporary())
	if err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	snap.tick = func(int64, int64) error {
		pace.step()
		return nil
	}
	if err = snap.Verify(); err == nil && snap.Info() != wrote {
		err = fmt.Errorf("snapshot %s is %w: it is not what was written", s.temporary(), ErrDamaged)
	}
	_ = snap.Close() // it was only read
	if err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	return nil
}

// keepPrevious gives the current snapshot its second name, without a moment in which
// there is no previous one.
func (s *Store) keepPrevious() error {
	_ = s.fs.Remove(s.temporaryPrevious()) // it is there only if it could not be removed before
	err := s.fs.Link(s.path, s.temporaryPrevious())
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission) {
		err = s.copyFile(s.path, s.temporaryPrevious()) // not every file system has hard links
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil // there is no current one
	}
	if err == nil {
		err = s.fs.Rename(s.temporaryPrevious(), s.previous())
	}
	if err != nil {
		_ = s.fs.Remove(s.temporaryPrevious()) // the first error is the one to tell
		return fmt.Errorf("keep the previous snapshot: %w", err)
	}
	// Where both names are one file already, renaming does nothing and both stay.
	_ = s.fs.Remove(s.temporaryPrevious())
	return nil
}

func (s *Store) copyFile(from, to string) error {
	src, err := s.fs.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = src.Close() }() // it is only read
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
