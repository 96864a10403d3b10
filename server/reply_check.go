package server

import (
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/resp"
	"github.com/throttledhq/throttled/rules"
)

// ruleFlags is a set of flags in the reply to CL.CHECK.
type ruleFlags uint16

const (
	flagSoft       ruleFlags = 1 << iota // admitted, with units of the soft share
	flagWarn                             // the percentage of "warn" is used
	flagBanned                           // refused by a ban
	flagShadow                           // of a limit: it is a shadow limit; of the reply: a shadow limit would have refused
	flagReport                           // the limit is charged by CL.REPORT, after the request
	flagDefault                          // the limit is the default of the domain
	flagUnmatched                        // neither a live limit nor a default applies
	flagUnlimited                        // the amount is unlimited
	flagError                            // the shadow limit could not be decided
	flagFailOpen                         // admitted by on_failure, because no leader has decided
	flagFailClosed                       // refused by on_failure, because no leader has decided
	flagLocal                            // decided by this node, because no leader has decided
	flagUncharged                        // of a report: a limit or a default applies, and none is charged by the outcome
)

// ruleFlagNames holds the names of the flags in the order of their bits.
var ruleFlagNames = [...]string{"soft", "warn", "banned", "shadow", "report", "default", "unmatched", "unlimited", "error", "failopen", "failclosed", "local", "uncharged"}

// shownLimit is a counter as the reply shows it.
type shownLimit struct {
	decision limiter.Decision
	flags    ruleFlags
	usesSoft bool // units of the soft share are used, whether or not the request is admitted; see setSoft
}

// name returns the name of the limit. That of the default of a domain is empty.
func (a *appliedCounter) name() string {
	if a.limit == nil {
		return ""
	}
	return a.limit.Name
}

// unlimited is the decision for a request to which no limit applies, and that of the amount "unlimited".
var unlimited = limiter.Decision{Limit: math.MaxInt64, Remaining: math.MaxInt64, RetryAfter: limiter.NoRetry}

// replyCheck appends the reply to CL.CHECK or CL.REPORT, and counts the call.
func replyCheck(out *resp.Reply, b *batch, c *call) {
	p := &b.rule
	p.shown = slices.Grow(p.shown[:0], len(c.limits))[:len(c.limits)]
	for i := range c.limits {
		b.show(&c.limits[i], &p.shown[i])
	}
	s := p.summarize(c, 0)
	p.countCall(c, &s)
	p.appendReply(out, c, &s)
}

// checkSummary is the part of a reply that concerns the whole request.
type checkSummary struct {
	top   *limiter.Decision // on the deciding counter
	name  string            // of its limit
	flags ruleFlags
	all   ruleFlags // of all counters
}

// summarize returns the summary of the counters in p.shown, and completes their flags. The parameter extra is added to the
// flags of the summary.
func (p *ruleParsing) summarize(c *call, extra ruleFlags) checkSummary {
	s := checkSummary{top: &unlimited, flags: flagUnmatched}
	if c.uncharged {
		s.flags = flagUncharged
	}
	if at := decidingLimit(c.limits, p.shown); at >= 0 {
		s.top, s.name, s.flags = &p.shown[at].decision, c.limits[at].name(), 0
	}
	setSoft(c.limits, p.shown, s.top.Limited)
	if s.all = allFlags(p.shown); s.all != 0 {
		s.flags |= combineFlags(c.limits, p.shown)
	}
	s.flags |= extra
	return s
}

// countCall adds a call to the statistics of the rules.
func (p *ruleParsing) countCall(c *call, s *checkSummary) {
	if !c.inStats {
		return
	}
	p.countLimits(c, s)
	p.state.counts.add(s.flags)
	if c.leftOut || s.all&flagError != 0 {
		p.state.counts.shadowErrors.Add(1)
	}
}

// appendReply appends the reply with a summary and the counters in p.shown.
func (p *ruleParsing) appendReply(out *resp.Reply, c *call, s *checkSummary) {
	if out.Protocol() == 3 {
		mapCheck(out, c, s, p.shown)
		out.Text("version")
	} else {
		arrayCheck(out, c, s, p.shown)
	}
	out.Int(int64(p.version))
}

// allFlags returns the flags of all counters.
func allFlags(shown []shownLimit) (all ruleFlags) {
	for i := range shown {
		all |= shown[i].flags
	}
	return all
}

