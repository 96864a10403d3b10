package rules

import (
	"bytes"
	"net/netip"
	"strings"

	"github.com/throttledhq/throttled/internal/glob"
)

// clause is a compiled When.
type clause struct {
	all []condition
	any []clause
}

// condition is a compiled condition on one attribute.
type condition struct {
	attribute attributeID
	matcher   compiledMatcher
}

// compiledMatcher is a compiled Matcher.
type compiledMatcher struct {
	kind MatcherKind
	text string           // Exact, Prefix and Glob
	more *compiledOperand // the other kinds, except Present and Absent
}

// compiledOperand has the parts of a matcher that few matchers have.
type compiledOperand struct {
	network  netip.Prefix      // CIDR
	segments []string          // Template; see splitTemplate
	open     bool              // Template: the rest of the path is arbitrary
	list     []compiledMatcher // AnyOf; Not has exactly one
}

// matches reports whether a request meets all conditions, and one of any.
func (c *clause) matches(r *request) bool {
	for i := range c.all {
		if !c.all[i].matches(r) {
			return false
		}
	}
	for i := range c.any {
		if c.any[i].matches(r) {
			return true
		}
	}
	return len(c.any) == 0
}

func (c *condition) matches(r *request) bool { return c.matcher.matches(r, c.attribute) }

// matches reports whether the value of an attribute matches. See Matcher.matches.
func (m *compiledMatcher) matches(r *request, id attributeID) bool {
	switch m.kind {
	case Absent:
		return len(r.text(id)) == 0
	case Not:
		return !m.more.list[0].matches(r, id)
	case AnyOf:
		return m.more.matchesAny(r, id)
	case CIDR:
		return m.more.network.Contains(r.address(id))
	}
	text := r.text(id)
	return len(text) > 0 && m.matchesText(text)
}

// matchesAny reports whether an element of the list matches.
func (o *compiledOperand) matchesAny(r *request, id attributeID) bool {
	for i := range o.list {
		if o.list[i].matches(r, id) {
			return true
		}
	}
	return false
}

// matchesText reports whether a text that is not empty matches.
func (m *compiledMatcher) matchesText(text []byte) bool {
	switch m.kind {
	case Exact:
		return string(text) == m.text
	case Prefix:
		return hasPrefix(text, m.text)
	case Template:
		return m.more.matchesPath(text)
	case Glob:
		return glob.Match(m.text, text)
	}
	return true // Present
}

func hasPrefix(text []byte, prefix string) bool {
	return len(text) >= len(prefix) && string(text[:len(prefix)]) == prefix
}

// anySegment is the segment of a template that any non-empty segment matches. No other segment of a template has a brace.
const anySegment = "{"

// matchesPath reports whether a path matches a template.
func (o *compiledOperand) matchesPath(path []byte) bool {
	rest, more := path, true
	for _, want := range o.segments {
		if !more {
			return false
		}
		var segment []byte
		segment, rest, more = cutSegment(rest)
		if want == anySegment && len(segment) == 0 || want != anySegment && string(segment) != want {
			return false
		}
	}
	return more == o.open
}

// cutSegment cuts a path around its first slash. more reports whether it has one.
func cutSegment(path []byte) (segment, rest []byte, more bool) {
	if at := bytes.IndexByte(path, '/'); at >= 0 {
		return path[:at], path[at+1:], true
	}
	return path, nil, false
}

// splitTemplate returns the segments of a template. open reports whether the last segment is "*", which is not in the
// list. The first segment is the empty text before the first slash.
func splitTemplate(text string) (segments []string, open bool) {
	text, open = strings.CutSuffix(text, "/*")
	segments = strings.Split(text, "/")
	for i, segment := range segments {
		if strings.HasPrefix(segment, "{") {
			segments[i] = anySegment
		}
	}
	return segments, open
}
