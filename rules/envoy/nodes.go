package envoy

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/throttledhq/throttled/internal/nearest"
	"github.com/throttledhq/throttled/rules"
	"go.yaml.in/yaml/v3"
)

// allKeys are the keys of the service. It accepts each of them in each map, and ignores those that the map does not
// have.
var allKeys = []string{"domain", "descriptors", "key", "value", "rate_limit", "unit", "requests_per_unit", "unlimited", "name", "replaces",
	"shadow_mode", "quota_mode", "detailed_metric", "value_to_metric", "share_threshold", "metadata"}

// place is a place in a file.
type place struct {
	line, column int
	path         string // of keys, such as descriptors[0].rate_limit.unit
}

// placeOf returns the place of a node.
func placeOf(n *yaml.Node, path string) place {
	if n == nil {
		return place{path: path}
	}
	return place{n.Line, n.Column, path}
}

// reporter collects the errors and the notes of a file.
type reporter struct {
	file  string
	errs  rules.Errors
	notes []rules.Error
}

// fail adds an error. The suggestion may be empty.
func (r *reporter) fail(at place, reason, suggestion string) {
	r.errs = append(r.errs, rules.Error{File: r.file, Line: at.line, Column: at.column, Path: at.path, Reason: reason, Suggestion: suggestion})
}

// note adds a note about a part that is not converted although the file is valid.
func (r *reporter) note(at place, text string) {
	r.notes = append(r.notes, rules.Error{File: r.file, Line: at.line, Column: at.column, Path: at.path, Reason: text})
}

// resolve returns the node to which an alias refers, or the node itself.
func resolve(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// isNull reports whether a node has no value.
func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// fields returns the values of the known keys of a map. ok is false if n is not a map.
func (r *reporter) fields(n *yaml.Node, path string, known ...string) (fields map[string]*yaml.Node, ok bool) {
	n = resolve(n)
	if n.Kind != yaml.MappingNode {
		r.fail(placeOf(n, path), "the value must be a map", "write KEY: VALUE")
		return nil, false
	}
	fields = map[string]*yaml.Node{}
	merged := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		at := placeOf(key, strings.TrimPrefix(path+"."+key.Value, "."))
		switch _, repeated := fields[key.Value]; {
		case key.ShortTag() == "!!merge" && i == 0:
			merged = r.merged(n.Content[1], path, known)
		case key.ShortTag() == "!!merge":
			r.fail(at, "merge keys are converted only at the beginning of a map", "move this key to the first line of the map")
		case repeated:
			r.fail(at, fmt.Sprintf("%q is repeated, and the service ignores the first one", key.Value), "remove one of them")
		case !slices.Contains(allKeys, key.Value):
			r.fail(at, fmt.Sprintf("unknown key %q", key.Value), suggest(key.Value, known))
		case !slices.Contains(known, key.Value):
			r.note(at, "not converted, because the service ignores this key here")
		default:
			fields[key.Value] = n.Content[i+1]
		}
	}
	maps.Copy(merged, fields)
	return merged, true
}

// merged returns the values of the known keys of a map, or of several, that are merged into another map. The first map
// with a key has precedence.
func (r *reporter) merged(n *yaml.Node, path string, known []string) map[string]*yaml.Node {
	sources := []*yaml.Node{n}
	if n = resolve(n); n.Kind == yaml.SequenceNode {
		sources = n.Content
	}
	merged := map[string]*yaml.Node{}
	for _, source := range slices.Backward(sources) {
		source = resolve(source)
		if source.Kind == yaml.MappingNode && len(source.Content) > 0 && source.Content[0].ShortTag() == "!!merge" {
			r.fail(placeOf(source.Content[0], path), "a map that is merged into another has a merge key itself", "repeat the keys")
			continue
		}
		fields, _ := r.fields(source, path, known...)
		maps.Copy(merged, fields)
	}
	return merged
}

