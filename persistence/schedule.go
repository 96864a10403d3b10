package persistence

import (
	"context"
	"slices"
	"time"
)

// SavePoint makes a save due if the duration After has elapsed since the end of the last successful save, and
// the number of changes since the start of that save is at least Changes.
type SavePoint struct {
	After   time.Duration
	Changes int64
}

const (
	checkEvery = time.Second     // interval at which Run checks whether a save is due
	retryAfter = 5 * time.Second // delay from the end of a failed save to the next attempt
)

// SetSavePoints replaces the save points of Run. A save is due if any save point makes it
// due. Without save points, no save is due. SetSavePoints may be called at any time.
func (s *Store) SetSavePoints(points []SavePoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.points = slices.Clone(points)
}

// Run starts a background save whenever a save point makes it due. When ctx is canceled,
// Run waits for a running save, even if Run has not started it, and returns.
func (s *Store) Run(ctx context.Context) {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			s.wait()
			return
		case <-tick.C:
			if s.due(time.Now()) {
				_ = s.SaveInBackground() // an error means that another save or Close came first
			}
		}
	}
}

// due reports whether a save must start.
func (s *Store) due(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.saving != nil || s.Loading() {
		return false
	}
	if s.status.LastFailed && now.Sub(s.failed) < retryAfter {
		return false
	}
	age := now.Sub(s.status.LastSave)
	return slices.ContainsFunc(s.points, func(p SavePoint) bool {
		return age >= p.After && s.changes() >= p.Changes
	})
}
