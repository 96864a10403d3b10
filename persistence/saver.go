package persistence

import (
	"log/slog"
	"sync"
	"time"
)

// Saver calls a function that saves a snapshot, one call at a time, and keeps the status of the saves. It is intended
// for states that are not saved by a Store, such as the state of a cluster node, which is saved in Raft snapshots. Its
// methods may be called concurrently.
type Saver struct {
	take func() error
	log  *slog.Logger

	mu      sync.Mutex
	status  Status
	running sync.WaitGroup // background saves
}

// NewSaver returns a Saver that calls the function take for each save. Errors of background saves are logged.
func NewSaver(take func() error, log *slog.Logger) *Saver {
	return &Saver{take: take, log: log, status: Status{LastSave: time.Now(), LastDuration: -1}}
}

// Save saves a snapshot. It returns [ErrSaving] if another save is running, and otherwise the error of the function
// that saves the snapshot.
func (s *Saver) Save() error {
	begun, err := s.begin()
	if err != nil {
		return err
	}
	return s.run(begun)
}

// SaveInBackground starts a save and returns. It returns [ErrSaving] if another save is running. Status reports the
// result of the save, and an error is logged.
func (s *Saver) SaveInBackground() error {
	begun, err := s.begin()
	if err != nil {
		return err
	}
	s.running.Go(func() {
		if err := s.run(begun); err != nil {
			s.log.Warn("cannot save a snapshot", "error", err)
		}
	})
	return nil
}

// begin registers a new save, and returns its start time.
func (s *Saver) begin() (begun time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status.Saving {
		return begun, ErrSaving
	}
	begun = time.Now()
	s.status.Saving, s.status.SaveStarted = true, begun
	return begun, nil
}

// run performs the save and records its result.
func (s *Saver) run(begun time.Time) error {
	err := s.take()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Saving = false
	s.status.saved(begun, time.Now(), err)
	return err
}

// Wait blocks until all background saves have finished.
func (s *Saver) Wait() { s.running.Wait() }

// Status returns the current status.
func (s *Saver) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// Loading returns false: a Saver loads nothing.
func (s *Saver) Loading() bool { return false }
