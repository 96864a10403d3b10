package rules

import (
	"bytes"
	"net/netip"
	"strings"

	"github.com/throttledhq/throttled/internal/glob"
)

// clause is a compiled When.
type clause struct {
	all      []condition
	any      []clause
	anyIndex *index // of any; nil if it is short
}

// condition is a compiled condition on one attribute.
type condition struct {
	attribute attributeID
	matcher   compiledMatcher
}

// compiledMatcher is a compiled Matcher.
type compiledMatcher struct {
	kind MatcherKind
	text string           // Exact, Prefix, Glob; Template with "{" for each variable; else empty
	more *compiledOperand // the other kinds, except Present and Absent
}

// compiledOperand has the parts of a matcher that few matchers have.
type compiledOperand struct {
	network  netip.Prefix      // CIDR
	segments []string          // Template; see splitTemplate
	open     bool              // Template: the rest of the path is arbitrary
	list     []compiledMatcher // AnyOf; Not has exactly one
	index    *index            // of the list of AnyOf; nil if it is short
}

// matches reports whether a request meets all conditions, and one of any.
func (c *clause) matches(r *request) bool {
	for i := range c.all {
		if !c.all[i].matches(r) {
			return false
		}
	}
	return len(c.any) == 0 ||
		r.first(c.anyIndex, len(c.any), func(i int) bool { return c.any[i].matches(r) }) >= 0
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
	return r.first(o.index, len(o.list), func(i int) bool { return o.list[i].matches(r, id) }) >= 0
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

// joinTemplate is the opposite of splitTemplate, except that the names of variables are lost.
func joinTemplate(segments []string, open bool) string {
	if open {
		segments = append(segments[:len(segments):len(segments)], "*")
	}
	return strings.Join(segments, "/")
}
