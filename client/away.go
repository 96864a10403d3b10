package client

import (
	"time"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/limiter"
)

// Policy decides requests that the server has not decided in time.
type Policy int

// Policies.
const (
	// Closed refuses the requests. It fits limits that protect secrets, such as passwords.
	Closed Policy = iota
	// Open admits the requests. It fits limits that protect capacity.
	Open
	// Local decides the requests in this process with Options.Share of each limit.
	Local
)

// Bounds of the table for the policy Local.
const (
	localMemory = 16 << 20 // bytes: more than 100,000 keys; those closest to their full limit are evicted first
	localShards = 16
)

// awayRetry is the RetryAfter of decisions by the policy Closed.
const awayRetry = time.Second

// away decides requests without the server.
type away struct {
	policy Policy
	part   float64
	table  *buckets.Table // for the policy Local, otherwise nil
}

func newAway(policy Policy, part float64) away {
	a := away{policy: policy, part: part}
	if policy == Local {
		a.table = buckets.New(buckets.Config{MaxMemory: localMemory, Eviction: buckets.EvictSmallestDebt, Shards: localShards})
	}
	return a
}

// decide decides a request of n units of all limits: it charges all of them, or none.
func (a *away) decide(charges []Charge, n int64) []limiter.Decision {
	if a.policy == Local {
		return a.decideLocal(charges, n)
	}
	out := make([]limiter.Decision, len(charges))
	for i := range charges {
		limit := charges[i].Limit.limit
		out[i] = limit.Refused(n, awayRetry)
		if a.policy == Open {
			out[i] = limiter.Decision{Limit: limit.Max, Remaining: max(0, limit.Max-n), RetryAfter: limiter.NoRetry}
		}
	}
	return out
}

// decideLocal charges the share of this process. A key that is in use with another kind of limit is refused.
func (a *away) decideLocal(charges []Charge, n int64) []limiter.Decision {
	reqs := make([]limiter.Request, len(charges))
	for i := range charges {
		l := &charges[i].Limit
		reqs[i] = limiter.Request{Kind: l.kind, Key: []byte(charges[i].Key), Limit: l.limit.Share(l.kind, a.part), Quantity: n, Linked: i < len(charges)-1}
	}
	out := make([]limiter.Decision, len(charges))
	a.table.Decide(reqs, out)
	for i := range out {
		whole := charges[i].Limit.limit
		if out[i].Err != nil {
			out[i] = whole.Refused(n, awayRetry)
		}
		out[i].RetryWhole(n, whole.Max, awayRetry)
	}
	return out
}
