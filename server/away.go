package server

import (
	"slices"
	"sync/atomic"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/resp"
	"github.com/throttledhq/throttled/rules"
)

// awayCounts counts the limiter commands that a sidecar has decided because the upstream has not.
type awayCounts struct{ open, closed, local, localRefused atomic.Int64 }

// add counts a command that a policy has decided.
func (a *awayCounts) add(policy rules.FailurePolicy, limited bool) {
	switch {
	case policy == rules.FailOpen:
		a.open.Add(1)
	case policy == rules.FailClosed:
		a.closed.Add(1)
	case limited:
		a.localRefused.Add(1)
	default:
		a.local.Add(1)
	}
}

// addFlags counts a CL.CHECK that the rules have decided, by the flags of its reply.
func (a *awayCounts) addFlags(flags ruleFlags, limited bool) {
	for _, row := range policyFlags {
		if flags&row.flag != 0 {
			a.add(row.policy, limited)
			return
		}
	}
}

// policyFlags holds the flags of policies, the strictest policy first.
var policyFlags = [...]struct {
	flag   ruleFlags
	policy rules.FailurePolicy
}{{flagFailClosed, rules.FailClosed}, {flagLocal, rules.FailLocal}, {flagFailOpen, rules.FailOpen}}

// replyPolicy appends an attribute of RESP3 with the flag of the policy that has decided the following reply. It has the form of
// the flags in the reply to CL.CHECK.
func replyPolicy(out *resp.Reply, policy rules.FailurePolicy) {
	out.Raw(oneAttribute)
	out.Text("flags")
	for _, row := range policyFlags {
		if row.policy == policy {
			replyRuleFlags(out, row.flag)
		}
	}
}

// oneAttribute is the header of the attributes of a reply, of which there is one.
var oneAttribute = []byte("|1\r\n")

func (a *awayCounts) reset() {
	for _, n := range [...]*atomic.Int64{&a.open, &a.closed, &a.local, &a.localRefused} {
		n.Store(0)
	}
}

// fallback decides requests that no leader, or the upstream of a sidecar, has decided.
type fallback struct {
	policy rules.FailurePolicy // FailOpen, FailClosed or FailLocal
	share  float64             // part of a limit that FailLocal admits; at most 1
	local  Decider             // nil: FailLocal is not possible
}

// awayPolicies are the values of the option upstream-away.
var awayPolicies = map[string]rules.FailurePolicy{"open": rules.FailOpen, "closed": rules.FailClosed, "local": rules.FailLocal}

// fallback returns the fallback of this server: that of the options if it is a sidecar.
func (s *Server) fallback() fallback {
	if !s.isSidecar() {
		return fallback{rules.FailOpen, 1, s.rules.local}
	}
	o := s.opts.Get()
	return fallback{awayPolicies[o.UpstreamAway], o.UpstreamShare, s.rules.local}
}

// answerAway replies to a limiter command of a sidecar that the upstream has not decided, by the option upstream-away, or with
// an error to a refund or a return of units that the upstream may have run. It returns false if the call has another outcome.
func (l *collector) answerAway(b *batch, call *call) bool {
	if !l.srv.isSidecar() || call.cmd.parse == nil || call.cmd.report || call.args == nil || !call.isUndecided() {
		return false
	}
	f := l.srv.fallback()
	var err error
	if call.cmd.rules {
		err = l.answerCheckAway(b, call, &f)
	} else {
		err = l.answerLimitAway(call, &f)
	}
	if err != nil {
		l.client.fail(call.cmd, err)
	}
	return true
}

// answerLimitAway replies to a command that names its limits.
func (l *collector) answerLimitAway(c *call, f *fallback) error {
	b := newBatch()
	defer b.release()
	b.configure(l.client)
	if err := b.add(c.cmd, c.args, false); err != nil {
		return err
	}
	if c.isUncertain() && slices.ContainsFunc(b.reqs, restores) {
		return limiter.ErrUncertain
	}
	out := b.out[:len(b.reqs)]
	policy := f.decide(b.reqs, out)
	if !c.cmd.leases {
		l.srv.away.add(policy, anyLimited(out))
	}
	if l.session.showsPolicy {
		replyPolicy(l.out, policy)
	}
	b.replyDecided(l.out, &b.calls[0], false, &l.srv.stats)
	return nil
}

