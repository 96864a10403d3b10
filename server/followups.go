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
// its own: it is a CL.REPORT, or a CL.CHECK in a domain with the semantics of Envoy. fill returns the later one of t and the
// tokens of the new decisions.
func (b *batch) fill(c *call, d Decider, t limiter.CommitToken) limiter.CommitToken {
	for i := range c.limits {
		a := &c.limits[i]
		t = later(t, a.fill(b.reqs, b.out[:], d))
		if c.cmd.report {
			a.retry = limiter.NoRetry
		}
	}
	return t
}

// fill charges as many units as fit to a counter that has refused its request in reqs. It replaces the request and the
// decision in out, and returns the token of the new decision, or the zero token if there is none.
func (a *appliedCounter) fill(reqs []limiter.Request, out []limiter.Decision, d Decider) (t limiter.CommitToken) {
	if a.request < 0 {
		return t
	}
	req, decision := reqs[a.request:a.request+1], out[a.request:a.request+1]
	if decision[0].Err != nil || !decision[0].Limited {
		return t
	}
	a.full, a.retry = true, decision[0].RetryAfter
	if a.counter.Amount.Kind == rules.None || decision[0].Remaining < 1 {
		return t
	}
	req[0].Quantity = decision[0].Remaining
	return d.Decide(req, decision)
}

// later returns the later of two tokens. b was made after a. If it is from another epoch, a is returned: waiting for its
// commit then fails.
func later(a, b limiter.CommitToken) limiter.CommitToken {
	if b.Epoch == a.Epoch && b.Generation > a.Generation {
		return b
	}
	return a
}
