package server

import (
	"math"
	"math/bits"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/rules"
	"github.com/throttledhq/throttled/ruleset"
	"github.com/throttledhq/throttled/ruleset/counts"
)

// ruleParsing is the part of parsing for the commands that use the rules.
type ruleParsing struct {
	state *ruleState // input

	// The active set, its version, and the wall time when the first of the commands of the batch was parsed. All of them
	// use the same set, so that no command is decided by two versions of the rules. set is nil before the first of them.
	set     *rules.Set
	version uint64
	counts  *counts.Resolved // of set
	now     time.Time
	last    *rules.Set // the last set that matches and limits refer to

	semantics rules.Semantics // of the domain of the last call
	unmatched *counts.Limit   // counters of the domain of the last call, for a request that no limit applies to
	matches   rules.Matches
	keys      []byte           // keys of requests
	limits    []appliedCounter // of all calls
	followUp  bool             // decisions of the batch can cause further decisions

	shown   []shownLimit // scratch for replies
	tallies limitTallies // decisions that are not counted yet
}

// appliedCounter is one counter of a limit that applies to a request of CL.CHECK or CL.REPORT. A limit with several
// amounts has one for each of them.
type appliedCounter struct {
	limit        *rules.Limit  // nil for the default of the domain
	counts       *counts.Limit // counters of the decisions on the limit
	counter      *rules.Counter
	request      int32         // index in parsing.reqs; -1 if the amount is unlimited, or has no cost
	noCost       bool          // the cost for a shadow limit cannot be determined
	ban          int32         // index of the request for the ban of the limit; -1 if the limit does not ban
	countsForBan bool          // a refusal is counted for the ban
	full         bool          // not all units were charged, because the counter is full; see batch.fill
	retry        time.Duration // RetryAfter of the reply if the counter is full
}

func (a *appliedCounter) isShadow() bool { return isShadow(a.limit) }

// Limits of the memory that is kept for the next batch.
const (
	keepKeys   = 64 << 10
	keepLimits = 8 * batchSize
)

// reset prepares for the next batch.
func (p *ruleParsing) reset() {
	p.tallies.flush()
	if p.set == nil {
		p.forget()
		return
	}
	p.set, p.followUp = nil, false
	p.matches.Clear()
	if cap(p.keys) > keepKeys {
		p.keys = nil
	}
	if cap(p.limits) > keepLimits {
		p.limits = nil
	}
	p.keys, p.limits = p.keys[:0], p.limits[:0]
}

// use makes a set the set of the batch.
func (p *ruleParsing) use(active *ruleset.Active) {
	if p.last != active.Set {
		p.forget()
	}
	p.set, p.last, p.version, p.counts, p.now = active.Set, active.Set, active.Version, active.Counts, p.state.clock()
}

// forget drops the references to the last set, so that a batch that is used with another set, or with none, does not keep
// a set in memory that has been replaced. The references of a batch that is not used are dropped with it: the pool of
// batches does not keep it for long.
func (p *ruleParsing) forget() {
	if p.last == nil {
		return
	}
	p.matches.Reset()
	clear(p.limits[:cap(p.limits)])
	p.last, p.counts, p.unmatched = nil, nil, nil
}

// domain returns a domain of the active set.
func (p *ruleParsing) domain(name []byte) (*rules.CompiledDomain, error) {
	if p.set == nil {
		active, err := p.state.active()
		if err != nil {
			return nil, err
		}
		p.use(active)
	}
	d := p.set.Domain(name)
	if d == nil {
		return nil, errDomain(name, p.set.File().Names())
	}
	return d, nil
}

// match sets p.matches to the limits that apply to a request of a domain.
func (p *ruleParsing) match(domain []byte, pairs [][]byte) error {
	d, err := p.domain(domain)
	switch {
	case err != nil:
		return err
	case len(pairs)%2 != 0:
		return errNoValue(pairs[len(pairs)-1])
	}
	p.semantics, p.unmatched = d.Domain().Semantics, p.counts.At(d.Default())
	if err := d.Match(pairs, p.now, &p.matches); err != nil {
		return replyError("ERR " + err.Error())
	}
	return nil
}

// addMatches appends the requests for the limits in p.rule.matches. The live limits form one group. Each shadow limit
// forms a group of its own, after it. On a sidecar, all of them are one group: otherwise a request that the sidecar forwards,
// because it has no units of one limit, would spend its units of the others, which the upstream charges again.
func (p *parsing) addMatches(o *checkOptions) error {
	from, list := len(p.reqs), p.rule.matches.List
	switch live, shadow := o.countRequests(list); {
	case live > limiter.MaxGroup:
		return errManyMatches
	case from+live+shadow > batchSize:
		return errBatchFull
	}
	limits := len(p.rule.limits)
	for i := range list {
		if !isShadow(list[i].Limit) {
			p.addMatch(&list[i], o)
		}
	}
	p.link(from)
	live := len(p.reqs)
	for i := range list {
		if isShadow(list[i].Limit) {
			group := len(p.reqs)
			p.addMatch(&list[i], o)
			p.link(group)
		}
	}
	if p.leased {
		p.join(from)
	}
	p.finishCall(limits, live)
	p.inStats, p.unmatched = o.isCharge(), p.rule.unmatched
	p.fills = p.inStats && p.rule.semantics == rules.Envoy
	p.rule.followUp = p.rule.followUp || p.fills
	return nil
}

