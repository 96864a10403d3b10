package server

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/throttledhq/throttled/gcra"
	"github.com/throttledhq/throttled/leaky"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/tokenbucket"
	"github.com/throttledhq/throttled/window"
	"github.com/throttledhq/throttled/windowlog"
)

// decisionOracle decides requests by rules of the domain d, as docs/rules.md describes them: it examines each limit in the
// order of the file, and keeps all states in maps. It shares only the arithmetic of the algorithms with the server; each of
// these has an oracle of its own.
type decisionOracle struct {
	rules    ruleModel
	version  uint64
	now      uint64
	states   map[string]limiter.State
	bans     map[string]uint64 // ends
	refusals map[string]*refusalModel
}

type refusalModel struct {
	n   int64
	end uint64
}

// ruleModel is the content of a rules file.
type ruleModel struct {
	envoy    bool
	limits   []limitModel
	fallback []amountModel // the default; nil if there is none
}

type limitModel struct {
	name              string
	when              conditionModel
	per               []string
	algorithm         string
	allow             map[string][]amountModel // by plan; the key "" if the limit has no tiers
	overrides         []overrideModel
	cost              int64 // of requests with b=2; 1 for all others
	soft, warn, share int64
	charge, shadow    bool
	banAfter          int64 // 0: no ban
	banPeriod, banFor time.Duration
}

// usesUnverified reports whether a client can choose a value that the limit depends on.
func (l *limitModel) usesUnverified() bool {
	return slices.Contains(l.per, unverified) || l.when.attribute == unverified
}

type overrideModel struct {
	when  conditionModel
	allow []amountModel
}

// amountModel is an amount; a count of 0 is "none", and a negative count is "unlimited".
type amountModel struct {
	count, burst int64
	period       time.Duration
}

// conditionModel is a condition on one attribute, or none if attribute is "".
type conditionModel struct {
	attribute string
	values    []string // the value "" stands for requests without the attribute
	not       bool
}

func (c conditionModel) matches(request map[string]string) bool {
	return c.attribute == "" || slices.Contains(c.values, request[c.attribute]) != c.not
}

// counterModel is an amount that applies to a request.
type counterModel struct {
	limit       *limitModel // nil for the default
	amount      amountModel
	window, key string
	request     limiter.Request
	asked       bool // the amount is decided by an algorithm
	most, soft  int64
	shown       limiter.Decision
	flags       ruleFlags
	refused     bool
}

const (
	fallbackPlan = "free"
	unverified   = "unverified.u" // an attribute that a client can choose
)

// counters returns the counters of a limit for a request.
func (o *decisionOracle) counters(l *limitModel, request map[string]string, call checkModel) (list []*counterModel) {
	amounts := o.rules.fallback
	tag, per, algorithm, name := "", []string(nil), "gcra", ""
	if l != nil {
		per, algorithm, name = l.per, l.algorithm, l.name
		plan := request["plan"]
		if l.allow[""] != nil {
			plan = ""
		} else if l.allow[plan] == nil {
			plan = fallbackPlan
		}
		amounts = l.allow[plan]
		if plan != "" && !slices.Contains(per, "plan") {
			tag = "@" + plan
		}
		for _, override := range l.overrides {
			if override.when.matches(request) {
				amounts, tag = override.allow, ""
				if !slices.Contains(per, override.when.attribute) {
					tag = fmt.Sprint("#", override.when)
				}
				break
			}
		}
	}
	for _, amount := range amounts {
		c := &counterModel{limit: l, amount: amount, window: amount.window()}
		c.key = fmt.Sprint(name, "|", algorithm, "|", c.window, tag, "|", sourcesOf(per, request))
		c.compile(algorithm, request, call)
		list = append(list, c)
	}
	return list
}

// sourcesOf renders the values that are counted separately. Absent attributes are alike, so that a counter of requests
// without them is kept if the rules change to another attribute.
func sourcesOf(per []string, request map[string]string) string {
	var b strings.Builder
	for _, name := range per {
		if value := request[name]; value != "" {
			fmt.Fprintf(&b, "%s=%q,", name, value)
		} else {
			b.WriteString("-,")
		}
	}
	return b.String()
}

func (a amountModel) window() string {
	switch {
	case a.count == 0:
		return "none"
	case a.count < 0:
		return "unlimited"
	}
	return map[time.Duration]string{time.Second: "1s", 10 * time.Second: "10s", time.Minute: "1m", time.Hour: "1h"}[a.period]
}

