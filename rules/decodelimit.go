package rules

import (
	"fmt"
	"math"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// limitKeys are the keys of a limit.
var limitKeys = keys[Limit]{
	{name: "when", doc: "the requests that the limit applies to; all if absent", value: whenRef, example: "{path: /login, method: POST}",
		decode: func(d *decoder, v value, l *Limit) { l.When = d.when(v) }},
	{name: "per", doc: "attributes whose values are counted separately; one counter for all if absent",
		value: nameListSchema, example: "[client, path]",
		decode: func(d *decoder, v value, l *Limit) { l.Per = d.names(v) }},
	{name: "allow", required: true, doc: "an amount, such as 100 per minute, a list of amounts, or a map of tiers",
		value: allowRef, example: "[20 per minute burst 5, 1000 per day]",
		decode: func(d *decoder, v value, l *Limit) { l.Allow = d.allow(v) }},
	{name: "algorithm", doc: "gcra (default), sliding, fixed, log, buckets N, bucket or leaky",
		value: algorithmSchema, example: "buckets 60",
		decode: func(d *decoder, v value, l *Limit) { l.Algorithm = d.algorithm(v) }},
	{name: "zone", doc: "the time zone of fixed windows of days, weeks, months and years; UTC if absent",
		value: zoneSchema, example: "Europe/Berlin",
		decode: func(d *decoder, v value, l *Limit) { l.Zone = d.zone(v) }},
	{name: "anchor",
		doc:   "the day of the month on which fixed windows of months start; the last day of a shorter month",
		value: integerSchema(1, 31), example: "15",
		decode: func(d *decoder, v value, l *Limit) { l.Anchor = d.integerInt(v, 1, 31) }},
	{name: "cost",
		doc:   "the units of a request: a number, an attribute that has the number, or a map of one attribute to patterns and numbers; 1 if absent",
		value: costSchema, example: "{path: {/api/export: 10, /api/search*: 3}}",
		decode: func(d *decoder, v value, l *Limit) { l.Cost = d.cost(v) }},
	{name: "charge", doc: "the outcomes that are charged; all admitted requests if absent",
		value: chargeKeys.schema(), example: "{status: [401, 403]}",
		decode: func(d *decoder, v value, l *Limit) { chargeKeys.decode(d, v, &l.Charge) }},
	{name: "on_failure",
		doc:   "the decision if the limit cannot be evaluated: open (default, except on sidecars) admits, closed refuses, local decides on this node",
		value: choiceSchema(failurePolicies...), example: "closed",
		decode: func(d *decoder, v value, l *Limit) {
			l.OnFailure = FailOpen + FailurePolicy(d.choose(v, failurePolicies))
		}},
	{name: "ban", doc: "refuses for a time after a number of refusals",
		value: banKeys.schema(), example: "{after: 20 per hour, for: 1h}",
		decode: func(d *decoder, v value, l *Limit) { banKeys.decode(d, v, &l.Ban) }},
	{name: "overrides", doc: "other amounts for some requests; the first that applies is used",
		value: listSchema(overrideKeys.schema().withCount(2, 0)), example: "[{when: {client: acme}, allow: 5000 per minute, until: 2027-01-31}]",
		decode: func(d *decoder, v value, l *Limit) { l.Overrides = d.overrides(v) }},
	{name: "soft", doc: "the percentage above the limit that is admitted and flagged", value: percentSchema, example: "10%",
		decode: func(d *decoder, v value, l *Limit) { l.Soft = d.percent(v) }},
	{name: "warn", doc: "the percentage of the limit from which requests are flagged", value: percentSchema, example: "80%",
		decode: func(d *decoder, v value, l *Limit) { l.Warn = d.percent(v) }},
	{name: "priority", doc: "a share of the limit that is reserved for some requests",
		value: priorityKeys.schema(), example: "{when: {class: critical}, share: 20%}",
		decode: func(d *decoder, v value, l *Limit) { priorityKeys.decode(d, v, &l.Priority) }},
	{name: "retry_jitter", doc: "the percentage by which the retry time varies", value: percentSchema, example: "20%",
		decode: func(d *decoder, v value, l *Limit) { l.RetryJitter = d.percent(v) }},
	{name: "consistency", doc: "sync (default) replies after the change is committed, async before",
		value: choiceSchema(consistencies...), example: "async",
		decode: func(d *decoder, v value, l *Limit) { l.Consistency = Consistency(d.choose(v, consistencies)) }},
	{name: "shadow", doc: "true: count the decisions, and refuse no request; not with ban; false if absent", value: booleanSchema, example: "true",
		decode: func(d *decoder, v value, l *Limit) { l.Shadow = d.boolean(v) }},
	{name: "envoy", doc: "how the limit relates to others of one request in Envoy's ratelimit service; needs semantics: envoy",
		value: envoyKeys.schema(), example: "{name: write, quota_mode: true}",
		decode: func(d *decoder, v value, l *Limit) { envoyKeys.decode(d, v, &l.Envoy) }},
	{name: "scope"},
	{name: "adaptive"},
}

var chargeKeys = keys[[]int]{
	{name: "status", required: true, doc: "a list of status codes, such as [401, 403]",
		value: oneOrList(integerSchema(100, 599)), example: "[401, 403]",
		decode: func(d *decoder, v value, codes *[]int) { *codes = d.statusCodes(v) }},
}

var banKeys = keys[Ban]{
	{name: "after", required: true, doc: "the number of refusals, such as 20 per hour", value: amountSchema, example: "20 per hour",
		decode: func(d *decoder, v value, b *Ban) { b.After = d.banAfter(v) }},
	{name: "for", required: true, doc: "the length of the ban, such as 1h", value: durationSchema, example: "1h",
		decode: func(d *decoder, v value, b *Ban) { b.For = d.duration(v) }},
}

var overrideKeys = keys[Override]{
	{name: "when", doc: "the requests that the override applies to; all if absent", value: whenRef, example: "{client: [acme, globex]}",
		decode: func(d *decoder, v value, o *Override) { o.When = d.verifiedWhen(v, "the amount") }},
	{name: "allow", required: true, doc: "an amount, such as 100 per minute, a list of amounts, or a map of tiers",
		value: allowRef, example: "unlimited",
		decode: func(d *decoder, v value, o *Override) { o.Allow = d.allow(v) }},
	{name: "until", doc: "the last day, or the time at which the override ends; no end if absent", value: untilSchema, example: "2027-01-31",
		decode: func(d *decoder, v value, o *Override) { o.Until = d.until(v) }},
	{name: "during", doc: "the times of the week at which the override applies; always if absent",
		value: duringKeys.schema().withAny("between", "days"), example: `{between: "22:00-06:00", zone: Europe/Berlin, days: [sat, sun]}`,
		decode: func(d *decoder, v value, o *Override) { o.During = d.during(v) }},
	{name: "signal"},
}

var priorityKeys = keys[Priority]{
	{name: "when", required: true, doc: "the requests that have priority, such as {class: critical}", value: whenRef, example: "{class: critical}",
		decode: func(d *decoder, v value, p *Priority) { p.When = d.verifiedWhen(v, "the reserved share") }},
	{name: "share", required: true, doc: "a percentage, such as 20%", value: percentSchema, example: "20%",
		decode: func(d *decoder, v value, p *Priority) { p.Share = d.percent(v) }},
}

// integerInt is integer for small numbers. It returns 0 if the value is wrong.
func (r *report) integerInt(v value, low, high int64) int {
	n, _ := r.integer(v, low, high)
	return int(n)
}

// statusCodes decodes a list of distinct status codes.
func (r *report) statusCodes(v value) []int {
	var codes []int
	seen := map[int]bool{}
	r.list(v, func(item value) {
		code, ok := r.integer(item, 100, 599)
		if ok && seen[int(code)] {
			r.fail(item, fmt.Sprintf("%d is repeated", code), "remove one of them")
		}
		seen[int(code)] = true
		codes = append(codes, int(code))
	})
	return codes
}

// duration decodes a period of fixed length, such as 1h or 15 minutes.
func (r *report) duration(v value) time.Duration {
	text, ok := r.text(v)
	if !ok {
		return 0
	}
	period, rest, err := parsePeriod(strings.Fields(text))
	length, fixed := time.Duration(0), false
	if err == nil {
		length, fixed = period.Duration()
	}
	if err != nil || len(rest) > 0 || !fixed {
		r.fail(v, fmt.Sprintf("%q is not a length of time", clip(text)),
			"write a number and ms, s, m, h, d or w, such as 15m")
	}
	return length
}

// overrides decodes a list of overrides.
func (d *decoder) overrides(v value) []Override {
	if v.Kind != yaml.SequenceNode {
		d.fail(v, "the value must be a list", "write a list of maps with when and allow")
		return nil
	}
	var overrides []Override
	d.list(v, func(item value) {
		var o Override
		if overrideKeys.decode(d, item, &o) && len(item.Content) == 2 {
			d.fail(item, "the override applies to all requests at all times",
				"write when, until or during, or change the amount of the limit")
		}
		overrides = append(overrides, o)
	})
	return overrides
}

// costConsequence is the consequence of a cost that depends on an unverified attribute; see failUnverified.
const costConsequence = "the cost"

// cost decodes a number, the name of an attribute, or a map of one attribute to patterns and numbers.
func (d *decoder) cost(v value) Cost {
	if v.Kind == yaml.MappingNode {
		return d.costCases(v)
	}
	text, ok := d.text(v)
	if !ok {
		return Cost{}
	}
	if text != "" && strings.ContainsRune("0123456789-+.", rune(text[0])) {
		n, _ := d.integer(v, 1, math.MaxInt64)
		return Cost{Number: n}
	}
	return Cost{Attribute: d.verifiedName(v, costConsequence)}
}

// costCases decodes a map of one attribute to patterns and numbers.
func (d *decoder) costCases(v value) Cost {
	if !d.isMap(v, example("an attribute and its costs, such as {path: {/export: 10}}")) {
		return Cost{}
	}
	attribute := v.firstEntry()
	if len(v.Content) > 2 {
		d.fail(v, "the cost depends on more than one attribute", "write one attribute")
	}
	place := attribute.key.at(attribute.value)
	name := d.verifiedName(place, costConsequence)
	if d.refused[place.Node] || !d.isMap(attribute.value, example("patterns and numbers, such as {/export: 10, /search: 3}")) {
		return Cost{}
	}
	c := Cost{Attribute: name}
	for e := range attribute.value.entries() {
		if n, ok := d.integer(e.value, 1, math.MaxInt64); ok {
			c.Cases = append(c.Cases, CostCase{d.textMatcher(e.key.at(e.value), parseForm), n})
		}
	}
	return c
}
