package rules

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxDepth is the maximum number of maps and lists inside each other.
const maxDepth = 16

// checkTree refuses the features of YAML that change the meaning of a text, or that readers may misunderstand: aliases,
// merge keys, tags, text over several lines, missing values, repeated keys. The decoder skips the nodes that it marks.
func (d *decoder) checkTree(v value, depth int) {
	switch {
	case depth > maxDepth && v.Kind != yaml.ScalarNode:
		d.fail(v, fmt.Sprintf("maps and lists are nested more than %d times", maxDepth), "")
	case v.Kind == yaml.AliasNode:
		d.fail(v, fmt.Sprintf(`"*%s" is an alias, and aliases are not allowed`, v.Value), "repeat the value, or put a text that begins with * in quotes")
	case v.Anchor != "":
		d.fail(v, fmt.Sprintf(`"&%s" is an anchor, and anchors are not allowed`, v.Anchor), "put a text that begins with & in quotes")
	case v.Style&yaml.TaggedStyle != 0, v.Style&^yaml.FlowStyle == 0 && strings.HasPrefix(d.src.from(v.Line, v.Column), "!"):
		d.fail(v, "tags are not allowed", "put a text that begins with ! in quotes")
	case v.Kind == yaml.MappingNode:
		d.checkEntries(v, depth)
	case v.Kind == yaml.SequenceNode:
		for _, item := range v.items() {
			d.checkTree(item, depth+1)
		}
	default:
		d.checkScalar(v)
	}
}

// checkEntries checks the keys and the values of a map.
func (d *decoder) checkEntries(v value, depth int) {
	seen := map[string]int{}
	for _, e := range v.entries() {
		d.checkTree(e.key, depth+1)
		line, repeated := seen[e.key.Value]
		switch {
		case d.refused[e.key.Node]:
		case e.key.Kind != yaml.ScalarNode:
			d.fail(e.key, "a key must be a text", quoteHint(e.key))
		case e.key.Tag == "!!merge":
			d.fail(e.key, `"<<" is a merge key, and merge keys are not allowed`, "repeat the keys")
		case repeated:
			d.fail(e.key, fmt.Sprintf("%q is repeated: its first value is in line %d", e.key.Value, line), "remove one of them")
		case isMissing(e.value):
			d.fail(e.key.under(e.value.path), fmt.Sprintf("%q has no value", e.key.Value), missingHint(v))
		default:
			seen[e.key.Value] = e.key.Line
			d.checkTree(e.value, depth+1)
		}
	}
}

// isMissing reports whether a value was left out.
func isMissing(v value) bool {
	return v.Kind == yaml.ScalarNode && v.Value == "" && v.Tag == "!!null" && v.Anchor == "" && v.Style == 0
}

// missingHint returns the remedy for a key without a value in the map v.
func missingHint(v value) string {
	if v.Style&yaml.FlowStyle != 0 {
		return "put text that contains a comma, a bracket or a brace in quotes"
	}
	return "remove the key, or write a value"
}

// quoteHint returns the remedy for a map or list where a text is needed.
func quoteHint(v value) string {
	switch {
	case v.Kind == yaml.MappingNode && v.Style&yaml.FlowStyle != 0:
		return "put text with { or } in quotes"
	case v.Kind == yaml.SequenceNode && v.Style&yaml.FlowStyle != 0:
		return "put text with [ or ] in quotes"
	}
	return ""
}

// checkScalar refuses null, and text over several lines.
func (d *decoder) checkScalar(v value) {
	switch {
	case v.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		d.fail(v, "text over several lines is not allowed", "write the text on one line")
	case v.Style != 0:
	case v.Tag == "!!null" && v.Value == "":
		d.fail(v, "the value is empty", "remove it, or write a value")
	case v.Tag == "!!null":
		d.fail(v, fmt.Sprintf("%q is YAML's empty value", v.Value), "put it in quotes if it is a text")
	case !strings.HasPrefix(d.src.from(v.Line, v.Column), v.Value):
		d.fail(v, "text over several lines is not allowed", "write the text on one line")
	}
}