// compile sets the request of a counter.
func (c *counterModel) compile(algorithm string, request map[string]string, call checkModel) {
	c.shown, c.flags = unlimited, 0
	l := c.limit
	cost := int64(1)
	if l == nil {
		c.flags |= flagDefault
		l = &limitModel{}
	} else if request["b"] == "2" {
		cost = max(l.cost, 1)
	}
	if l.charge {
		c.flags |= flagReport
	}
	if l.shadow {
		c.flags |= flagShadow
	}
	switch {
	case c.amount.count < 0:
		c.flags |= flagUnlimited
		return
	case c.amount.count == 0:
		return
	}
	nominal := c.amount.count
	if c.amount.burst > 0 {
		nominal = c.amount.burst
	}
	c.soft = nominal * l.soft / 100
	c.most = nominal + c.soft
	if request["class"] != "high" {
		c.most -= (nominal*l.share + 99) / 100
	}
	limit := limitOf(algorithm, nominal+c.soft, c.amount)
	limit.Max = c.most
	c.asked = true
	c.request = limiter.Request{Kind: kindsOfModels[algorithm], Limit: limit, Quantity: cost * call.cost}
	c.request.Trial = call.dryRun || !call.report && l.charge
}

var kindsOfModels = map[string]limiter.Kind{
	"gcra": limiter.ScaledThrottle, "bucket": limiter.ScaledBucket, "leaky": limiter.ScaledLeaky, "log": limiter.WindowLog,
	"fixed": limiter.FixedWindow, "sliding": limiter.SlidingWindow, "buckets 5": limiter.WindowBuckets,
}

// limitOf compiles an amount.
func limitOf(algorithm string, most int64, a amountModel) limiter.Limit {
	period := limiter.Period{N: int64(a.period), Unit: 1}
	var l limiter.Limit
	var err error
	switch algorithm {
	case "gcra":
		l, err = gcra.NewLimit(most-1, a.count, period)
	case "bucket":
		l, err = tokenbucket.NewLimit(most, a.count, period)
	case "leaky":
		l, err = leaky.NewLimit(most, a.count, period)
	case "log":
		l, err = windowlog.NewLimit(most, period, most)
	case "buckets 5":
		l, err = window.NewLimit(most, period, 5)
	default:
		l, err = window.NewLimit(most, period, 1)
	}
	if err != nil {
		panic(err)
	}
	return l
}

// run decides a counter on its state. If store is true, the change is stored.
func (o *decisionOracle) run(c *counterModel, quantity int64, store bool) limiter.Decision {
	old := o.states[c.key]
	if old.Expires <= o.now {
		old = limiter.State{}
	}
	change, d := map[limiter.Kind]func(*limiter.Limit, limiter.State, uint64, int64, []byte) (limiter.Change, limiter.Decision){
		limiter.ScaledThrottle: gcra.DecideScaled, limiter.ScaledBucket: tokenbucket.DecideScaled, limiter.ScaledLeaky: leaky.DecideScaled,
		limiter.WindowLog: windowlog.Decide, limiter.FixedWindow: window.Count, limiter.SlidingWindow: window.Slide, limiter.WindowBuckets: window.Count,
	}[c.request.Kind](&c.request.Limit, old, o.now, quantity, nil)
	if store && change.Set {
		o.states[c.key] = limiter.State{Expires: change.Expires, Data: slices.Concat(old.Data[:change.Keep], change.Tail)}
	}
	return d
}

// checkModel is a CL.CHECK, or a CL.REPORT with the status 401.
type checkModel struct {
	cost                 int64
	peek, dryRun, report bool
}

// decide returns the reply to a request, in the form of value.brief.
func (o *decisionOracle) decide(request map[string]string, call checkModel) string {
	if call.peek {
		call.cost = 0
	}
	var live, shadows [][]*counterModel
	uncharged, replaced := false, false // whether a limit is not charged; whether the default does not apply
	for i := range o.rules.limits {
		l := &o.rules.limits[i]
		replaced = replaced || l.when.matches(request) && !l.shadow && !l.usesUnverified()
		switch {
		case !l.when.matches(request):
		case call.report && !l.charge:
			uncharged = uncharged || !l.shadow
		case l.shadow:
			shadows = append(shadows, o.counters(l, request, call))
		default:
			live = append(live, o.counters(l, request, call))
		}
	}
	if o.rules.fallback != nil && !replaced {
		if call.report {
			uncharged = true
		} else {
			live = append(live, o.counters(nil, request, call))
		}
	}
	banned := o.banned(live, request, call)
	alone := o.rules.envoy || call.report
	if alone {
		for _, c := range slices.Concat(slices.Concat(live, shadows)...) {
			o.decideGroup([]*counterModel{c}, call, false)
			o.fill(c, call)
		}
	} else {
		o.decideGroup(slices.Concat(live...), call, len(banned) > 0)
		for _, group := range shadows {
			o.decideGroup(group, call, false)
		}
	}
	o.countRefusals(live, banned, request, call)
	for _, c := range slices.Concat(slices.Concat(live, shadows)...) {
		c.show()
	}
	for _, c := range slices.Concat(live...) {
		if end := banned[c.limit]; end > 0 {
			c.ban(time.Duration(end - o.now))
		}
	}
	return o.reply(slices.Concat(live...), slices.Concat(shadows...), uncharged)
}

