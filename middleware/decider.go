package middleware

import (
	"context"
	"fmt"
)

// Decider decides requests with a limit of the program. The package client/decider has one that decides in this process
// with units that it leases from the server. This package does not import it, so that programs depend on the modules of
// the server only if they use it.
type Decider interface {
	// Decide charges cost units of a limit, at least 1, if the limit admits them, and returns its state. An error means that
	// there is no decision: Config.OnFailure decides then. Decide is called concurrently, and returns when ctx is done.
	Decide(ctx context.Context, limit Limit, cost int64) (State, error)
}

// isSingle reports whether the request charges one limit of the program.
func (r *Request) isSingle() bool { return r.Domain == "" && len(r.Limits) == 1 && r.Cost >= 0 }

// checkSingle returns the decision of the Decider on a request with one limit.
func (l *Limiter) checkSingle(ctx context.Context, r *Request) (Decision, error) {
	limit := &r.Limits[0]
	if err := limit.check(); err != nil {
		return Decision{}, err
	}
	state, err := l.cfg.Decider.Decide(ctx, *limit, r.cost())
	if err != nil {
		return Decision{}, fmt.Errorf("decide in this process: %w", err)
	}
	s := LimitState{State: state}
	limit.describe(&s)
	return Decision{State: s.State, Limits: []LimitState{s}, Source: FromDecider}, nil
}
