package ruleset

import (
	"context"
	"sync"
	"time"
)

// Local is the log of a server whose rules are in memory only.
type Local struct {
	store *Store
	now   func() time.Time
	mu    sync.Mutex // held during a proposal
}

// NewLocal returns a log that changes a store. now returns the wall time.
func NewLocal(store *Store, now func() time.Time) *Local { return &Local{store: store, now: now} }

// Propose makes a proposal the next version of the store.
func (l *Local) Propose(_ context.Context, p Proposal) (Result, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.store.Prepare(p, l.now())
	if err != nil {
		return Result{}, err
	}
	if n.Changed {
		l.store.Activate(n.Version, n.Packed)
	}
	return n.Result, nil
}