// show sets s to a counter as the reply shows it, without flagSoft.
func (b *batch) show(a *appliedCounter, s *shownLimit) {
	s.flags, s.usesSoft = a.staticFlags(), false
	switch {
	case a.noCost:
		s.decision, s.flags = unlimited, s.flags|flagError
	case a.request < 0:
		s.decision = unlimited
	case b.out[a.request].Err != nil:
		s.decision, s.flags = unlimited, s.flags|flagError
	default:
		showDecision(a, s, &b.reqs[a.request], &b.out[a.request], a.soft())
	}
	if a.ban >= 0 && b.out[a.ban].Limited {
		s.addBan(b.out[a.ban].RetryAfter)
	}
	b.rule.addJitter(a, s)
}

// addBan adds a ban to the decision on a counter. After the ban, the counter can refuse the request for a longer time, or
// at all times.
func (s *shownLimit) addBan(rest time.Duration) {
	d := &s.decision
	if !d.Limited || d.RetryAfter != limiter.NoRetry {
		d.RetryAfter = max(d.RetryAfter, rest)
	}
	d.Limited, d.Remaining, d.ResetAfter, d.Wait = true, 0, max(d.ResetAfter, rest), limiter.NoRetry
	s.flags |= flagBanned
}

// addJitter lengthens the retry time of a refusal by retry_jitter of the limit.
func (p *ruleParsing) addJitter(a *appliedCounter, s *shownLimit) {
	if d := &s.decision; d.Limited && a.limit != nil && a.limit.RetryJitter > 0 {
		d.RetryAfter = jittered(d.RetryAfter, a.limit.RetryJitter, p.state.random())
		d.ResetAfter = max(d.ResetAfter, d.RetryAfter)
	}
}

// soft returns the number of units of the soft share.
func (a *appliedCounter) soft() int64 { return a.counter.Limit.Max - a.counter.Nominal }

// showDecision sets s to a decision on a counter, relative to its nominal limit: that of the request without soft units.
func showDecision(a *appliedCounter, s *shownLimit, req *limiter.Request, decided *limiter.Decision, soft int64) {
	d := &s.decision
	*d = *decided
	if a.full {
		d.Limited, d.RetryAfter = true, a.retry
	}
	if a.counter.Amount.Kind != rules.Rate { // none
		d.Limit, d.Remaining = 0, 0
		if d.Limited {
			d.Wait = limiter.NoRetry // the request for "none" is not one of a leaky bucket
		}
		return
	}
	if a.limit == nil {
		return
	}
	nominal, used := req.Limit.Max-soft, req.Limit.Max-d.Remaining
	s.usesSoft = used > nominal
	if a.limit.Warn > 0 && isShare(used, nominal, a.limit.Warn) {
		s.flags |= flagWarn
	}
	d.Limit, d.Remaining = nominal, max(d.Remaining-soft, 0)
}

// staticFlags returns the flags that do not depend on the decision.
func (a *appliedCounter) staticFlags() (flags ruleFlags) {
	if a.request < 0 && !a.noCost {
		flags = flagUnlimited
	}
	if a.limit == nil {
		return flags | flagDefault
	}
	if len(a.limit.Charge) > 0 {
		flags |= flagReport
	}
	if a.limit.Shadow {
		flags |= flagShadow
	}
	return flags
}

// isShare reports whether part is at least a percentage of whole. Neither may be negative. No part of 0 is a share, so a
// request that uses nothing is not flagged if all units are reserved.
func isShare(part, whole int64, percent int) bool {
	if part == 0 {
		return false
	}
	partHigh, partLow := bits.Mul64(uint64(part), 100)
	high, low := bits.Mul64(uint64(whole), uint64(percent))
	return partHigh > high || partHigh == high && partLow >= low
}

// jittered lengthens the time after which a refused request may be repeated, by up to a percentage. The requests that
// were refused at the same time are then not repeated at the same time. The parameter random is uniformly distributed.
// NoRetry is returned unchanged.
func jittered(retry time.Duration, percent int, random uint64) time.Duration {
	if retry <= 0 {
		return retry
	}
	high, low := bits.Mul64(uint64(retry), uint64(percent))
	most, _ := bits.Div64(high, low, 100) // percent is at most 100, so high is less than 100
	extra, _ := bits.Mul64(random, most)
	return time.Duration(min(uint64(retry)+extra, math.MaxInt64))
}

// decidingLimit returns the index of the live counter that determines the result, or -1 if there is none.
func decidingLimit(limits []appliedCounter, shown []shownLimit) int {
	at := -1
	for i := range shown {
		if !limits[i].isShadow() && (at < 0 || shown[i].decision.Outranks(&shown[at].decision)) {
			at = i
		}
	}
	return at
}

