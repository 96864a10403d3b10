package acl

import (
	"sync"
	"sync/atomic"
)

// Store holds the current users. Its methods are safe for concurrent use.
type Store struct {
	current atomic.Pointer[published]

	mu       sync.Mutex // held while the set changes
	password string     // of the user "default" while it is not explicit
}

// published is a set, and a channel that is closed when another set replaces it.
type published struct {
	set     *Set
	changed chan struct{}
}

// NewStore returns a store that holds a set.
func NewStore(set *Set) *Store {
	s := &Store{}
	s.current.Store(&published{set, make(chan struct{})})
	return s
}

// Get returns the current set. It costs one atomic load.
func (s *Store) Get() *Set { return s.current.Load().set }

// Changed returns a channel that is closed when the current set is replaced.
func (s *Store) Changed() <-chan struct{} { return s.current.Load().changed }

// Replace replaces the current set. If the user "default" is not explicit, it gets the password of FollowPassword.
func (s *Store) Replace(set *Set) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.publish(set.withDefaultPassword(s.password))
}

// CompareAndReplace replaces the current set if it is still old, and reports whether it did.
func (s *Store) CompareAndReplace(old, set *Set) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Get() != old {
		return false
	}
	s.publish(set.withDefaultPassword(s.password))
	return true
}

// FollowPassword sets the password of the user "default", "" for none. It has no effect while the user is explicit.
func (s *Store) FollowPassword(password string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.password = password
	if set := s.Get().withDefaultPassword(password); set != s.Get() {
		s.publish(set)
	}
}

// publish makes a set the current one. The caller holds s.mu.
func (s *Store) publish(set *Set) {
	old := s.current.Swap(&published{set, make(chan struct{})})
	close(old.changed)
}