// suggest returns the remedy for an unknown key.
func suggest(word string, known []string) string {
	if near := nearest.Word(word, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "write one of: " + strings.Join(known, ", ")
}

// text returns the text of a scalar, or "" if there is none.
func (r *reporter) text(n *yaml.Node, path string) string {
	n = resolve(n)
	switch {
	case n == nil:
		return ""
	case n.Kind != yaml.ScalarNode:
		r.fail(placeOf(n, path), "the value must be a text", "write one text")
		return ""
	case n.ShortTag() == "!!float":
		r.fail(placeOf(n, path), fmt.Sprintf("%s is a floating-point number, which the service refuses", n.Value), "put it in quotes")
	case n.ShortTag() == "!!int" && n.Decode(new(int64)) != nil:
		r.fail(placeOf(n, path), fmt.Sprintf("%s is an integer above 9223372036854775807, which the service refuses", n.Value), "put it in quotes")
	case isNull(n):
		return ""
	case strings.ContainsFunc(n.Value, isRefused):
		r.fail(placeOf(n, path), fmt.Sprintf("%q has a control character or a line end, which a rules file cannot have", n.Value), "remove it")
	}
	return n.Value
}

// isRefused reports whether a rules file cannot have the character.
func isRefused(r rune) bool {
	return unicode.IsControl(r) || r == 0x2028 || r == 0x2029 || r == 0xFEFF || r&0xFFFE == 0xFFFE
}

// booleans are the texts without quotes that the service reads as booleans, besides true and false.
var booleans = map[string]bool{
	"y": true, "Y": true, "yes": true, "Yes": true, "YES": true, "on": true, "On": true, "ON": true,
	"n": false, "N": false, "no": false, "No": false, "NO": false, "off": false, "Off": false, "OFF": false,
}

// boolean returns the value of a boolean, or false if there is none.
func (r *reporter) boolean(n *yaml.Node, path string) bool {
	if n = resolve(n); n == nil || isNull(n) {
		return false
	}
	if b, ok := booleanOf(n); ok {
		return b
	}
	r.fail(placeOf(n, path), fmt.Sprintf("%q is not a boolean", n.Value), "write true or false, without quotes")
	return false
}

// booleanOf returns the boolean that the service makes of a scalar.
func booleanOf(n *yaml.Node) (b, ok bool) {
	if n.Kind != yaml.ScalarNode || n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
		return false, false
	}
	if n.ShortTag() == "!!bool" {
		return strings.EqualFold(n.Value, "true"), true
	}
	b, ok = booleans[n.Value]
	return b, ok
}

// metadata returns a map as JSON.
func (r *reporter) metadata(n *yaml.Node, path string) string {
	switch {
	case isNull(n):
		return ""
	case n.Kind != yaml.MappingNode:
		r.fail(placeOf(n, path), "the value must be a map", "write KEY: VALUE")
		return ""
	}
	text, err := json.Marshal(r.anyValue(n, path, 1))
	if err != nil {
		r.fail(placeOf(n, path), fmt.Sprintf("the metadata has no form in JSON: %v", err), "write finite numbers")
	}
	return string(text)
}

// anyValue returns the value of metadata.
func (r *reporter) anyValue(n *yaml.Node, path string, depth int) any {
	n = resolve(n)
	if depth > 32 {
		r.fail(placeOf(n, path), "maps and lists are nested more than 32 times", "")
		return nil
	}
	switch n.Kind {
	case yaml.MappingNode:
		m := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i].Value
			m[key] = r.anyValue(n.Content[i+1], path+"."+key, depth+1)
		}
		return m
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, item := range n.Content {
			list[i] = r.anyValue(item, fmt.Sprintf("%s[%d]", path, i), depth+1)
		}
		return list
	}
	if b, ok := booleanOf(n); ok {
		return b
	}
	var v any
	if tag := n.ShortTag(); tag == "!!timestamp" || n.Decode(&v) != nil {
		return n.Value
	}
	return v
}
