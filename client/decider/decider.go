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

// Decide charges cost units of a limit if it admits them. The errors are those of client.Client.AllowN, and the reason of a
// decision that is flagged.
func (d *Decider) Decide(ctx context.Context, limit middleware.Limit, cost int64) (middleware.State, error) {
	l, err := compile(&limit)
	if err != nil {
		return middleware.State{}, err
	}
	got, err := d.client.AllowN(ctx, limit.Key, l, cost)
	if err == nil {
		err = got.Err
	}
	if err != nil {
		return middleware.State{}, err
	}
	return middleware.State{
		Admitted: got.Admitted, Limit: got.Limit, Remaining: got.Remaining,
		RetryAfter: got.RetryAfter, ResetAfter: got.ResetAfter,
	}, nil
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
