package rules

import (
	"encoding/json"
	"fmt"
)

// Semantics determines which limits a request charges.
type Semantics uint8

// The kinds of Semantics.
const (
	// Atomic charges all limits that match, or none: a refused request charges nothing.
	Atomic Semantics = iota
	// Envoy charges each limit on its own, as the ratelimit service of Envoy does: a refusal by one limit does not stop
	// the charge of others, and a limit is also charged by the requests that it refuses. All limits are fixed windows.
	Envoy
)

var semanticsNames = []string{"atomic", "envoy"}

// String returns the value in a rules file.
func (s Semantics) String() string { return semanticsNames[s] }

// EnvoyLimit is the value of the key "envoy": the parts of a limit of Envoy's ratelimit service that relate the
// descriptors of one request to each other. It has no effect on a request with one descriptor. Package rules/envoy
// applies it.
type EnvoyLimit struct {
	Name      string   // the name by which other limits replace this one; not unique
	Replaces  []string // names of limits that are not charged if a request matches this limit too
	QuotaMode bool     // the request is refused only if all of its limits with QuotaMode refuse it
	Metadata  string   // JSON object to be returned with the decision; "" for none
}

// envoyKeys are the keys of "envoy".
var envoyKeys = keys[EnvoyLimit]{
	{name: "name", doc: "the name by which other limits replace this one", value: textSchema, example: "write",
		decode: func(d *decoder, v value, e *EnvoyLimit) { e.Name = d.anyText(v) }},
	{name: "replaces", doc: "names of limits that are not charged if another descriptor of the request matches this one; not applied by CL.CHECK",
		value: oneOrList(textSchema), example: "[write]",
		decode: func(d *decoder, v value, e *EnvoyLimit) {
			d.list(v, func(item value) { e.Replaces = append(e.Replaces, d.anyText(item)) })
		}},
	{name: "quota_mode", doc: "true: a request is refused only if all of its limits with quota_mode refuse it; false if absent; not applied by CL.CHECK",
		value: booleanSchema, example: "true",
		decode: func(d *decoder, v value, e *EnvoyLimit) { e.QuotaMode = d.boolean(v) }},
	{name: "metadata", doc: "a JSON object for the decision; not returned by CL.CHECK", value: jsonSchema, example: `'{"service": "a"}'`,
		decode: func(d *decoder, v value, e *EnvoyLimit) { e.Metadata = d.jsonObject(v) }},
}

// anyText returns a text that is not empty.
func (r *report) anyText(v value) string {
	text, ok := r.text(v)
	if ok && text == "" {
		r.fail(v, "the text is empty", "write a name")
	}
	return text
}

// jsonObject returns the text of a JSON object.
func (r *report) jsonObject(v value) string {
	text, ok := r.text(v)
	if !ok {
		return ""
	}
	var object map[string]any
	if err := json.Unmarshal([]byte(text), &object); err != nil || object == nil {
		r.fail(v, fmt.Sprintf("%q is not a JSON object", clip(text)), `write an object in single quotes, such as '{"service": "a"}'`)
	}
	return text
}

// checkSemantics checks that the limits of a domain suit its Semantics. The document is the map of the domain.
func (d *decoder) checkSemantics(document value, x *Domain) {
	for i, place := range d.limitMaps {
		l := &x.Limits[i]
		setting, ok := place.find("envoy")
		switch {
		case ok && x.Semantics != Envoy:
			d.fail(setting, `"envoy" needs the semantics of Envoy`, "write semantics: envoy beside domain, or remove the key")
		case x.Semantics == Envoy && l.Algorithm.Kind != Fixed && l.hasRate():
			d.fail(place, "the limit is not a fixed window, and semantics: envoy charges fixed windows only", "add algorithm: fixed")
		}
	}
	v, ok := document.find("default")
	if ok && x.Semantics == Envoy && x.Default != nil && x.Default.Allow.hasRate() {
		d.fail(v, "the default has no fixed window, and semantics: envoy charges fixed windows only",
			"write unlimited or none, or add a limit with algorithm: fixed")
	}
}

// hasRate reports whether one of the amounts of the limit has a period.
func (l *Limit) hasRate() bool {
	for i := range l.Overrides {
		if l.Overrides[i].Allow.hasRate() {
			return true
		}
	}
	return l.Allow.hasRate()
}

// hasRate reports whether one of the amounts has a period.
func (a Allow) hasRate() bool {
	for _, amount := range a.Amounts {
		if amount.Kind == Rate {
			return true
		}
	}
	for _, t := range a.Tiers {
		if (Allow{Amounts: t.Amounts}).hasRate() {
			return true
		}
	}
	return false
}