// setSoft sets flagSoft in counters that have admitted the request, and of whose soft share units are used. The parameter
// limited reports whether the live limits have refused the request.
func setSoft(limits []appliedCounter, shown []shownLimit, limited bool) {
	for i := range shown {
		s, refused := &shown[i], limited
		if !s.usesSoft {
			continue
		}
		if limits[i].isShadow() {
			refused = s.decision.Limited
		}
		if !refused {
			s.flags |= flagSoft
		}
	}
}

// combineFlags returns the flags of the whole reply that follow from those of the counters.
func combineFlags(limits []appliedCounter, shown []shownLimit) (flags ruleFlags) {
	for i := range shown {
		switch {
		case !limits[i].isShadow():
			flags |= shown[i].flags &^ flagUnlimited
		case shown[i].decision.Limited:
			flags |= flagShadow
		}
	}
	switch { // the strictest policy determines the result
	case flags&flagFailClosed != 0:
		flags &^= flagFailOpen | flagLocal
	case flags&flagLocal != 0:
		flags &^= flagFailOpen
	}
	return flags
}

// arrayCheck appends the reply in RESP2, except its last element, the version of the rules. The reply is an array whose
// first seven elements do not depend on the number of limits.
func arrayCheck(out *resp.Reply, c *call, sum *checkSummary, shown []shownLimit) {
	out.Array(9)
	from := out.Len()
	replyFive(out, c.unit, sum.top)
	to := out.Len()
	out.Text(sum.name)
	replyRuleFlags(out, sum.flags)
	out.Array(len(shown))
	for i := range shown {
		a, s := &c.limits[i], &shown[i]
		out.Array(8 + countTrue(a.isLeaky()))
		switch d := &s.decision; {
		case d == sum.top:
			out.Raw(a.counter.Title)
			out.Raw(out.Bytes()[from:to])
		case !d.Limited && d.Limit == a.counter.Nominal:
			out.Raw(a.counter.AdmittedTitle)
			replyThree(out, c.unit, d)
		default:
			out.Raw(a.counter.Title)
			replyFive(out, c.unit, d)
		}
		if s.flags == 0 {
			out.Raw(noFlags)
		} else {
			replyRuleFlags(out, s.flags)
		}
		if a.isLeaky() {
			out.Int(limiter.Ceil(s.decision.Wait, time.Millisecond))
		}
	}
}

// noFlags is the empty set of flags in RESP2.
var noFlags = []byte("*0\r\n")

// isLeaky reports whether the decision of the counter includes a time for which the caller must delay the request.
func (a *appliedCounter) isLeaky() bool {
	return a.request >= 0 && a.limit != nil && a.limit.Algorithm.Kind == rules.Leaky
}

// mapCheck appends the reply in RESP3, except the version of the rules, its last key: a map, with a map for each counter.
func mapCheck(out *resp.Reply, c *call, sum *checkSummary, shown []shownLimit) {
	out.Map(9)
	mapFive(out, c.unit, sum.top)
	out.Text("name")
	out.Text(sum.name)
	out.Text("flags")
	replyRuleFlags(out, sum.flags)
	out.Text("limits")
	out.Array(len(shown))
	for i := range shown {
		a, s := &c.limits[i], &shown[i]
		out.Map(8 + countTrue(a.isLeaky()))
		out.Text("name")
		out.Text(a.name())
		out.Text("window")
		out.Text(a.counter.Window)
		mapFive(out, c.unit, &s.decision)
		out.Text("flags")
		replyRuleFlags(out, s.flags)
		if a.isLeaky() {
			out.Text("wait_ms")
			out.Int(limiter.Ceil(s.decision.Wait, time.Millisecond))
		}
	}
}

// mapFive appends the five integers of a decision with their names.
func mapFive(out *resp.Reply, unit time.Duration, d *limiter.Decision) {
	out.Text("limited")
	out.Int(int64(countTrue(d.Limited)))
	out.Text("limit")
	out.Int(d.Limit)
	out.Text("remaining")
	out.Int(d.Remaining)
	out.Text("retry_after")
	out.Int(limiter.Ceil(d.RetryAfter, unit))
	out.Text("reset_after")
	out.Int(limiter.Ceil(d.ResetAfter, unit))
}

// replyRuleFlags appends the names of flags as a set.
func replyRuleFlags(out *resp.Reply, flags ruleFlags) {
	out.Set(bits.OnesCount16(uint16(flags)))
	if flags == 0 {
		return
	}
	for i, name := range ruleFlagNames {
		if flags&(1<<i) != 0 {
			out.Text(name)
		}
	}
}
