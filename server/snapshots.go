package server

import (
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/persistence"
)

// Snapshots saves the state of the engine, and reports the progress of saving and loading. It must be
// safe for concurrent use.
type Snapshots interface {
	// Save writes a snapshot and returns when it is on disk. The error is
	// persistence.ErrSaving if a snapshot is already being written.
	Save() error
	// SaveInBackground starts to write a snapshot and returns immediately. The error is
	// persistence.ErrSaving if a snapshot is already being written.
	SaveInBackground() error
	// Status returns the status of loading and saving.
	Status() persistence.Status
	// Loading reports whether the state is still being loaded. During the load, only commands that do not touch the
	// state are served. Loading is called for each command, so it must be cheap, like one atomic load.
	Loading() bool
}

// noSnapshots implements Snapshots for a server without persistence.
type noSnapshots struct {
	engine limiter.Engine
	since  time.Time
}

func (n noSnapshots) Save() error             { return errNoSnapshots }
func (n noSnapshots) SaveInBackground() error { return errNoSnapshots }
func (n noSnapshots) Loading() bool           { return false }

func (n noSnapshots) Status() persistence.Status {
	return persistence.Status{Changes: n.engine.Usage().Changes, LastSave: n.since, LastDuration: -1}
}
