package persistence

import "time"

// Status describes what is being loaded and saved, and what was last.
type Status struct {
	Loading      bool          // until Load has succeeded
	LoadStarted  time.Time     // of Load; of Open before that
	LoadTotal    int64         // bytes of the snapshot that is being loaded, or was
	LoadDone     int64         // bytes of it that have been read
	KeysLoaded   int64         // keys that the last load stored
	KeysExpired  int64         // keys that it left out as their time had passed
	Saving       bool          // a snapshot is being written
	SaveStarted  time.Time     // of the running save, or the last; zero if there was none
	Changes      int64         // changes of state since the last good save began, or since Load
	LastSave     time.Time     // end of the last good save; of Open if there was none
	LastFailed   bool          // the last save did not succeed
	LastDuration time.Duration // of the last save; -1 if there was none
	Saves        int64         // good saves since the start
}

// Status returns how loading and saving stand.
func (s *Store) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.status
	st.Loading = s.Loading()
	st.Saving = s.saving != nil
	st.Changes = s.changes()
	return st
}

// Loading reports whether the state is not complete yet. It is cheap enough to be asked
// before every command.
func (s *Store) Loading() bool { return !s.loaded.Load() }

// changes returns the changes of state that no good save holds. s.mu is held.
func (s *Store) changes() int64 {
	if s.Loading() {
		return 0
	}
	return max(0, s.state.Usage().Changes-s.savedChanges)
}

// update changes the status.
func (s *Store) update(change func(*Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.status)
}
