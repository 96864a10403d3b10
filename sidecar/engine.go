package sidecar

import "github.com/throttledhq/throttled/limiter"

// Decider decides requests in the sidecar, without the upstream.
type Decider interface {
	// Decide stores the decisions on reqs in out, which has the same length. The Err of a request that it does not
	// decide is limiter.ErrNotLeading. Groups are decided as a whole, as by limiter.Engine.
	Decide(reqs []limiter.Request, out []limiter.Decision)
}

// Engine is the engine of a sidecar. It holds no keys.
type Engine struct {
	// Decider decides some of the requests. Optional; if nil, all requests are forwarded.
	Decider Decider
}

var _ limiter.Engine = Engine{}

// Decide decides the requests that the Decider decides. The Err of all other decisions is limiter.ErrNotLeading.
func (e Engine) Decide(reqs []limiter.Request, out []limiter.Decision) limiter.CommitToken {
	if e.Decider != nil {
		e.Decider.Decide(reqs, out)
		return limiter.CommitToken{}
	}
	for i := range out {
		out[i] = limiter.Decision{Err: limiter.ErrNotLeading}
	}
	return limiter.CommitToken{}
}

// LastWrite returns the zero CommitToken.
func (Engine) LastWrite() limiter.CommitToken { return limiter.CommitToken{} }

// WaitCommitted returns nil: a sidecar changes no state of its own.
func (Engine) WaitCommitted(limiter.CommitToken) error { return nil }

// Lookup finds no key.
func (Engine) Lookup([]byte) (limiter.Entry, bool) { return limiter.Entry{}, false }

// Delete returns limiter.ErrNotLeading.
func (Engine) Delete([]byte) (bool, error) { return false, limiter.ErrNotLeading }

// Scan visits no key.
func (Engine) Scan(uint64, int, func([]byte, limiter.Kind)) uint64 { return 0 }

// RandomKey finds no key.
func (Engine) RandomKey(uint64) ([]byte, bool) { return nil, false }

// Clear returns limiter.ErrNotLeading.
func (Engine) Clear() error { return limiter.ErrNotLeading }

// Usage returns zero.
func (Engine) Usage() limiter.Usage { return limiter.Usage{} }

// Leases visits no lease: the upstream holds those that it has granted.
func (Engine) Leases(func(limiter.Lease) bool) {}

// LeaseUsage returns zero.
func (Engine) LeaseUsage() limiter.LeaseUsage { return limiter.LeaseUsage{} }