// finishCall sets the results of a call. limits and live are the numbers of applied counters before the call, and of
// requests before those of its shadow limits.
func (p *parsing) finishCall(limits, live int) {
	p.shadows = len(p.reqs) - live
	p.leftOut = p.rule.matches.LeftOut > 0
	p.limits = p.rule.limits[limits:len(p.rule.limits):len(p.rule.limits)]
	p.async = areAsync(p.limits)
}

// areAsync reports whether no live limit requires that its charges are committed before the reply.
func areAsync(limits []appliedCounter) bool {
	for i := range limits {
		if l := limits[i].limit; !isShadow(l) && (l == nil || l.Consistency == rules.Sync) {
			return false
		}
	}
	return true
}

// isShadow reports whether a limit, which may be nil, never refuses requests.
func isShadow(l *rules.Limit) bool { return l != nil && l.Shadow }

// countRequests returns the numbers of requests for live limits and for shadow limits that addMatches appends.
func (o *checkOptions) countRequests(list []rules.Matched) (live, shadow int) {
	for i := range list {
		n := o.requestsOf(&list[i])
		if isShadow(list[i].Limit) {
			shadow += n
		} else {
			live += n
		}
	}
	return live, shadow
}

// requestsOf returns the number of requests that addMatch appends. An upper bound would not be sufficient: a call would be
// moved to the next batch, and parsed a second time, although its requests fit.
func (o *checkOptions) requestsOf(m *rules.Matched) (n int) {
	if m.Cost == 0 {
		return 0
	}
	for i := range m.Counters {
		n += countTrue(m.Counters[i].Kind != 0)
	}
	return n + countTrue(o.asksBan(m))
}

// link makes the requests from an index on a group, unless the limits of the domain are charged each on its own.
func (p *parsing) link(from int) {
	if p.rule.semantics != rules.Envoy {
		p.join(from)
	}
}

// join makes the requests from an index on a group.
func (p *parsing) join(from int) {
	for i := from; i < len(p.reqs)-1; i++ {
		p.reqs[i].Linked = true
	}
}

// addMatch appends the requests for one limit.
func (p *parsing) addMatch(m *rules.Matched, o *checkOptions) {
	quantity := product(o.cost, m.Cost)
	trial := o.dryRun || o.outcome == nil && m.Limit != nil && len(m.Limit.Charge) > 0
	ban := p.addBan(m, o)
	countsForBan := ban >= 0 && o.isCharge()
	p.rule.followUp = p.rule.followUp || countsForBan
	for i := range m.Counters {
		p.rule.limits = append(p.rule.limits, appliedCounter{})
		a := &p.rule.limits[len(p.rule.limits)-1]
		a.limit, a.counts, a.counter, a.request, a.ban, a.countsForBan = m.Limit, p.rule.counts.At(m.Number), &m.Counters[i], -1, ban, countsForBan
		a.noCost = m.Cost == 0
		if a.counter.Kind != 0 && !a.noCost {
			a.request = int32(len(p.reqs))
			p.addCounter(m, a.counter, quantity).Trial = trial
		}
	}
}

// addBan appends a request that asks whether a live limit bans the client, and returns its index. It returns -1 if the
// limit does not ban.
func (p *parsing) addBan(m *rules.Matched, o *checkOptions) int32 {
	if !o.asksBan(m) {
		return -1
	}
	p.addCounter(m, m.Ban, 0)
	return int32(len(p.reqs) - 1)
}

// asksBan reports whether the request must ask for a ban of the client. A client whose amounts are unlimited is exempt from
// the limit, and so from its bans. A refund is never refused.
func (o *checkOptions) asksBan(m *rules.Matched) bool {
	return m.Ban != nil && !o.isRefund() && !m.Limit.Shadow && o.outcome == nil && !isUnlimited(m.Counters)
}

// isUnlimited reports whether all amounts are "unlimited".
func isUnlimited(counters []rules.Counter) bool {
	for i := range counters {
		if counters[i].Kind != 0 {
			return false
		}
	}
	return true
}

// addCounter appends the request for one counter.
func (p *parsing) addCounter(m *rules.Matched, c *rules.Counter, quantity int64) *limiter.Request {
	if c.Amount.Kind == rules.None && quantity >= 0 { // a refund is admitted, and changes nothing
		quantity = 2 // more than the Max of the limit, so the request is refused even if it is a peek
	}
	req := p.add(quantity)
	from := len(p.rule.keys)
	p.rule.keys = c.AppendKey(p.rule.keys, m.Per)
	req.Kind, req.Key, req.Limit = c.Kind, p.rule.keys[from:len(p.rule.keys):len(p.rule.keys)], c.LimitAt(p.rule.now, m.Priority)
	return req
}

// product returns n*cost, or the nearest value that fits in an int64. cost must not be negative.
func product(n, cost int64) int64 {
	if cost == 1 || n == 0 {
		return n
	}
	size := uint64(n)
	if n < 0 {
		size = -size
	}
	high, low := bits.Mul64(size, uint64(cost))
	if high > 0 || low > math.MaxInt64 {
		low = math.MaxInt64
	}
	if n < 0 {
		return -int64(low)
	}
	return int64(low)
}
