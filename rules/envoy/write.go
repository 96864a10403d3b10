package envoy

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/throttledhq/throttled/rules"
)

// writer writes a rules file.
type writer struct{ bytes.Buffer }

// printf writes a formatted text.
func (w *writer) printf(format string, args ...any) { fmt.Fprintf(&w.Buffer, format, args...) }

// maxText is the size of the largest rules file that a server accepts, in bytes (ruleset.MaxText). A larger result is
// neither written nor verified: that takes much memory if thousands of wildcards exclude each other.
const maxText = 16 << 20

var errTooLarge = errors.New("the result is larger than 16 MiB, which a server refuses: " +
	"divide the domains over several clusters, or use fewer wildcards that match the same values")

// write returns a rules file with the domains.
func write(domains []*domain) ([]byte, error) {
	var w writer
	w.printf("# Converted from the configuration of Envoy's ratelimit service by: throttled rules import --from envoy\n")
	for i, d := range domains {
		if i > 0 {
			w.printf("---\n")
		}
		limits, err := convert(d)
		if err != nil {
			return nil, err
		}
		if err := w.domain(d, limits); err != nil {
			return nil, err
		}
	}
	return w.Bytes(), nil
}

// domain writes one document. It returns errTooLarge if the file becomes too large.
func (w *writer) domain(d *domain, limits []limit) error {
	w.printf("version: 1\ndomain: %s\nsemantics: envoy\n", quote(d.name))
	if len(limits) == 0 {
		w.printf("default: {allow: unlimited}\n")
		return nil
	}
	w.printf("limits:\n")
	for i := range limits {
		if w.limit(&limits[i]); w.Len() > maxText {
			return errTooLarge
		}
	}
	return nil
}

// limit writes one limit.
func (w *writer) limit(l *limit) {
	d := l.path[len(l.path)-1].descriptor
	names := attributeNames(l.keys)
	if l.alias != "" {
		w.printf("  # The service compares KEY_VALUE. It reads this like the descriptor %s.\n", l.alias)
	}
	w.printf("  %s:\n    when:\n      %s: %s\n", quote(l.name), keysAttribute, writeKeys(l.keys))
	w.conditions(l.path, names)
	if d.limit.requests > 0 && !d.limit.unlimited {
		w.per(l.path, names)
	}
	switch {
	case d.limit.unlimited:
		w.printf("    allow: unlimited\n")
	case d.limit.requests == 0:
		w.printf("    allow: none\n")
	default:
		w.printf("    allow: %d per %s\n    algorithm: fixed\n", d.limit.requests, units[d.limit.unit])
	}
	if d.shadow {
		w.printf("    shadow: true\n")
	}
	w.relations(d)
}

// conditions writes the conditions on the values of the entries. The conditions that exclude values are in "any" if
// there is another condition on the same attribute.
func (w *writer) conditions(path []branch, names []string) {
	var excluded []string
	for i, b := range path {
		positive, negative := b.positive(), b.negative()
		switch {
		case len(positive) > 0:
			w.printf("      %s: %s\n", names[i], writeMatchers(positive))
			if len(negative) > 0 {
				excluded = append(excluded, fmt.Sprintf("%s: {not: %s}", names[i], writeMatchers(negative)))
			}
		case len(negative) > 0:
			w.printf("      %s: {not: %s}\n", names[i], writeMatchers(negative))
		}
	}
	if len(excluded) > 0 {
		w.printf("      any: {%s}\n", strings.Join(excluded, ", "))
	}
}

// positive returns the matchers of which one must match the value. If there are none, each value matches.
func (b *branch) positive() []rules.Matcher {
	if b.exact {
		return []rules.Matcher{exactMatcher(b.value)}
	}
	return patternMatchers(b.patterns)
}

// negative returns the matchers of which none may match the value.
func (b *branch) negative() []rules.Matcher {
	var list []rules.Matcher
	for _, value := range b.exceptValues {
		list = append(list, exactMatcher(value))
	}
	return append(list, patternMatchers(b.exceptPatterns)...)
}

// exactMatcher returns the matcher of a value, which may be empty.
func exactMatcher(value string) rules.Matcher {
	if value == "" {
		return rules.Matcher{Kind: rules.Absent}
	}
	return rules.Matcher{Kind: rules.Exact, Text: value}
}

// patternMatchers returns the matchers of patterns in which only stars have a meaning.
func patternMatchers(patterns []string) []rules.Matcher {
	var list []rules.Matcher
	for _, p := range patterns {
		switch star := strings.IndexByte(p, '*'); {
		case star < 0:
			list = append(list, exactMatcher(p))
		case star > 0 && star == len(p)-1:
			list = append(list, rules.Matcher{Kind: rules.Prefix, Text: p[:star]})
		default:
			list = append(list, rules.Matcher{Kind: rules.Glob, Text: globOf(p)})
		}
	}
	return list
}

// per writes the attributes whose values have counters of their own.
func (w *writer) per(path []branch, names []string) {
	var per []string
	for i, b := range path {
		if !b.exact && !b.share {
			per = append(per, quote(names[i]))
		}
	}
	if len(per) > 0 {
		w.printf("    per: [%s]\n", strings.Join(per, ", "))
	}
}

// relations writes the key "envoy".
func (w *writer) relations(d *descriptor) {
	var parts []string
	if d.limit.name != "" {
		parts = append(parts, "name: "+quote(d.limit.name))
	}
	if len(d.limit.replaces) > 0 {
		texts := make([]string, len(d.limit.replaces))
		for i, name := range d.limit.replaces {
			texts[i] = quote(name)
		}
		parts = append(parts, "replaces: ["+strings.Join(texts, ", ")+"]")
	}
	if d.quota {
		parts = append(parts, "quota_mode: true")
	}
	if d.metadata != "" {
		parts = append(parts, "metadata: "+singleQuoted(d.metadata))
	}
	if len(parts) > 0 {
		w.printf("    envoy: {%s}\n", strings.Join(parts, ", "))
	}
}

// plain matches texts that need no quotes, and that a matcher reads as they are.
var plain = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9_./-]*$`)

// quote returns a text, in quotes if YAML would read another value without them.
func quote(text string) string {
	if plain.MatchString(text) && !strings.EqualFold(text, "null") {
		return text
	}
	return singleQuoted(text)
}

// writeKeys returns the matcher of a list of keys.
func writeKeys(keys []string) string {
	text := joinKeys(keys)
	if without := strings.ReplaceAll(text, ",", ""); without == quote(without) {
		return text // outside brackets, a comma needs no quotes
	}
	return exactMatcher(text).String()
}

// singleQuoted returns a text in the single quotes of YAML.
func singleQuoted(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// writeMatchers returns one matcher, or a list.
func writeMatchers(list []rules.Matcher) string {
	texts := make([]string, len(list))
	for i, m := range list {
		texts[i] = writeMatcher(m)
	}
	if len(texts) == 1 {
		return texts[0]
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// writeMatcher returns a matcher in its shortest form.
func writeMatcher(m rules.Matcher) string {
	switch {
	case m.Kind == rules.Exact && plain.MatchString(m.Text):
		return quote(m.Text)
	case m.Kind == rules.Prefix && plain.MatchString(m.Text):
		return m.Text + "*"
	}
	return m.String()
}
