package ruleset

import (
	"context"
	"fmt"
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

// Propose makes a proposal the next version of the store. It changes nothing, and returns the error of the context, if the
// context ends while Propose waits for another proposal or compiles this one.
func (l *Local) Propose(ctx context.Context, p Proposal) (Result, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := ended(ctx); err != nil {
		return Result{}, err
	}
	n, err := l.store.Prepare(ctx, p, l.now())
	if err != nil {
		return Result{}, err
	}
	if !n.Changed {
		return n.Result, nil
	}
	if err := ended(ctx); err != nil { // a small text is compiled even if the context ends
		return Result{}, err
	}
	l.store.Activate(n.Version, n.Packed)
	return n.Result, nil
}

// ended returns an error if a context has ended before a change of the rules.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("nothing was changed, try again: %w", err)
	}
	return nil
}
