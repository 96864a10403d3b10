package client

import (
	"math"
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

// decide decides a request of n units.
func (a *away) decide(key string, l *Limit, n int64) limiter.Decision {
	switch a.policy {
	case Open:
		return limiter.Decision{Limit: l.limit.Max, Remaining: max(0, l.limit.Max-n), RetryAfter: limiter.NoRetry}
	case Local:
		return a.decideLocal(key, l, n)
	}
	return refusal(l.limit.Max)
}

func refusal(limit int64) limiter.Decision {
	return limiter.Decision{Limited: true, Limit: limit, RetryAfter: awayRetry, ResetAfter: awayRetry}
}

// decideLocal charges the share of this process. A key that is in use with another kind of limit is refused.
func (a *away) decideLocal(key string, l *Limit, n int64) limiter.Decision {
	reqs := [1]limiter.Request{{Kind: l.kind, Key: []byte(key), Limit: l.share(a.part), Quantity: n}}
	var out [1]limiter.Decision
	a.table.Decide(reqs[:], out[:])
	if out[0].Err != nil {
		return refusal(reqs[0].Limit.Max)
	}
	return out[0]
}

// validPart returns the share, or 1 if it is not a positive number.
func validPart(share float64) float64 {
	if math.IsNaN(share) || share <= 0 {
		return 1
	}
	return min(share, 1)
}
