package server

import (
	"bytes"
	"errors"
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/rules"
	"github.com/throttledhq/throttled/topology"
)

const (
	failedRetry  = time.Second // RetryAfter of a request that on_failure refuses
	outageProbes = time.Second // pause between two requests that wait for a leader that earlier ones could not reach
)

// outage records that this node could not reach a leader, so that requests of CL.CHECK are not all delayed until their
// deadline. The zero value means that the leader was reached.
type outage struct {
	view atomic.Pointer[topology.View] // view in which a request has waited until its deadline
	next atomic.Int64                  // uptime of the server in nanoseconds from which another request may wait
}

// begin records that a request has waited until its deadline in a view.
func (o *outage) begin(v *topology.View, now time.Duration) {
	o.next.Store(int64(now + outageProbes))
	o.view.Store(v)
}

// end records that the leader was reached.
func (o *outage) end() {
	if o.view.Load() != nil {
		o.view.Store(nil)
	}
}

// skipWait reports whether a request must not wait for a leader in a view. In each period of outageProbes, it returns false
// to one caller, so that a leader is found that becomes reachable without a change of the view. This caller must wait. If
// the leader answers, the outage ends.
func (o *outage) skipWait(v *topology.View, now time.Duration) bool {
	failed := o.view.Load()
	if failed == nil || failed.Changed != v.Changed {
		return false
	}
	next := o.next.Load()
	return int64(now) < next || !o.next.CompareAndSwap(next, int64(now+outageProbes))
}

// onlyChecks reports whether all calls of a batch without an outcome have a failure policy.
func (b *batch) onlyChecks() bool {
	for i := range b.calls {
		if c := &b.calls[i]; !c.done && !c.hasPolicy() {
			return false
		}
	}
	return true
}

// hasPolicy reports whether the limits of a call determine its reply if no leader decides it.
func (c *call) hasPolicy() bool { return c.cmd.hasPolicy() && c.args != nil }

// hasPolicy reports whether on_failure applies to the command.
func (cmd *command) hasPolicy() bool { return cmd.rules && !cmd.report }

// answerByPolicy replies to a CL.CHECK that no leader has decided, according to on_failure in the rules that this node
// has. It returns false if the call has another outcome, if these rules cannot be used for the request, or if the call is a
// refund that the leader may have run: neither decision would then be correct, and a client that repeats a refused refund would
// restore its units twice.
func (l *collector) answerByPolicy(b *batch, call *call) bool {
	if !call.hasPolicy() || !call.isUndecided() || !l.client.forwardsCommands() {
		return false
	}
	o := newCheckOptions()
	pairs, err := o.read(call.args[2:], optionsCheck)
	if err != nil || o.restores() && call.isUncertain() || b.rule.match(call.args[1], pairs) != nil {
		return false
	}
	f := l.srv.fallback()
	call.unit, call.limits = o.unit, b.rule.applyPolicies(&o, &f)
	call.leftOut, call.inStats, call.unmatched = false, o.isCharge(), b.rule.unmatched // no shadow limit is asked
	extra := ruleFlags(0)
	if len(call.limits) == 0 {
		extra = flagFailOpen
	}
	s := b.rule.summarize(call, extra)
	b.rule.countCall(call, &s)
	b.rule.appendReply(l.out, call, &s)
	b.decided.add(l.srv.stats.of(call.cmd), s.top.Limited)
	if l.srv.isSidecar() {
		l.srv.away.addFlags(s.flags, s.top.Limited)
	}
	return true
}

// isUndecided reports whether no leader has decided a call, or it is not known whether the leader has. The reply to a
// forwarded call is relayed as bytes, so an error of the leader is recognized by its code.
func (c *call) isUndecided() bool {
	if c.err != nil {
		return isNotLeading(c.err) || c.isUncertain() || c.err == errBusy
	}
	for _, code := range [...]string{"-LOADING ", "-BUSY ", "-CLUSTERDOWN "} { // replies of the leader, or of an upstream
		if bytes.HasPrefix(c.reply, []byte(code)) {
			return true
		}
	}
	return c.isUncertain()
}

// isUncertain reports whether it is not known if the leader has run a call.
func (c *call) isUncertain() bool {
	return errors.Is(c.err, limiter.ErrUncertain) || bytes.HasPrefix(c.reply, []byte("-UNCERTAIN "))
}

// applyPolicies sets p.shown to the decisions of on_failure on the live limits in p.matches, and returns their counters.
func (p *ruleParsing) applyPolicies(o *checkOptions, f *fallback) []appliedCounter {
	from, refused := len(p.limits), false
	p.shown = p.shown[:0]
	local := localGroup{fallback: f}
	for i := range p.matches.List {
		m := &p.matches.List[i]
		if isShadow(m.Limit) {
			continue
		}
		for j := range m.Counters {
			a := appliedCounter{limit: m.Limit, counts: p.counts.At(m.Number), counter: &m.Counters[j], request: -1, ban: -1}
			policy := f.policyOf(&a)
			switch {
			case policy == rules.FailLocal && f.local == nil:
				policy = f.insteadOfLocal(&a)
			case policy == rules.FailLocal && a.counter.Amount.Kind == rules.Rate:
				a.request = local.add(p, m, a.counter, o)
			}
			s := policyDecision(&a, o, policy)
			p.addJitter(&a, &s)
			refused = refused || s.decision.Limited
			p.limits, p.shown = append(p.limits, a), append(p.shown, s)
		}
	}
	limits := p.limits[from:len(p.limits):len(p.limits)]
	if len(local.reqs) > 0 {
		local.decide(p, limits, refused, o)
	}
	return limits
}

