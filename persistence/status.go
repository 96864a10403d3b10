package persistence

import "time"

// Status describes the current or last load and save.
type Status struct {
	Loading      bool          // true until Load has succeeded
	LoadStarted  time.Time     // start of Load, or time of Open if Load was not called
	LoadTotal    int64         // size in bytes of the snapshot of the current or last load
	LoadDone     int64         // bytes of this snapshot that have been read
	KeysLoaded   int64         // keys stored by the last load
	KeysExpired  int64         // expired keys skipped by the last load
	Saving       bool          // a save is running
	SaveStarted  time.Time     // start of the running or last save; zero if there was none
	Changes      int64         // changes of state since the start of the last successful save, or since Load
	LastSave     time.Time     // end of the last successful save, or time of Open or NewSaver if there was none
	LastFailed   bool          // the last save failed
	LastDuration time.Duration // duration of the last save; -1 if there was none
	Saves        int64         // number of successful saves
}

// saved records the result of a save.
func (st *Status) saved(begun, now time.Time, err error) {
	st.LastDuration, st.LastFailed = now.Sub(begun), err != nil
	if err == nil {
		st.LastSave = now
		st.Saves++
	}
}

// Status returns the current status.
func (s *Store) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.status
	st.Loading = s.Loading()
	st.Saving = s.saving != nil
	st.Changes = s.changes()
	return st
}

// Loading reports whether the state is incomplete because Load has not succeeded yet. It
// is a single atomic load, cheap enough to call before every command.
func (s *Store) Loading() bool { return !s.loaded.Load() }

// changes returns the number of changes since the start of the last successful save, or since Load.
// s.mu must be held.
func (s *Store) changes() int64 {
	if s.Loading() {
		return 0
	}
	return max(0, s.state.Usage().Changes-s.savedChanges)
}

// update modifies the status under the lock.
func (s *Store) update(change func(*Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.status)
}
