package rules

import (
	"fmt"
	"iter"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// report collects the errors of a file. Its methods read single values.
type report struct {
	src     *source
	errs    Errors
	refused map[*yaml.Node]bool // nodes that have an error already
}

// decoder converts the maps of a file to the types of this package.
type decoder struct {
	*report
	loadZone  ZoneLoader
	amounts   []placedAmount // of the limit that is being decoded
	tierMaps  []value        // maps of tiers in the domain that is being decoded
	limitMaps []value        // maps of the limits of that domain
}

// value is a YAML node and its place.
type value struct {
	*yaml.Node
	place
}

// place leads to a node. The path is created only if it is needed.
type place struct {
	parent string // path of the map or list that contains the node
	kind   placeKind
	key    string // in a map
	item   int    // position in a list
}

// placeKind is the kind of a place.
type placeKind uint8

const (
	atParent placeKind = iota // the path is that of the parent
	atKey
	atItem
)

// path returns the path of the keys that lead to the node.
func (p place) path() string {
	switch p.kind {
	case atKey:
		return joinPath(p.parent, p.key)
	case atItem:
		return p.parent + "[" + strconv.Itoa(p.item) + "]"
	}
	return p.parent
}

// entry is one key of a map.
type entry struct{ key, value value }

// at returns the same node at the place of another.
func (v value) at(other value) value { return value{v.Node, other.place} }

// entries returns the entries of a map in the order of the file.
func (v value) entries() iter.Seq[entry] {
	return func(yield func(entry) bool) {
		path := v.path()
		for i := 0; i+1 < len(v.Content); i += 2 {
			key := v.Content[i]
			e := entry{value{key, place{parent: path}}, value{v.Content[i+1], place{parent: path, kind: atKey, key: key.Value}}}
			if !yield(e) {
				return
			}
		}
	}
}

// firstEntry returns the first entry of a map, which must not be empty.
func (v value) firstEntry() entry {
	for e := range v.entries() {
		return e
	}
	panic("rules: the map is empty")
}

// items returns the items of a list. Any other value is returned as the only item, because brackets are optional
// around one value.
func (v value) items() []value {
	if v.Kind != yaml.SequenceNode {
		return []value{v}
	}
	path := v.path()
	items := make([]value, len(v.Content))
	for i, item := range v.Content {
		items[i] = value{item, place{parent: path, kind: atItem, item: i}}
	}
	return items
}

// size returns the number of items.
func (v value) size() int {
	if v.Kind != yaml.SequenceNode {
		return 1
	}
	return len(v.Content)
}

// joinPath appends a key to a path. A key with other characters than letters, digits, "-" and "_" is quoted, and a long
// key is shortened.
func joinPath(path, key string) string {
	key = clip(key)
	if key == "" || strings.ContainsFunc(key, func(r rune) bool { return r == '.' || !isNameRune(r) }) {
		key = strconv.Quote(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// fail adds an error at a node, unless the node has one already.
func (r *report) fail(v value, reason, suggestion string) {
	if r.refused[v.Node] {
		return
	}
	r.refused[v.Node] = true
	e := r.src.errorAt(v.Line, v.Column, reason, suggestion)
	e.Path = v.path()
	r.errs = append(r.errs, e)
}

// text returns the source text of a scalar. ok is false if the value is something else; the error is added.
func (r *report) text(v value) (text string, ok bool) {
	if v.Kind != yaml.ScalarNode {
		r.fail(v, "the value must be a text", quoteHint(v))
	}
	return v.Value, !r.refused[v.Node]
}

// list calls f for each item of a list, or for the value itself if it is not a list.
func (r *report) list(v value, f func(value)) {
	if v.size() == 0 {
		r.fail(v, "the list is empty", "write at least one value")
	}
	if r.refused[v.Node] {
		return
	}
	if v.Kind != yaml.SequenceNode {
		f(v)
		return
	}
	for _, item := range v.items() {
		f(item)
	}
}

// isNameRune reports whether r may be in a name.
func isNameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.'
}

// name returns a name: the name of a domain, a limit, an attribute or a tier.
func (r *report) name(v value) (name string, ok bool) {
	name, ok = r.text(v)
	if ok && !isName(name) {
		r.fail(v, fmt.Sprintf(`%q is not a name`, clip(name)), `a name has 1 to 64 letters, digits, "-", "_" or "."`)
		return "", false
	}
	return name, ok
}

// isName reports whether text has 1 to 64 characters, all of which may be in a name.
func isName(text string) bool {
	return len(text) >= 1 && len(text) <= 64 && !strings.ContainsFunc(text, func(r rune) bool { return !isNameRune(r) })
}

// clip shortens a text for an error.
func clip(text string) string {
	const most = 80
	n := 0
	for i := range text {
		if n++; n > most {
			return text[:i] + "..."
		}
	}
	return text
}

// names returns a list of distinct names.
func (r *report) names(v value) []string {
	var names []string
	seen := map[string]bool{}
	r.list(v, func(item value) {
		name, ok := r.name(item)
		switch {
		case !ok:
		case seen[name]:
			r.fail(item, fmt.Sprintf("%q is repeated", name), "remove one of them")
		default:
			names = append(names, name)
			seen[name] = true
		}
	})
	return names
}

// integer returns an integer within a range. Only decimal digits are accepted: YAML has more forms, and libraries
// disagree about their meaning.
func (r *report) integer(v value, low, high int64) (n int64, ok bool) {
	text, ok := r.text(v)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != text || n < low || n > high {
		r.fail(v, fmt.Sprintf("%q is not an integer from %d to %d", clip(text), low, high),
			"write decimal digits only, without leading zeros")
		return 0, false
	}
	return n, true
}

// percent returns a percentage from 1 to 100.
func (r *report) percent(v value) int {
	text, ok := r.text(v)
	if !ok {
		return 0
	}
	digits, found := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(strings.TrimSuffix(digits, " "))
	if !found || err != nil || n < 1 || n > 100 || digits[0] == '+' || digits[0] == '0' {
		r.fail(v, fmt.Sprintf("%q is not a percentage", clip(text)),
			"write an integer from 1 to 100 and a percent sign, such as 10%")
		return 0
	}
	return n
}

// boolean returns the value of "true" or "false".
func (r *report) boolean(v value) bool {
	text, ok := r.text(v)
	if ok && text != "true" && text != "false" {
		r.fail(v, fmt.Sprintf("%q is not a boolean", clip(text)), "write true or false")
	}
	return text == "true"
}

// choose returns the index of the text in a list of choices, or 0 if the text is none of them.
func (r *report) choose(v value, choices []string) int {
	text, ok := r.text(v)
	if !ok {
		return 0
	}
	for i, choice := range choices {
		if text == choice {
			return i
		}
	}
	r.fail(v, fmt.Sprintf("%q is not one of the values of this key", clip(text)), suggest(text, choices))
	return 0
}
