package rediscli

import (
	"fmt"
	"maps"
	"regexp"
	"strings"
)

// patterns maps the types of holes to regular expressions. A hole such as <int> stands for
// a text that differs from run to run.
var patterns = map[string]string{
	"int":  `-?\d+`,
	"num":  `-?\d+(?:\.\d+)?`,
	"hex":  `[0-9a-f]+`,
	"word": `[^ "\\]*`,
	"any":  `.*?`,
}

var (
	hole     = regexp.MustCompile(`<(int|num|hex|word|any)(?::([a-z]\w*))?>`)
	variable = regexp.MustCompile(`<([a-z]\w*)>`)
)

// variables maps the names of holes, such as id in <int:id>, to the texts that these holes
// have matched.
type variables map[string]string

// fill replaces each variable in a text, such as <id>, with its value.
func (v variables) fill(text string) string {
	return variable.ReplaceAllStringFunc(text, func(name string) string {
		if value, known := v[strings.Trim(name, "<>")]; known {
			return value
		}
		return name
	})
}

// match reports whether the line got matches the expected line want. If so, it sets the
// variables of the named holes in want.
func (v variables) match(want, got string) bool {
	want = v.fill(want)
	var expr strings.Builder
	at := 0
	for _, m := range hole.FindAllStringSubmatchIndex(want, -1) {
		expr.WriteString(regexp.QuoteMeta(want[at:m[0]]))
		name := ""
		if m[4] >= 0 {
			name = "?P<" + want[m[4]:m[5]] + ">"
		}
		fmt.Fprintf(&expr, "(%s%s)", name, patterns[want[m[2]:m[3]]])
		at = m[1]
	}
	expr.WriteString(regexp.QuoteMeta(want[at:]))
	re := regexp.MustCompile(`^(?s:` + expr.String() + `)$`)
	m := re.FindStringSubmatch(got)
	if m == nil {
		return false
	}
	learned := variables{}
	for i, name := range re.SubexpNames() {
		if name != "" {
			learned[name] = m[i]
		}
	}
	maps.Copy(v, learned)
	return true
}

// literal reports whether a reply has no holes.
func literal(text string) bool { return !hole.MatchString(text) }