// policyOf returns the policy for a counter: on_failure of its limit, or that of the server. A limit that only reports charge has
// no share that a request could charge, so the policy of the server cannot be FailLocal.
func (f *fallback) policyOf(a *appliedCounter) rules.FailurePolicy {
	switch {
	case a.limit != nil && a.limit.OnFailure != rules.FailDefault:
		return a.limit.OnFailure
	case f.policy == rules.FailLocal && a.limit != nil && len(a.limit.Charge) > 0:
		return rules.FailClosed
	}
	return f.policy
}

// insteadOfLocal returns the policy for a counter that FailLocal cannot decide, for example because memory is full: FailOpen
// if FailLocal is on_failure of its limit, and FailClosed if it is the policy of the server.
func (f *fallback) insteadOfLocal(a *appliedCounter) rules.FailurePolicy {
	if f.policy == rules.FailLocal && (a.limit == nil || a.limit.OnFailure == rules.FailDefault) {
		return rules.FailClosed
	}
	return rules.FailOpen
}

// policyDecision returns a counter as the reply shows it if the counter cannot be asked, and this node does not decide it. The
// amounts "unlimited" and "none" need not be asked.
func policyDecision(a *appliedCounter, o *checkOptions, policy rules.FailurePolicy) shownLimit {
	s := shownLimit{decision: unlimited, flags: a.staticFlags() &^ flagUnlimited}
	switch {
	case a.counter.Amount.Kind == rules.Unlimited:
		s.flags |= flagUnlimited
	case a.counter.Amount.Kind == rules.None:
		s.decision = limiter.Decision{Limited: !o.isRefund(), RetryAfter: limiter.NoRetry}
	case policy == rules.FailClosed:
		s.decision = limiter.Decision{Limited: true, RetryAfter: failedRetry, ResetAfter: failedRetry}
		s.flags |= flagFailClosed
	default:
		s.flags |= flagFailOpen
	}
	return s
}

// localGroup holds the requests of one CL.CHECK that this node decides. They are admitted all or none, unless the limits of
// the domain are charged each on its own.
type localGroup struct {
	*fallback
	reqs []limiter.Request
	out  [limiter.MaxGroup]limiter.Decision
}

// add appends the request for a counter, and returns its index.
func (g *localGroup) add(p *ruleParsing, m *rules.Matched, c *rules.Counter, o *checkOptions) int32 {
	from := len(p.keys)
	p.keys = c.AppendKey(p.keys, m.Per)
	limit := c.LimitAt(p.now, m.Priority).Share(c.Kind, g.share)
	req := limiter.Request{Kind: c.Kind, Key: p.keys[from:len(p.keys):len(p.keys)], Limit: limit, Linked: p.semantics != rules.Envoy}
	req.Trial = o.dryRun
	if !o.peek {
		req.Quantity = product(o.cost, m.Cost)
	}
	g.reqs = append(g.reqs, req)
	return int32(len(g.reqs) - 1)
}

// decide decides the requests, and sets p.shown to the decisions. If another limit refuses the request, nothing is charged,
// unless the limits are charged each on its own.
func (g *localGroup) decide(p *ruleParsing, limits []appliedCounter, refused bool, o *checkOptions) {
	each := p.semantics == rules.Envoy
	for i := range g.reqs {
		g.reqs[i].Trial = g.reqs[i].Trial || refused && !each
	}
	g.reqs[len(g.reqs)-1].Linked = false
	g.local.Decide(g.reqs, g.out[:len(g.reqs)])
	if each && o.isCharge() {
		for i := range limits {
			limits[i].fill(g.reqs, g.out[:], g.local)
		}
	}
	g.show(p, limits, o)
}

// show sets p.shown to the decisions, and to those of insteadOfLocal for counters without a decision.
func (g *localGroup) show(p *ruleParsing, limits []appliedCounter, o *checkOptions) {
	for i := range limits {
		a, s := &limits[i], &p.shown[i]
		if a.request < 0 {
			continue
		}
		if g.out[a.request].Err != nil {
			*s = policyDecision(a, o, g.insteadOfLocal(a))
			p.addJitter(a, s)
			continue
		}
		s.flags = s.flags&^flagFailOpen | flagLocal
		g.out[a.request].RetryWhole(g.reqs[a.request].Quantity, a.counter.Limit.Max, failedRetry)
		showDecision(a, s, &g.reqs[a.request], &g.out[a.request], int64(float64(a.soft())*g.share))
		p.addJitter(a, s)
	}
}
