package rediscli

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/throttledhq/throttled/resp"
)

// node is a parsed reply of a script: a value in the format of redis-cli --no-raw, or an aggregate
// of nodes.
type node struct {
	shown    string
	kind     *aggregate // nil for a value
	elements []node
}

// aggregate describes a type of aggregate reply. The fields open and end are its brackets in scripts. In the output of
// redis-cli, mark follows the number of an element, and empty is the text of an aggregate without elements.
type aggregate struct{ open, end, mark, empty string }

var aggregates = []aggregate{
	{"[", "]", ")", "(empty array)"},
	{"~[", "]", "~", "(empty set)"},
	{"{", "}", "#", "(empty hash)"},
}

// render returns the output of redis-cli. prefix indents all lines except the first.
func (n node) render(prefix string) string {
	switch {
	case n.kind == nil:
		return n.shown
	case len(n.elements) == 0:
		return n.kind.empty
	}
	step := 1
	if n.kind.open == "{" {
		step = 2
	}
	width := len(fmt.Sprint(len(n.elements) / step))
	inner := prefix + strings.Repeat(" ", width+2)
	var shown []string
	for i := 0; i < len(n.elements); i += step {
		line := fmt.Sprintf("%*d%s %s", width, i/step+1, n.kind.mark, n.elements[i].render(inner))
		if step == 2 {
			value := n.elements[i+1].render(inner)
			if strings.Contains(value, "\n") {
				line += " => \n" + inner + value
			} else {
				line += " => " + value
			}
		}
		shown = append(shown, line)
	}
	return strings.Join(shown, "\n"+prefix)
}

// parseReply parses a reply of a script.
func parseReply(text string) (node, error) {
	p := replyParser{text}
	switch {
	case strings.HasPrefix(text, `+"`) || strings.HasPrefix(text, `-"`):
		// The text is quoted because it ends with a space.
	case strings.HasPrefix(text, "+"):
		return node{shown: text[1:]}, nil
	case isError(text):
		return node{shown: "(error) " + text[1:]}, nil
	}
	n, err := p.value()
	if err == nil && p.rest != "" {
		err = errors.New("text after the reply")
	}
	if err != nil {
		return n, fmt.Errorf("parse the reply %s at %q: %w", text, p.rest, err)
	}
	return n, nil
}

type replyParser struct{ rest string }

var (
	quoted  = regexp.MustCompile(`^"(?:[^"\\]|\\.)*"`)
	word    = regexp.MustCompile(`^(?:<\w+(?::\w+)?>|[^][{}": ]+)`)
	integer = regexp.MustCompile(`^(?:-?\d+|<int(?::\w+)?>)$`)
)

func isError(s string) bool { return strings.HasPrefix(s, "-") && !integer.MatchString(s) }

func (p *replyParser) value() (node, error) {
	for i, a := range aggregates {
		if strings.HasPrefix(p.rest, a.open) {
			return p.aggregate(&aggregates[i])
		}
	}
	if s := quoted.FindString(p.rest); s != "" {
		return p.valueNode(s, s)
	}
	for opening, shown := range map[string]string{`txt"`: "", `+"`: "", `-"`: "(error) "} {
		if strings.HasPrefix(p.rest, opening) {
			return p.bare(strings.TrimSuffix(opening, `"`), shown)
		}
	}
	s := word.FindString(p.rest)
	switch {
	case s == "":
		return node{}, errors.New("missing value")
	case s == "nil" && strings.HasPrefix(p.rest, "nil[]"):
		return p.valueNode("(nil)", "nil[]")
	case s == "nil" || s == "null":
		return p.valueNode("(nil)", s)
	case integer.MatchString(s):
		return p.valueNode("(integer) "+s, s)
	case isError(s):
		return p.valueNode("(error) "+s[1:], s)
	case strings.HasPrefix(s, "+") || strings.HasPrefix(s, "<"):
		return p.valueNode(strings.TrimPrefix(s, "+"), s)
	}
	return node{}, errors.New("invalid value")
}

// take skips s at the start of the rest.
func (p *replyParser) take(s string) { p.rest = p.rest[len(s):] }

// valueNode skips text, the notation of a value, and returns the node of the value. The
// parameter shown is the value as redis-cli prints it.
func (p *replyParser) valueNode(shown, text string) (node, error) {
	p.take(text)
	return node{shown: shown}, nil
}

// bare parses a quoted text that is shown without quotes.
func (p *replyParser) bare(opening, shown string) (node, error) {
	p.take(opening)
	s := quoted.FindString(p.rest)
	words, err := resp.SplitLine(nil, []byte(s))
	if err != nil || len(words) != 1 {
		return node{}, errors.New("missing quoted text")
	}
	return p.valueNode(shown+string(words[0]), s)
}

func (p *replyParser) aggregate(kind *aggregate) (node, error) {
	n := node{kind: kind}
	p.take(kind.open)
	for !strings.HasPrefix(p.rest, kind.end) {
		if len(n.elements) > 0 {
			p.rest = strings.TrimLeft(p.rest, " :")
		}
		element, err := p.value()
		if err != nil {
			return n, err
		}
		n.elements = append(n.elements, element)
	}
	if kind.open == "{" && len(n.elements)%2 != 0 {
		return n, errors.New("key without a value")
	}
	p.take(kind.end)
	return n, nil
}
