package rules

import "fmt"

// domainKeys are the keys of a document.
var domainKeys = keys[Domain]{
	{name: "version", required: true, doc: "the version of the format, 1", value: versionSchema, example: "1",
		decode: func(d *decoder, v value, _ *Domain) { d.version(v) }},
	{name: "domain", required: true, doc: "the name that requests use for this set of limits", value: nameSchema, example: "shop",
		decode: func(d *decoder, v value, x *Domain) { x.Name, _ = d.name(v) }},
	{name: "semantics", doc: "atomic (default): a request charges all limits, or none if one refuses it. envoy: each limit is charged on its own, also by requests that it refuses",
		value: choiceSchema(semanticsNames...), example: "envoy",
		decode: func(d *decoder, v value, x *Domain) { x.Semantics = Semantics(d.choose(v, semanticsNames)) }},
	{name: "attributes", doc: "attributes that are derived from others",
		value: namedMap("attribute", attributeKeys.schema().withCount(1, 1)), example: "{client: {first_of: [api_key, ip]}}",
		decode: func(d *decoder, v value, x *Domain) { x.Attributes = d.attributes(v) }},
	{name: "tiers", doc: "the attribute with the tier of a request, and the default tier",
		value: tierKeys.schema(), example: "{by: plan, default: free}",
		decode: func(d *decoder, v value, x *Domain) { tierKeys.decode(d, v, &x.Tiers) }},
	{name: "default", doc: "the limit for requests that match no live limit, except limits that use unverified attributes; without it, they are admitted",
		value: defaultKeys.schema(), example: "{allow: 1000 per minute, per: ip}",
		decode: func(d *decoder, v value, x *Domain) { x.Default = d.defaultLimit(v) }},
	{name: "limits", doc: "the limits by name", value: namedMap("limit", limitKeys.schema()), example: "{login: {allow: 5 per 15m}}",
		decode: func(d *decoder, v value, x *Domain) { x.Limits = d.limits(v) }},
}

var tierKeys = keys[Tiers]{
	{name: "by", required: true, doc: "the attribute with the name of the tier", value: verifiedNameSchema, example: "plan",
		decode: func(d *decoder, v value, t *Tiers) { t.By = d.verifiedName(v, "the tier") }},
	{name: "default", required: true, doc: "the tier of requests without a known tier", value: nameSchema, example: "free",
		decode: func(d *decoder, v value, t *Tiers) { t.Default, _ = d.name(v) }},
}

var defaultKeys = keys[Default]{
	{name: "allow", required: true, doc: "an amount, such as 100 per minute, a list of amounts, or a map of tiers",
		value: allowRef, example: "1000 per minute",
		decode: func(d *decoder, v value, x *Default) { x.Allow = d.allow(v) }},
	{name: "per", doc: "attributes whose values are counted separately", value: verifiedNameListSchema, example: "[ip]",
		decode: func(d *decoder, v value, x *Default) { x.Per = d.verifiedNames(v, "the counter of the default") }},
}

var attributeKeys = keys[Attribute]{
	{name: "first_of", doc: "the value is that of the first attribute that the request has",
		value: verifiedNameListSchema, example: "[api_key, user, ip]",
		decode: func(d *decoder, v value, a *Attribute) {
			a.FirstOf = d.verifiedNames(v, "the value instead of one of the others")
		}},
	{name: "ipv6_prefix", doc: "an IPv6 address is replaced by its network of this prefix length",
		value: integerSchema(1, 128), example: "64",
		decode: func(d *decoder, v value, a *Attribute) { a.IPv6Prefix = d.integerInt(v, 1, 128) }},
}

// domain decodes one document.
func (d *decoder) domain(v value) Domain {
	var x Domain
	d.tierMaps, d.limitMaps = nil, nil
	if !domainKeys.decode(d, v, &x) {
		return x
	}
	_, limits := v.find("limits")
	if _, ok := v.find("default"); !ok && !limits {
		d.failMissing(v, "limits", "at least one limit, or add a default")
	}
	tierCheck{d.report, d.tierMaps}.checkTiers(v, x.Tiers)
	d.checkSemantics(v, &x)
	return x
}

// version checks that the version of the format is known.
func (d *decoder) version(v value) {
	if text, ok := d.text(v); ok && text != "1" {
		d.fail(v, fmt.Sprintf("%q is not a known version", clip(text)), "write version: 1")
	}
}

// attributes decodes the map of attributes.
func (d *decoder) attributes(v value) []Attribute {
	var list []Attribute
	if !d.isMap(v, example("attributes, such as client: {first_of: [user, ip]}")) {
		return nil
	}
	for e := range v.entries() {
		if d.refused[e.key.Node] {
			continue
		}
		var a Attribute
		a.Name, _ = d.name(e.key.at(e.value))
		if a.Name == anyKey {
			d.fail(e.key.at(e.value),
				`"any" is not a name of an attribute: in conditions, it has a list of conditions`, "rename the attribute")
		}
		if attributeKeys.decode(d, e.value, &a) && len(e.value.Content) > 2 {
			d.fail(e.value, "an attribute has one key", "write first_of or ipv6_prefix")
		}
		list = append(list, a)
	}
	d.checkFirstOf(v, list)
	return list
}

// checkFirstOf refuses attributes that are derived from each other.
func (d *decoder) checkFirstOf(v value, list []Attribute) {
	derived := map[string]bool{}
	for _, a := range list {
		derived[a.Name] = len(a.FirstOf) > 0
	}
	for e := range v.entries() {
		sources, ok := e.value.find("first_of")
		if !ok {
			continue
		}
		for _, item := range sources.items() {
			if derived[item.Value] {
				d.fail(item, fmt.Sprintf("%q is derived by first_of itself", clip(item.Value)),
					"write attributes of the request")
			}
		}
	}
}

// defaultLimit decodes the limit for requests that match no live limit.
func (d *decoder) defaultLimit(v value) *Default {
	d.amounts = nil
	x := &Default{}
	if defaultKeys.decode(d, v, x) {
		amountCheck{d.report, d.amounts}.checkAmounts(v, &Limit{})
	}
	return x
}

// limits decodes the map of limits.
func (d *decoder) limits(v value) []Limit {
	if !d.isMap(v, example("limits, such as login: {allow: 5 per minute}")) {
		return nil
	}
	limits := make([]Limit, 0, len(v.Content)/2)
	places := make([]value, 0, len(v.Content)/2)
	for e := range v.entries() {
		if d.refused[e.key.Node] {
			continue
		}
		l := Limit{}
		l.Name, _ = d.name(e.key.at(e.value))
		d.amounts = nil
		if limitKeys.decode(d, e.value, &l) {
			d.checkLimit(e.value, l)
		}
		limits = append(limits, l)
		places = append(places, e.value)
	}
	d.checkMatches(places, limits)
	d.limitMaps = places
	return limits
}
