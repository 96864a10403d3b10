package middleware

import (
	"context"
	"fmt"
)

// Decider decides requests with limits of the program. The package client/decider has one that decides in this process
// with units that it leases from the server. This package does not import it, so that programs depend on the modules of
// the server only if they use it.
type Decider interface {
	// Decide charges cost units, at least 1, of all limits, of which there is at least one, or of none of them. It returns
	// the state of each limit. An error means that there is no decision: Config.OnFailure decides then. Decide is called
	// concurrently, and returns when ctx is done.
	Decide(ctx context.Context, limits []Limit, cost int64) ([]State, error)
}

// hasLimits reports whether the request charges limits of the program.
func (r *Request) hasLimits() bool { return r.Domain == "" && len(r.Limits) > 0 && r.Cost >= 0 }

// askDecider returns the decision of the Decider on the limits of a request.
func (l *Limiter) askDecider(ctx context.Context, r *Request) (Decision, error) {
	for i := range r.Limits {
		if err := r.Limits[i].check(); err != nil {
			return Decision{}, err
		}
	}
	states, err := l.cfg.Decider.Decide(ctx, r.Limits, r.cost())
	switch {
	case err != nil:
		return Decision{}, fmt.Errorf("decide in this process: %w", err)
	case len(states) != len(r.Limits):
		return Decision{}, fmt.Errorf("decide in this process: %d states of %d limits", len(states), len(r.Limits))
	}
	d := Decision{Limits: make([]LimitState, len(states)), Source: FromDecider}
	for i := range states {
		s := &d.Limits[i]
		s.State = states[i]
		r.Limits[i].describe(s)
		if i == 0 || outranks(&s.State, &d.State) {
			d.State = s.State
		}
	}
	return d, nil
}