// restores reports whether a request can restore units: a refund, or the return of units of a lease.
func restores(req limiter.Request) bool {
	return req.Quantity < 0 || req.Draw != nil && req.Draw.Return
}

// decide decides the requests of one command, and returns the policy that has decided them. FailLocal refuses requests that the
// share cannot decide, as FailClosed does, except that draws are answered without units.
func (f *fallback) decide(reqs []limiter.Request, out []limiter.Decision) rules.FailurePolicy {
	switch {
	case f.policy == rules.FailLocal && f.decideLocally(reqs, out):
		return rules.FailLocal
	case f.policy == rules.FailOpen || f.policy == rules.FailLocal && reqs[0].Draw != nil:
		for i := range reqs {
			out[i] = openDecision(&reqs[i])
		}
		return rules.FailOpen
	}
	for i := range reqs {
		out[i] = reqs[i].Limit.Refused(reqs[i].Quantity, failedRetry)
	}
	return rules.FailClosed
}

// decideLocally decides requests with the share of this sidecar, and reports whether all of them have a decision. Units are
// not leased from the share: the lessee would spend them after the return of the upstream. The requests are unchanged.
func (f *fallback) decideLocally(reqs []limiter.Request, out []limiter.Decision) bool {
	if f.local == nil || reqs[0].Draw != nil {
		return false
	}
	shares := slices.Clone(reqs)
	for i := range shares {
		shares[i].Limit = reqs[i].Limit.Share(reqs[i].Kind, f.share)
		shares[i].Key = append([]byte(localPrefix), reqs[i].Key...)
	}
	f.local.Decide(shares, out)
	for i := range out {
		if out[i].Err != nil {
			return false
		}
		out[i].RetryWhole(reqs[i].Quantity, reqs[i].Limit.Max, failedRetry)
	}
	return true
}

// localPrefix begins the keys of limiter commands in the local table, which also holds the keys of rules. These begin with
// "rule|".
const localPrefix = "key|"

// openDecision admits a request without charging it.
func openDecision(req *limiter.Request) limiter.Decision {
	left := min(max(req.Limit.Max-max(req.Quantity, 0), 0), req.Limit.Max)
	return limiter.Decision{Limit: req.Limit.Max, Remaining: left, RetryAfter: limiter.NoRetry}
}

// checkAway is the decision on a CL.CHECK that is refused because the upstream has not decided it.
var checkAway = limiter.Decision{Limited: true, RetryAfter: failedRetry, ResetAfter: failedRetry}

// answerCheckAway replies to a CL.CHECK without limits, since the rules of the request are not known. The policy FailLocal
// refuses it, because there is no limit of which a share could be charged.
func (l *collector) answerCheckAway(b *batch, c *call, f *fallback) error {
	o := newCheckOptions()
	if _, err := o.read(c.args[2:], optionsCheck); err != nil {
		return err
	}
	if o.restores() && c.isUncertain() {
		return limiter.ErrUncertain
	}
	c.unit, c.limits = o.unit, nil
	s := checkSummary{top: &checkAway, flags: flagFailClosed}
	if f.policy == rules.FailOpen {
		s = checkSummary{top: &unlimited, flags: flagFailOpen}
	}
	p := &b.rule
	p.shown, p.version = p.shown[:0], 0
	if o.isCharge() {
		p.state.counts.add(s.flags)
	}
	l.srv.away.addFlags(s.flags, s.top.Limited)
	p.appendReply(l.out, c, &s)
	b.decided.add(l.srv.stats.of(c.cmd), s.top.Limited)
	return nil
}