// decideGroup decides counters that are all charged, or none.
func (o *decisionOracle) decideGroup(group []*counterModel, call checkModel, refused bool) {
	for _, c := range group {
		if c.amount.count == 0 {
			c.shown, c.refused = limiter.Decision{RetryAfter: limiter.NoRetry}, call.cost >= 0
			if c.refused {
				c.shown.Limited, c.shown.Wait = true, limiter.NoRetry
			}
		}
		if c.asked {
			c.shown = o.run(c, c.request.Quantity, false)
			c.refused = c.shown.Limited
		}
		refused = refused || c.refused
	}
	for _, c := range group {
		switch {
		case !c.asked:
		case c.refused:
			o.run(c, c.request.Quantity, true) // may convert the state
		case refused:
			c.shown = o.run(c, 0, false)
		default:
			o.run(c, c.request.Quantity, !c.request.Trial)
		}
	}
}

// fill charges the units that remain to a counter that has refused a request on its own.
func (o *decisionOracle) fill(c *counterModel, call checkModel) {
	charges := call.report || call.cost > 0 && !call.dryRun
	if !c.refused || !charges {
		return
	}
	retry := c.shown.RetryAfter
	if call.report {
		retry = limiter.NoRetry
	}
	if c.asked && c.shown.Remaining > 0 {
		c.shown = o.run(c, c.shown.Remaining, !c.request.Trial)
	}
	c.shown.Limited, c.shown.RetryAfter = true, retry
}

// banKey returns the key of the ban of a limit, or "" if the request does not ask for it.
func banKey(counters []*counterModel, request map[string]string, call checkModel) string {
	l := counters[0].limit
	rates := slices.ContainsFunc(counters, func(c *counterModel) bool { return c.amount.count >= 0 })
	if l == nil || l.banAfter == 0 || call.report || call.cost < 0 || !rates {
		return ""
	}
	return l.name + "|" + sourcesOf(l.per, request)
}

// banned returns the ends of the bans of limits.
func (o *decisionOracle) banned(live [][]*counterModel, request map[string]string, call checkModel) map[*limitModel]uint64 {
	ends := map[*limitModel]uint64{}
	for _, counters := range live {
		if key := banKey(counters, request, call); key != "" && o.bans[key] > o.now {
			ends[counters[0].limit] = o.bans[key]
		}
	}
	return ends
}

// countRefusals counts the refusals that bans follow.
func (o *decisionOracle) countRefusals(live [][]*counterModel, banned map[*limitModel]uint64, request map[string]string, call checkModel) {
	for _, counters := range live {
		key := banKey(counters, request, call)
		l := counters[0].limit
		refused := slices.ContainsFunc(counters, func(c *counterModel) bool { return c.refused }) &&
			!slices.ContainsFunc(counters, func(c *counterModel) bool { return c.refused && !c.admitsEver() })
		if key == "" || call.cost <= 0 || call.dryRun || banned[l] > 0 || !refused {
			continue
		}
		r := o.refusals[key]
		if r == nil || r.end <= o.now {
			r = &refusalModel{end: o.now + uint64(l.banPeriod)}
			o.refusals[key] = r
		}
		if r.n++; r.n >= l.banAfter {
			delete(o.refusals, key)
			o.bans[key] = o.now + uint64(l.banFor)
		}
	}
}

// admitsEver reports whether the request would be admitted if no units were used.
func (c *counterModel) admitsEver() bool { return c.asked && c.request.Quantity <= c.most }

// ban shows a counter as refused by a ban.
func (c *counterModel) ban(wait time.Duration) {
	d := &c.shown
	if !d.Limited || d.RetryAfter != limiter.NoRetry {
		d.RetryAfter = max(wait, d.RetryAfter)
	}
	d.Limited, d.Remaining, d.ResetAfter, d.Wait = true, 0, max(wait, d.ResetAfter), limiter.NoRetry
	c.flags |= flagBanned
}
