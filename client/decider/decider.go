// Package decider makes the middleware decide requests in the process, with a client.Client.
//
//	limiter := middleware.New(rdb, middleware.Config{Decider: decider.New(c)})
package decider

import (
	"cmp"
	"context"

	"github.com/throttledhq/throttled/client"
	"github.com/throttledhq/throttled/middleware"
)

// Decider implements middleware.Decider. It is safe for concurrent use.
type Decider struct{ client *client.Client }

// New returns a Decider that uses a Client. The limits have the same state on the server as without the Decider. If the
// server does not answer within the Timeout of the Client, OnFailure of the middleware decides instead of the policy of
// the Client.
func New(c *client.Client) *Decider { return &Decider{c} }

// Decide charges cost units of all limits or of none. The errors are those of client.Client.AllowAll, and the reason of a
// decision that is flagged.
func (d *Decider) Decide(ctx context.Context, limits []middleware.Limit, cost int64) ([]middleware.State, error) {
	charges := make([]client.Charge, len(limits))
	for i := range limits {
		l, err := compile(&limits[i])
		if err != nil {
			return nil, err
		}
		charges[i] = client.Charge{Key: limits[i].Key, Limit: l}
	}
	decisions, err := d.client.AllowAll(ctx, cost, charges...)
	if err != nil {
		return nil, err
	}
	states := make([]middleware.State, len(decisions))
	for i, got := range decisions {
		if got.Flagged {
			return nil, got.Err
		}
		states[i] = middleware.State{
			Admitted: got.Admitted, Limit: got.Limit, Remaining: got.Remaining,
			RetryAfter: got.RetryAfter, ResetAfter: got.ResetAfter,
		}
	}
	return states, nil
}

// compile returns the limit that the middleware sends to the server for l.
func compile(l *middleware.Limit) (client.Limit, error) {
	switch l.Algorithm {
	case middleware.Sliding:
		return client.SlidingWindow(l.Count, l.Period)
	case middleware.Fixed:
		return client.FixedWindow(l.Count, l.Period)
	case middleware.Log:
		return client.WindowLog(l.Count, l.Period)
	}
	return client.Throttle(cmp.Or(l.Burst, l.Count)-1, l.Count, l.Period)
}
