package client

import (
	"context"
	"fmt"

	"github.com/throttledhq/throttled/lessee"
	"github.com/throttledhq/throttled/limiter"
)

// Charge is a key and the limit that a request charges there.
type Charge struct {
	Key   string
	Limit Limit
}

// AllowAll decides a request of n units of each of 1 to 32 limits with different keys, and charges all of them or none. It
// returns a decision for each limit, of which Deciding returns the one that decides. If a limit refuses, the decisions on the
// others have their present units. The errors are those of AllowN.
//
// The request is decided in this process if units of all limits are in hand. It is never refused without the server, except by
// Options.Away.
func (c *Client) AllowAll(ctx context.Context, n int64, charges ...Charge) ([]Decision, error) {
	if len(charges) < 1 || len(charges) > limiter.MaxGroup {
		return nil, fmt.Errorf("%w: a request must have 1 to %d limits", ErrLimit, limiter.MaxGroup)
	}
	for i := range charges {
		if err := c.check(&charges[i].Limit, n); err != nil {
			return nil, err
		}
	}
	if len(charges) == 1 {
		d, err := c.AllowN(ctx, charges[0].Key, charges[0].Limit, n)
		return []Decision{d}, err
	}
	reqs, out := make([]limiter.Request, len(charges)), make([]limiter.Decision, len(charges))
	for i := range charges {
		l := &charges[i].Limit
		reqs[i] = limiter.Request{Kind: l.kind, Key: []byte(charges[i].Key), Limit: l.limit, Quantity: n}
	}
	if !c.ledger.DecideGroup(reqs, lessee.Now(), out) {
		return c.forward(ctx, charges, n)
	}
	ds := make([]Decision, len(out))
	for i := range out {
		ds[i] = decision(&out[i], FromLease)
	}
	return ds, nil
}

// command returns the command that charges n units of all limits.
func command(charges []Charge, n int64) []any {
	if len(charges) == 1 {
		return charges[0].Limit.command(charges[0].Key, n)
	}
	args := append(make([]any, 0, 3+6*len(charges)), "CL.ALL", n)
	for i := range charges {
		args = charges[i].Limit.appendSpec(args, charges[i].Key)
	}
	return append(args, "MS")
}
