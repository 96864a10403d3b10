package server

import (
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/rules"
)

// decideWithFollowUps passes the requests of all calls to the engine, and then those that follow from the decisions: bans,
// and the units that fit into full counters. The token covers both.
func (b *batch) decideWithFollowUps(s *Server) limiter.CommitToken {
	if s.hold() {
		defer s.release()
	}
	t := s.engine.Decide(b.reqs, b.out[:len(b.reqs)])
	for i := range b.calls {
		c := &b.calls[i]
		b.countRefusals(c, s)
		if c.fills {
			t = b.fill(c, s.engine, t)
		}
	}
	return t
}

// fill charges as many units as fit to each counter that has refused a call. The counters of the call are charged each on
// its own: it is a CL.REPORT, or a CL.CHECK in a domain with the semantics of Envoy. fill replaces the request and the
// decision. It returns the later one of t and the tokens of the new decisions.
func (b *batch) fill(c *call, engine limiter.Engine, t limiter.CommitToken) limiter.CommitToken {
	for i := range c.limits {
		a := &c.limits[i]
		if a.request < 0 || b.out[a.request].Err != nil || !b.out[a.request].Limited {
			continue
		}
		a.full, a.retry = true, b.out[a.request].RetryAfter
		if c.cmd.report {
			a.retry = limiter.NoRetry
		}
		if a.counter.Amount.Kind == rules.None || b.out[a.request].Remaining < 1 {
			continue
		}
		b.reqs[a.request].Quantity = b.out[a.request].Remaining
		t = later(t, engine.Decide(b.reqs[a.request:a.request+1], b.out[a.request:a.request+1]))
	}
	return t
}

// later returns the later of two tokens. b was made after a. If it is from another epoch, a is returned: waiting for its
// commit then fails.
func later(a, b limiter.CommitToken) limiter.CommitToken {
	if b.Epoch == a.Epoch && b.Generation > a.Generation {
		return b
	}
	return a
}
