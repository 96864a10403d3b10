package rules

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// When selects requests. A request matches if it matches all conditions, and one element of Any unless Any is empty.
// The zero When matches all requests.
type When struct {
	All []Condition
	Any []When
}

// Condition is a condition on one attribute of a request.
type Condition struct {
	Attribute string
	Matcher   Matcher
}

// IsZero reports whether w matches all requests.
func (w When) IsZero() bool { return len(w.All) == 0 && len(w.Any) == 0 }

// anyKey is the key of alternatives among the attributes of a condition.
const anyKey = "any"

// when decodes a map of attributes and matchers. The key "any" has a list of such maps.
func (d *decoder) when(v value) When {
	var w When
	if !d.isMap(v, example("attributes and their values, such as {path: /login}")) {
		return w
	}
	for e := range v.entries() {
		switch {
		case d.refused[e.key.Node]:
		case e.key.Value == anyKey:
			d.list(e.value, func(item value) { w.Any = append(w.Any, d.when(item)) })
		default:
			if name, ok := d.name(e.key.at(e.value)); ok {
				w.All = append(w.All, Condition{name, d.matcher(e.value)})
			}
		}
	}
	return w
}

// matcher decodes a text, a list or a map of one key.
func (d *decoder) matcher(v value) Matcher {
	switch v.Kind {
	case yaml.SequenceNode:
		m := Matcher{Kind: AnyOf}
		d.list(v, func(item value) { m.List = append(m.List, d.matcher(item)) })
		return m
	case yaml.MappingNode:
		return d.explicitMatcher(v)
	}
	return d.textMatcher(v, parseForm)
}

// explicitMatcher decodes a map of one key.
func (d *decoder) explicitMatcher(v value) Matcher {
	var m Matcher
	if matcherKeys().decode(d, v, &m) && len(v.Content) > 2 {
		d.fail(v, "a matcher has one key",
			"write one limit for each, or a list in which one of the matchers must match")
	}
	return m
}

// matcherKeys returns the keys that give the kind of a matcher.
func matcherKeys() keys[Matcher] {
	ks := keys[Matcher]{
		{name: "present", doc: "true: requests that have the attribute. false: requests that do not", value: booleanSchema, example: "false",
			decode: func(d *decoder, v value, m *Matcher) {
				m.Kind = Absent
				if d.boolean(v) {
					m.Kind = Present
				}
			}},
		{name: "not", doc: "requests that the matcher does not match", value: matcherRef, example: "[GET, HEAD]",
			decode: func(d *decoder, v value, m *Matcher) {
				*m = Matcher{Kind: Not, List: []Matcher{d.matcher(v)}}
			}},
	}
	return append(ks, textMatcherKeys...)
}

// textMatcherKeys are the keys of matchers that have a text.
var textMatcherKeys = keys[Matcher]{
	textMatcherKey("exact", "the same text", `"/a/*"`, func(text string) (Matcher, error) {
		return Matcher{Kind: Exact, Text: text}, nil
	}),
	textMatcherKey("prefix", "text that begins with this text", "/api/", func(text string) (Matcher, error) {
		return Matcher{Kind: Prefix, Text: text}, nil
	}),
	textMatcherKey("template", "a path with a name in braces for each variable segment, such as /users/{id}", `"/users/{id}"`, parseTemplate),
	textMatcherKey("glob", "a pattern with ?, * and [a-z]", `"*.example.com"`, parseGlob),
	textMatcherKey("cidr", "an IP network, such as 10.0.0.0/8", "10.0.0.0/8", parseCIDR),
}

// textMatcherKey returns the key of a matcher that parse creates from a text.
func textMatcherKey(name, doc, example string, parse func(string) (Matcher, error)) key[Matcher] {
	return key[Matcher]{name: name, doc: doc, value: textSchema, example: example,
		decode: func(d *decoder, v value, m *Matcher) { *m = d.textMatcher(v, parse) }}
}

// textMatcher decodes a text with a function.
func (d *decoder) textMatcher(v value, parse func(string) (Matcher, error)) Matcher {
	text, ok := d.text(v)
	if !ok {
		return Matcher{}
	}
	if text == "" {
		d.fail(v, "the text is empty, and an attribute with an empty value is absent", "write {present: false} for requests without the attribute")
		return Matcher{}
	}
	m, err := parse(text)
	if err != nil {
		d.fail(v, fmt.Sprintf("%q: %v", clip(text), err), matcherHint(text, err))
	}
	return m
}

// matcherHint returns the remedy for an error of a matcher, if the error has none.
func matcherHint(text string, err error) string {
	switch {
	case errors.Is(err, errAmbiguous) && !strings.ContainsAny(text, `"\`) && len(text) < 80:
		return fmt.Sprintf(`write {exact: "%s"} or {glob: "%s"}`, text, text)
	case errors.Is(err, errAmbiguous):
		return "write {exact: TEXT} or {glob: TEXT}"
	case errors.Is(err, errBraces), errors.Is(err, errStar):
		return "for a text with braces, write {exact: TEXT}"
	case errors.Is(err, errNetwork):
		return "for another text, write {exact: TEXT}"
	}
	return ""
}
