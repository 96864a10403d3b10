package server

import (
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/persistence"
)

// Snapshots saves the state of the engine, and says how far that and loading it are. Its
// methods may be called from many goroutines at once.
type Snapshots interface {
	// Save writes a snapshot, and returns when it is on disk. The error is
	// persistence.ErrSaving if one is being written already.
	Save() error
	// SaveInBackground begins to write a snapshot and returns at once, with
	// persistence.ErrSaving if one is being written already.
	SaveInBackground() error
	// Status describes loading and saving.
	Status() persistence.Status
	// Loading reports whether the state is still being loaded: until then only commands
	// that do not touch it are served. It is called for each command, so it has to be
	// cheap: one atomic load.
	Loading() bool
}

// noSnapshots stands in where there is nowhere to save the state.
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
