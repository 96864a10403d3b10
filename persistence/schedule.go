package persistence

import (
	"context"
	"slices"
	"time"
)

// SavePoint makes a save due when the last good one is After ago or longer and at least
// Changes changes have been made since.
type SavePoint struct {
	After   time.Duration
	Changes int64
}

const (
	checkEvery = time.Second     // how often Run looks whether a save is due
	retryAfter = 5 * time.Second // from the end of a failed save to the next that is due
)

// SetSavePoints says when Run saves: when any of the points makes it due. Without points
// it does not. It may be called at any time.
func (s *Store) SetSavePoints(points []SavePoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.points = slices.Clone(points)
}

// Run saves in the background whenever the save points make it due. When ctx ends, it
// waits for a running save, whoever asked for it, and returns.
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
				_ = s.SaveInBackground() // refused: somebody else has just begun one
			}
		}
	}
}

// due reports whether a save has to begin.
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
