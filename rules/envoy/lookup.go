package envoy

import (
	"slices"
	"strings"

	"github.com/throttledhq/throttled/internal/glob"
)

// branch is a descriptor of a list that entries with a certain key select, and the condition on their value.
type branch struct {
	*descriptor
	exact    bool     // the value must be equal to value
	value    string   // "" if the value must be empty
	patterns []string // the value must match one of these; if empty, each value matches, unless exact is set

	exceptValues   []string // the value must be different from these
	exceptPatterns []string // and must match none of these
}

// branches returns the descriptors of a list that entries with the given key select, in the order in which the service
// looks for them: the same value, wildcards in the order of the file, no value.
//
// The service compares the text key_value, not the key and the value. A descriptor with the key "a_b" and no value thus
// also matches an entry with the key "a" and the value "b".
func branches(list []*descriptor, key string) []branch {
	all := exactBranches(list, key)
	var values, patterns textIndex // that select earlier branches
	for _, b := range all {
		values.add(b.value)
	}
	for _, b := range wildcardBranches(list, key) {
		if b.patterns = slices.DeleteFunc(b.patterns, patterns.match); b.patterns != nil && len(b.patterns) == 0 {
			continue // earlier wildcards match all of its values
		}
		b.exceptValues, b.exceptPatterns = matching(values.overlapping(b.patterns...), b.patterns), patterns.overlapping(b.patterns...)
		all = append(all, b)
		if len(b.patterns) == 0 {
			return all // no value is left
		}
		patterns.add(b.patterns...)
	}
	for _, d := range list {
		if d.composite == key {
			all = append(all, branch{descriptor: d, exceptValues: values.list, exceptPatterns: patterns.list})
		}
	}
	return all
}

// exactBranches returns the descriptors that entries with the key select by their whole text. The text of a descriptor
// with a wildcard is also compared, but that makes no difference unless an earlier wildcard matches it.
func exactBranches(list []*descriptor, key string) []branch {
	var found []branch
	var before textIndex // patterns of earlier wildcards
	for _, d := range list {
		rest, ok := strings.CutPrefix(d.composite, key+"_")
		wildcard := strings.Contains(d.composite, "*")
		if ok && (!wildcard || before.match(rest)) {
			found = append(found, branch{descriptor: d, exact: true, value: rest})
		}
		if wildcard {
			before.add(residuals(d.composite, key+"_")...)
		}
	}
	return found
}

// wildcardBranches returns the descriptors with wildcards that entries with the key can match.
func wildcardBranches(list []*descriptor, key string) []branch {
	var found []branch
	for _, d := range list {
		if !strings.Contains(d.composite, "*") {
			continue
		}
		patterns := residuals(d.composite, key+"_")
		switch {
		case slices.ContainsFunc(patterns, matchesAll):
			found = append(found, branch{descriptor: d})
		case len(patterns) > 0:
			found = append(found, branch{descriptor: d, patterns: patterns})
		}
	}
	return found
}

// matchesAll reports whether a pattern has only wildcards.
func matchesAll(pattern string) bool { return pattern != "" && strings.Trim(pattern, "*") == "" }

// residuals returns patterns that match a text exactly if the pattern matches the text after a prefix. The only
// character of a pattern with a meaning is "*". The list is empty if the pattern matches no text with the prefix.
func residuals(pattern, prefix string) []string {
	positions := skipStars(pattern, map[int]bool{0: true}) // at which the rest of the pattern begins
	for i := range len(prefix) {
		next := map[int]bool{}
		for at := range positions {
			switch {
			case at < len(pattern) && pattern[at] == '*':
				next[at] = true
			case at < len(pattern) && pattern[at] == prefix[i]:
				next[at+1] = true
			}
		}
		positions = skipStars(pattern, next)
	}
	return residualTexts(pattern, positions)
}

// skipStars adds the positions after stars, since a star may match nothing.
func skipStars(pattern string, positions map[int]bool) map[int]bool {
	for at := range len(pattern) {
		if positions[at] && pattern[at] == '*' {
			positions[at+1] = true
		}
	}
	return positions
}

// residualTexts returns the rest of the pattern from each position. Rests that match less than another are left out: those
// before the last star, and the one directly after it.
func residualTexts(pattern string, positions map[int]bool) []string {
	star := -1
	for at := range positions {
		if at < len(pattern) && pattern[at] == '*' {
			star = max(star, at)
		}
	}
	var rests []string
	for at := range len(pattern) + 1 {
		if positions[at] && at >= star && (star < 0 || at != star+1) {
			rests = append(rests, pattern[at:])
		}
	}
	return rests
}

// matching returns the values that one of the patterns matches. If there are no patterns, it returns all values.
func matching(values, patterns []string) []string {
	var list []string
	for _, value := range values {
		if len(patterns) == 0 || matchesAny(patterns, value) {
			list = append(list, value)
		}
	}
	return list
}

// matchesAny reports whether a value matches one of the patterns.
func matchesAny(patterns []string, value string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return glob.Match(globOf(p), value) })
}

var escapeGlob = strings.NewReplacer(`\`, `\\`, `?`, `\?`, `[`, `\[`)

// globOf returns the pattern of package glob for a pattern in which only stars have a meaning.
func globOf(pattern string) string { return escapeGlob.Replace(pattern) }
